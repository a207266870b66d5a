"""What a job drew by the counters of this machine, from stored telemetry; else why nobody knows.

Of accelerators it is what their counters moved while the job held them, times its share of each.
Cores have no counter of their own: their package has, and of that a job gets its share of the
processor time that the whole machine used meanwhile. It is worked out when somebody asks, so it is
known for as long as telemetry is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from flyball.control.jobs.adjustments import TUNED
from flyball.control.jobs.usage import MOST_SPANS, Span, spans_of
from flyball.core.jobs import Job
from flyball.core.live import EventKind, LiveNode
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S

PACKAGE = re.compile(r"power\.package_\w+_energy_j_total")
CPU_TIMES = ("compute.user_s_total", "compute.system_s_total")
BY_DEVICES = "device counters"
BY_PACKAGE = "package counter, its share of CPU time"
LEAST_S = 3.0
"""Of an attempt: counters are read once a second."""
GAP_S = 10.0
"""Between two readings: beyond, telemetry was missing, and counters may have begun anew."""
EDGE_S = 3.0
"""By which the first and the last reading may miss an attempt's begin and end."""


class Measures(Protocol):
    """What was measured: `monitor.reader.Telemetry`."""

    def latest(self) -> dict[str, Any]: ...
    def status(self) -> dict[str, Any]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class Energy(NamedTuple):
    """Joules and by what they were measured; None and why they were not."""

    joules: float | None
    note: str


NOT_ASKED = Energy(None, "")


class _UnknownError(Exception):
    """It cannot be known, for this reason."""


def measured(job: Job, nodes: Sequence[LiveNode], sensors: Measures | None, now_us: int) -> Energy:
    """What all attempts of a job drew."""
    if sensors is None or not job.first_start_us:
        return NOT_ASKED
    spans = spans_of(job, now_us)
    try:
        packages = [name for name in sensors.latest() if PACKAGE.fullmatch(name)]
        if not packages and not job.spec.gpus:
            raise _UnknownError("no energy counter is read here")
        _check(job, spans)
        counters = _Counters(sensors, (now_us - job.first_start_us) / US_PER_S + GAP_S)
        if job.spec.gpus:
            names = _device_names(sensors.status())
            drawn = (_of_devices(each, job, nodes, names, counters) for each in spans)
            return Energy(sum(drawn), BY_DEVICES)
        return Energy(sum(_of_cores(each, packages, counters) for each in spans), BY_PACKAGE)
    except _UnknownError as reason:
        return Energy(None, str(reason))


def _check(job: Job, spans: Sequence[Span]) -> None:
    if not spans:
        raise _UnknownError("it is not known when it ran")
    if len(spans) >= MOST_SPANS and spans[0].began_us > job.first_start_us:
        raise _UnknownError("not all its attempts are on record")
    if min(each.over_us - each.began_us for each in spans) < LEAST_S * US_PER_S:
        raise _UnknownError(f"an attempt of less than {LEAST_S:g} s is too short for counters")


def _device_names(status: Mapping[str, Any]) -> dict[str, str]:
    """What the agent calls the devices, by their ids."""
    about = status.get("sensors", {}).get("nvidia", {}).get("about", {})
    return {uuid: name for name, uuid in about.items() if name.startswith("gpu")}


def _of_devices(
    span: Span,
    job: Job,
    nodes: Sequence[LiveNode],
    names: Mapping[str, str],
    counters: _Counters,
) -> float:
    if _was_moved(span, job.values.get(TUNED, {})):
        raise _UnknownError("its GPUs changed while it ran")
    joules = 0.0
    for row in span.rows:
        held = [at for at in range(row.mask.bit_length()) if row.mask >> at & 1]
        # A control plane may have begun anew with other nodes since.
        uuids = dict(enumerate(nodes[row.node].uuids)) if row.node < len(nodes) else {}
        for device in held:
            name = names.get(uuids.get(device, ""))
            if name is None:
                raise _UnknownError("no energy counter of its GPUs is read here")
            joules += counters.moved(f"nvidia.{name}.energy_j_total", span)
    return joules * job.spec.milli / MILLI_PER_DEVICE


def _was_moved(span: Span, tuned: Mapping[str, Any]) -> bool:
    return any(
        each["what"] == EventKind.RESIZED and span.began_us < each["time"] * US_PER_S < span.over_us
        for each in tuned.get("log", ())
    )


def _of_cores(span: Span, packages: Sequence[str], counters: _Counters) -> float:
    if span.cpu_s is None:
        raise _UnknownError("the processor time of an attempt is not known (yet)")
    joules = sum(counters.moved(name, span) for name in packages)
    machine_s = sum(counters.moved(name, span) for name in CPU_TIMES)
    # Both are counts of the kernel's, but not to the same tick.
    return joules * min(1.0, span.cpu_s / machine_s) if machine_s else 0.0


class _Counters:
    """Totals over the life of a job, each read once."""

    def __init__(self, sensors: Measures, seconds: float) -> None:
        self._sensors, self._seconds = sensors, seconds
        self._known: dict[str, tuple[Any, Any]] = {}

    def moved(self, name: str, span: Span) -> float:
        """By how much a total grew in a span.

        Raises:
            _UnknownError: it was not read all the time, or began anew.
        """
        if name not in self._known:
            # The agent's clock may be a little behind: what is asked for is counted back from it.
            self._known[name] = self._sensors.series(name, self._seconds)
        times, values = self._known[name]
        began_s, over_s = span.began_us / US_PER_S, span.over_us / US_PER_S
        near = (times >= began_s - EDGE_S) & (times <= over_s + EDGE_S)
        times, values = times[near], values[near]
        if not len(times):
            raise _UnknownError(f"{name} was not read while it ran")
        first_s, last_s = max(began_s, times[0]), min(over_s, times[-1])
        late = first_s > began_s + EDGE_S or last_s < over_s - EDGE_S
        if late or len(times) < 2 or np.diff(times).max() > GAP_S:
            raise _UnknownError(f"{name} was not read all the time it ran")
        if np.diff(values).min() < 0:
            raise _UnknownError(f"{name} began anew while it ran")
        begin, end = np.interp((first_s, last_s), times, values)
        return float((end - begin) * (over_s - began_s) / (last_s - first_s))
