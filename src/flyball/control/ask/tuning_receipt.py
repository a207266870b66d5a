"""What tuning did to a job, for its receipt: sizes over time, caps, gains as they came out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from flyball.control.jobs.adjustments import TUNED, held_devices
from flyball.core.jobs import Job
from flyball.core.live import EventKind
from flyball.core.units import US_PER_S

Steps = tuple[Sequence[float], Sequence[float]]
"""Times, in seconds since 1970, and the steps reported then."""
NO_STEPS: Steps = ((), ())
LEAST_S = 1.0
"""A speed is measured over no less than this."""


def tuning_receipt(job: Job, over_s: float, steps: Steps) -> dict[str, Any] | None:
    """Everything that was done to a job, None = nothing was.

    Args:
        over_s: its end, or now.
        steps: what it reported.
    """
    about = job.values.get(TUNED)
    if about is None:
        return None
    sizes = _sizes(job, over_s, steps)
    capped_s = float(job.values.get("capped_s", 0.0))
    made: dict[str, Any] = {"log": _measured(about["log"], sizes), "sizes": sizes}
    if capped_s:
        made |= {"capped_s": capped_s, "cap_by": job.values["cap_by"]}
        made["capped_share"] = job.values["capped_cpu_s"] / job.values["capped_core_s"]
    return made


def _sizes(job: Job, over_s: float, steps: Steps) -> list[dict[str, Any]]:
    """The sizes it had one after the other: since when, how long, and how fast it was."""
    began_s = job.first_start_us / US_PER_S
    changes = [
        each
        for each in job.values[TUNED]["log"]
        if each["what"] == EventKind.RESIZED and each["time"] > began_s > 0
    ]
    if not began_s:
        return []
    first = changes[0]["before"] if changes else job.values[TUNED].get("devices", 0)
    first = first or held_devices(job) or job.spec.gpus or job.spec.cpus
    marks = [(began_s, first), *((each["time"], each["after"]) for each in changes), (over_s, 0)]
    return [
        {"time": since, "devices": size, "seconds": until - since}
        | {"steps_per_s": speed(steps, since, until)}
        for (since, size), (until, _next) in pairwise(marks)
    ]


def speed(steps: Steps, since_s: float, until_s: float) -> float | None:
    """Steps a second within a span, None = not enough was reported."""
    times, numbers = steps
    low, high = bisect_left(times, since_s), bisect_left(times, until_s) - 1
    if high <= low or times[high] - times[low] < LEAST_S or numbers[high] < numbers[low]:
        return None
    return (numbers[high] - numbers[low]) / (times[high] - times[low])


def _measured(log: Sequence[dict[str, Any]], sizes: Sequence[dict[str, Any]]) -> list[Any]:
    """The log, with the measured change of speed beside each change of size."""
    gains = {}
    for before, after in pairwise(sizes):
        if before["steps_per_s"] and after["steps_per_s"] is not None:
            gains[after["time"]] = after["steps_per_s"] / before["steps_per_s"] - 1.0
    return [
        {**each, "measured": gains[each["time"]]} if each["time"] in gains else each for each in log
    ]
