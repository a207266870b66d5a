"""Energy of a job by the machine's counters, from stored telemetry; or the reason it is not known.

For accelerators it is the growth of their counters while the job held them, times its share of
each. Cores have no counter each, but their package has one: a job gets its share of the CPU time
that the whole machine used meanwhile. The energy is computed on request, so it is available for as
long as telemetry is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from flyball.control.ask.bills import Piece
from flyball.control.jobs.adjustments import TUNED
from flyball.control.jobs.usage import MOST_SPANS, Span, spans_of
from flyball.core.events import Resized
from flyball.core.jobs import Job
from flyball.core.live import LiveNode
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S

PACKAGE = re.compile(r"power\.package_\w+_energy_j_total")
CPU_TIMES = ("compute.user_s_total", "compute.system_s_total")
BY_DEVICES = "device counters"
BY_PACKAGE = "package counter, its share of CPU time"
MIN_ATTEMPT_S = 3.0
"""Shortest attempt that is measured: counters are read once a second."""
MAX_GAP_S = 10.0
"""Longest gap between two readings: beyond it, counters may have been reset."""
PIECE_S = 60.0
"""Length of the parts of a run whose energy is told apart; prices change at full minutes."""
MOST_PIECES = 2000
"""Maximum number of such parts; those of a longer run are some minutes long."""
EDGE_S = 3.0
"""Tolerance between the first and last readings and the begin and end of an attempt."""


class Measures(Protocol):
    """Reads measurements: `monitor.reader.Telemetry`."""

    def latest(self) -> dict[str, Any]: ...
    def status(self) -> dict[str, Any]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class Energy(NamedTuple):
    """Holds joules and how they were measured; or None and why they were not.

    Attributes:
        pieces: when they were used.
    """

    joules: float | None
    note: str
    pieces: tuple[Piece, ...] = ()


NOT_ASKED = Energy(None, "")


class _NotMeasured(Exception):
    """Raised with the reason why the energy cannot be measured."""


def measured(job: Job, nodes: Sequence[LiveNode], sensors: Measures | None, now_us: int) -> Energy:
    """Return the energy that all attempts of a job drew."""
    if sensors is None or not job.first_start_us:
        return NOT_ASKED
    spans = spans_of(job, now_us)
    try:
        packages = [name for name in sensors.latest() if PACKAGE.fullmatch(name)]
        if not packages and not job.spec.gpus:
            raise _NotMeasured("no energy counter is read here")
        _check(job, spans)
        counters = _Counters(sensors, (now_us - job.first_start_us) / US_PER_S + MAX_GAP_S)
        if job.spec.gpus:
            names = _device_names(sensors.status())
            drawn = [_device_energy(span, job, nodes, names, counters) for span in spans]
            return _energy(drawn, BY_DEVICES)
        return _energy([_core_energy(span, packages, counters) for span in spans], BY_PACKAGE)
    except _NotMeasured as reason:
        return Energy(None, str(reason))


def _energy(spans: Sequence[list[Piece]], note: str) -> Energy:
    pieces = tuple(piece for span in spans for piece in span)
    return Energy(sum(piece.joules for piece in pieces), note, pieces)


def _check(job: Job, spans: Sequence[Span]) -> None:
    if not spans:
        raise _NotMeasured("it is not known when it ran")
    if len(spans) >= MOST_SPANS and spans[0].began_us > job.first_start_us:
        raise _NotMeasured("not all its attempts are on record")
    if min(span.over_us - span.began_us for span in spans) < MIN_ATTEMPT_S * US_PER_S:
        raise _NotMeasured(f"an attempt of less than {MIN_ATTEMPT_S:g} s is too short for counters")


def _device_names(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the agent's names of the devices, by uuid."""
    about = status.get("sensors", {}).get("nvidia", {}).get("about", {})
    return {uuid: name for name, uuid in about.items() if name.startswith("gpu")}


