"""The orders of an attempt as the job reads them over HTTP: those of the file of orders."""

from __future__ import annotations

from typing import Any

from flyball.control.jobs.adjustments import TUNED, held_devices, orders_of
from flyball.core.jobs import Job, JobState
from flyball.core.live import Cap, Resize

RUNS = (JobState.RUNNING, JobState.COMPLETING)
"""States in which an attempt exists."""


def runs(job: Job | None, attempt: int) -> bool:
    """Return whether an attempt of a job is under way."""
    return job is not None and job.attempt == attempt and job.state in RUNS


def sequence_of(job: Job) -> int:
    """Return the number of the last order to a job, 0 = none yet."""
    return int(job.values.get(TUNED, {}).get("sequence", 0))


def orders_view(job: Job) -> dict[str, Any]:
    """Return all orders to the attempt that runs: the last of each kind, with its number.

    `stopping` is why it is to end (`cancel`, `preempt`), None while it may go on.
    """
    orders: dict[str, dict[str, Any]] = {}
    for order in orders_of(job):
        entry: dict[str, Any] = {"sequence": order.sequence}
        if isinstance(order, Resize):
            entry["devices"] = held_devices(job)
        elif isinstance(order, Cap):
            entry["share"] = order.share
        orders[type(order).__name__.lower()] = entry
    return {
        "job": job.id,
        "attempt": job.attempt,
        "sequence": sequence_of(job),
        "stopping": job.stopping or None,
        "orders": orders,
    }
