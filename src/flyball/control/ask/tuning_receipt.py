"""Builds the part of a receipt about tuning: sizes over time, caps, measured gains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from flyball.control.jobs.adjustments import TUNED, held_devices
from flyball.core.events import Resized
from flyball.core.job_facts import Steps, steps_per_s
from flyball.core.jobs import Job
from flyball.core.units import US_PER_S

NO_STEPS: Steps = ((), ())


def tuning_receipt(job: Job, over_s: float, steps: Steps) -> dict[str, Any] | None:
    """Return every adjustment of a job; None if there was none.

    Args:
        over_s: when the job ended, or now.
        steps: the steps it reported.
    """
    about = job.values.get(TUNED)
    if about is None:
        return None
    sizes = _sizes(job, over_s, steps)
    capped_s = float(job.values.get("capped_s", 0.0))
    receipt: dict[str, Any] = {"log": _measured(about["log"], sizes), "sizes": sizes}
    if capped_s:
        receipt |= {"capped_s": capped_s, "cap_by": job.values["cap_by"]}
        receipt["capped_share"] = job.values["capped_cpu_s"] / job.values["capped_core_s"]
    return receipt


def _sizes(job: Job, over_s: float, steps: Steps) -> list[dict[str, Any]]:
    """Return the sizes it had in order: since when, for how long, and how fast it was."""
    began_s = job.first_start_us / US_PER_S
    changes = [
        entry
        for entry in job.values[TUNED]["log"]
        if entry["what"] == Resized.kind and entry["time"] > began_s > 0
    ]
    if not began_s:
        return []
    first = changes[0]["before"] if changes else job.values[TUNED].get("devices", 0)
    first = first or held_devices(job) or job.spec.gpus or job.spec.cpus
    marks = [(began_s, first), *((entry["time"], entry["after"]) for entry in changes), (over_s, 0)]
    return [
        {"time": since, "devices": size, "seconds": until - since}
        | {"steps_per_s": steps_per_s(steps, since, until)}
        for (since, size), (until, _next) in pairwise(marks)
    ]


def _measured(log: Sequence[dict[str, Any]], sizes: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the log with the measured change of speed at each resize."""
    gains = {}
    for before, after in pairwise(sizes):
        if before["steps_per_s"] and after["steps_per_s"] is not None:
            gains[after["time"]] = after["steps_per_s"] / before["steps_per_s"] - 1.0
    return [
        {**entry, "measured": gains[entry["time"]]} if entry["time"] in gains else entry
        for entry in log
    ]