def _device_energy(
    span: Span,
    job: Job,
    nodes: Sequence[LiveNode],
    names: Mapping[str, str],
    counters: _Counters,
) -> list[Piece]:
    if _was_resized(span, job.values.get(TUNED, {})):
        raise _NotMeasured("its GPUs changed while it ran")
    drawn: list[Piece] = []
    for row in span.rows:
        held = [at for at in range(row.mask.bit_length()) if row.mask >> at & 1]
        # The control plane may have been restarted with other nodes since.
        uuids = dict(enumerate(nodes[row.node].uuids)) if row.node < len(nodes) else {}
        for device in held:
            name = names.get(uuids.get(device, ""))
            if name is None:
                raise _NotMeasured("no energy counter of its GPUs is read here")
            drawn += counters.pieces(f"nvidia.{name}.energy_j_total", span)
    return _shared(drawn, job.spec.milli / MILLI_PER_DEVICE)


def _shared(pieces: Sequence[Piece], share: float) -> list[Piece]:
    return [piece._replace(joules=piece.joules * share) for piece in pieces]


def _was_resized(span: Span, tuned: Mapping[str, Any]) -> bool:
    return any(
        entry["what"] == Resized.kind and span.began_us < entry["time"] * US_PER_S < span.over_us
        for entry in tuned.get("log", ())
    )


def _core_energy(span: Span, packages: Sequence[str], counters: _Counters) -> list[Piece]:
    if span.cpu_s is None:
        raise _NotMeasured("the CPU time of an attempt is not known (yet)")
    drawn = [piece for name in packages for piece in counters.pieces(name, span)]
    machine_s = sum(counters.growth(name, span) for name in CPU_TIMES)
    # The kernel counts both, but not at the same tick.
    return _shared(drawn, min(1.0, span.cpu_s / machine_s) if machine_s else 0.0)


class _Counters:
    """Reads counters over the life of a job, each once."""

    def __init__(self, sensors: Measures, seconds: float) -> None:
        self._sensors, self._seconds = sensors, seconds
        self._series: dict[str, tuple[Any, Any]] = {}

    def growth(self, name: str, span: Span) -> float:
        """Return how much a counter grew in a span.

        Raises:
            _NotMeasured: it was not read all the time, or was reset.
        """
        return sum(piece.joules for piece in self.pieces(name, span))

    def pieces(self, name: str, span: Span) -> list[Piece]:
        """Return how much a counter grew in each part of a span.

        Raises:
            _NotMeasured: it was not read all the time, or was reset.
        """
        if name not in self._series:
            # The agent counts the seconds back from its own clock, which may be slightly behind.
            self._series[name] = self._sensors.series(name, self._seconds)
        times, values = self._series[name]
        began_s, over_s = span.began_us / US_PER_S, span.over_us / US_PER_S
        near = (times >= began_s - EDGE_S) & (times <= over_s + EDGE_S)
        times, values = times[near], values[near]
        if not len(times):
            raise _NotMeasured(f"{name} was not read while it ran")
        first_s, last_s = max(began_s, times[0]), min(over_s, times[-1])
        late = first_s > began_s + EDGE_S or last_s < over_s - EDGE_S
        if late or len(times) < 2 or np.diff(times).max() > MAX_GAP_S:
            raise _NotMeasured(f"{name} was not read all the time it ran")
        if np.diff(values).min() < 0:
            raise _NotMeasured(f"{name} was reset while it ran")
        # What was not read at the edges counts as the rest.
        factor = (over_s - began_s) / (last_s - first_s)
        bounds_s = [first_s, *_minutes(first_s, last_s), last_s]
        grown = np.diff(np.interp(bounds_s, times, values)) * factor
        edges_us = [span.began_us, *(round(at * US_PER_S) for at in bounds_s[1:-1]), span.over_us]
        return [Piece(*part) for part in zip(edges_us, edges_us[1:], grown.tolist(), strict=False)]


def _minutes(first_s: float, last_s: float) -> list[float]:
    """Return the full minutes between two instants; fewer of them in a long run."""
    step_s = PIECE_S * math.ceil((last_s - first_s) / PIECE_S / MOST_PIECES)
    first = math.floor(first_s / step_s) + 1
    return [at * step_s for at in range(first, math.ceil(last_s / step_s))]
