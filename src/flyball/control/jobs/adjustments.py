"""Adjustments of a job: its size, its cap, its checkpoints, and why. A fold over events.

They are kept under one key in a job's values, so that the journal stores them with the job:

    {"sequence", "devices", "share", "since_us", "moves", "saves", "wants",
     "orders": {kind: number}, "log": [...]}

`devices` is the size it was last given (absent: what it asked for), `share` its cap (absent: none),
`since_us` when the devices it holds last changed, `moves` and `saves` the attempts that were last
moved and last ordered to save, `wants` the (node, mask) pairs where a job that was preempted to be
moved continues, `orders` the number of the last order of each kind, and `log` the last `KEPT`
adjustments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from flyball.core.events import Capped, Checkpointed, Resized
from flyball.core.job_facts import SizeChange, scaling_of
from flyball.core.jobs import Job, JobState, Row
from flyball.core.live import Cap, Checkpoint, Resize
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S

TUNED = "tuned"
"""Key of the adjustments in a job's values."""
KEPT = 200
"""Maximum number of log entries; older ones are in the journal's events."""
NO_CAP = 1.0


def size_of(job: Job) -> int:
    """Return the size it was last given, 0 = as many devices as it asked for."""
    return int(job.values.get(TUNED, {}).get("devices", 0))


def share_of(job: Job) -> float:
    """Return the share of its devices that it may use."""
    return float(job.values.get(TUNED, {}).get("share", NO_CAP))


def held_since_us(job: Job) -> int:
    """Return since when it has held exactly the devices it holds now."""
    began_us = job.started_us or job.since_us
    return max(began_us, int(job.values.get(TUNED, {}).get("since_us", 0)))


def device_milli(job: Job) -> int:
    """Return the thousandths of devices that the running attempt holds."""
    share = job.spec.milli if job.spec.gpus else MILLI_PER_DEVICE
    return held_devices(job) * share


def held_devices(job: Job) -> int:
    """Return the number of devices that the running attempt holds."""
    return sum(row.mask.bit_count() for row in job.rows)


def resume_rows(job: Job) -> list[tuple[int, int]]:
    """Return the (node, mask) pairs where a preempted job continues; none = anywhere it fits."""
    return [(int(node), int(mask)) for node, mask in job.values.get(TUNED, {}).get("wants", ())]


def tuning_of(job: Job, how: str = "") -> dict[str, Any] | None:
    """Return its size, its cap and the log of adjustments; None = it was never adjusted.

    Args:
        how: the means by which the engine enforces the cap.
    """
    about = job.values.get(TUNED)
    if about is None:
        return None
    devices = held_devices(job) or size_of(job)
    by = job.values.get("cap_by") or how
    scaling = scaling_of(job)
    return {
        "devices": devices,
        "share": share_of(job),
        "by": by,
        "parallel": scaling.parallel if scaling else None,
        "log": about["log"],
    }


def orders_of(job: Job) -> Iterator[Resize | Cap | Checkpoint]:
    """Yield the orders the engine must have for a running attempt; they may be repeated."""
    about = job.values.get(TUNED)
    if about is None or job.state != JobState.RUNNING:
        return
    token, orders = (job.id, job.attempt), about["orders"]
    if about.get("moves") == job.attempt:
        yield Resize(*token, orders[Resized.kind], job.rows)
    if Capped.kind in orders:
        yield Cap(*token, orders[Capped.kind], about["share"], job.rows)
    if about.get("saves") == job.attempt:
        yield Checkpoint(*token, orders[Checkpointed.kind])


# How each kind of event changes a job ------------------------------------------------


def resized(job: Job, event: Resized) -> Job:
    """Change the devices at once (with rows), or the size from the next start on (without)."""
    if event.attempt != job.attempt:
        return job
    before = held_devices(job) or size_of(job)
    if not event.rows:
        change = {"devices": event.devices, "wants": event.wants or []}
        return _logged(job, event, before, event.devices, change)
    if job.state != JobState.RUNNING:
        return job
    held_us = max(0, event.time_us - held_since_us(job))
    used_us = held_us * device_milli(job) / MILLI_PER_DEVICE
    rows = tuple(Row(int(node), int(mask)) for node, mask in event.rows)
    job = replace(job, rows=rows, service_us=job.service_us + used_us)
    change = {"devices": event.devices, "since_us": event.time_us, "moves": job.attempt}
    return _logged(job, event, before, event.devices, change)


def placed(job: Job) -> Job:
    """Drop the place where it was to continue: it starts now, wherever that is."""
    about = job.values.get(TUNED)
    if about is None or not about.get("wants"):
        return job
    return replace(job, values={**job.values, TUNED: {**about, "wants": []}})


def capped(job: Job, event: Capped) -> Job:
    """Change the cap; it also holds for later attempts."""
    if event.attempt != job.attempt:
        return job
    share = float(event.share)
    return _logged(job, event, share_of(job), share, {"share": share})


def checkpointed(job: Job, event: Checkpointed) -> Job:
    """Note that it was ordered to save a checkpoint."""
    if event.attempt != job.attempt or job.state != JobState.RUNNING:
        return job
    return _logged(job, event, None, None, {"saves": job.attempt})


def _logged(
    job: Job,
    event: Resized | Capped | Checkpointed,
    before: Any,
    after: Any,
    change: dict[str, Any],
) -> Job:
    """Number the order and append it to the log."""
    about = job.values.get(TUNED, {"sequence": 0, "orders": {}, "log": []})
    sequence = about["sequence"] + 1
    gain = None if isinstance(event, Checkpointed) else event.gain
    stated = {"reason": event.reason, "gain": gain, "who": event.who}
    entry = {
        "time": event.time_us / US_PER_S,
        "what": event.kind,
        "before": before,
        "after": after,
        **{name: value for name, value in stated.items() if value},
    }
    orders = {**about["orders"], event.kind: sequence}
    log = [*about["log"], entry][-KEPT:]
    tuned = {**about, **change, "sequence": sequence, "orders": orders, "log": log}
    return replace(job, values={**job.values, TUNED: tuned})


def size_changes(jobs: Iterable[Job]) -> list[SizeChange]:
    """Return the last resize of each running elastic job that was resized and not capped since."""
    changes = (_last_size_change(job) for job in jobs)
    return [change for change in changes if change is not None]


def _last_size_change(job: Job) -> SizeChange | None:
    running = job.state == JobState.RUNNING and job.started_us > 0
    if not (running and job.spec.elastic and TUNED in job.values):
        return None
    log, began_s = job.values[TUNED]["log"], job.started_us / US_PER_S
    resizes = [entry for entry in log if entry["what"] == Resized.kind]
    resizes = [entry for entry in resizes if entry["time"] > began_s]
    if not resizes or not resizes[-1]["before"] or resizes[-1]["before"] == resizes[-1]["after"]:
        return None
    last = resizes[-1]
    before_s = resizes[-2]["time"] if len(resizes) > 1 else began_s
    if any(entry["what"] == Capped.kind and entry["time"] > before_s for entry in log):
        return None
    return SizeChange(job, before_s, int(last["before"]), float(last["time"]), int(last["after"]))
