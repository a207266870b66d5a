"""What running jobs say of their steps, for how long they still run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from flyball.core.jobs import Job
from flyball.core.units import US_PER_S
from flyball.predict.runtime.remaining import Report

STEP = "step"
TOTALS = ("total_steps", "max_steps", "steps")
"""Names under which a job may say how many steps there are in all."""
KEPT = 50
"""Latest reports of a job."""


class Steps(NamedTuple):
    """When (seconds after its start) a job had done how many steps, and how many there are."""

    reports: Sequence[Report]
    total: float


class Measures(Protocol):
    """What the agent was told: `monitor.reader.Telemetry`."""

    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class StepBook:
    """Reports that came over the API; those that the agent heard are read when asked for."""

    def __init__(self) -> None:
        self._heard: dict[tuple[int, int], tuple[list[Report], float]] = {}

    def hear(self, job: Job, now_us: int, values: Mapping[str, Any]) -> None:
        """A job has said something."""
        key = job.id, job.attempt
        reports, total = self._heard.get(key, ([], 0.0))
        total = _total(values) or total
        step = values.get(STEP)
        if isinstance(step, int | float) and job.started_us:
            at_s = (now_us - job.started_us) / US_PER_S
            reports = [*reports, Report(at_s, float(step))][-KEPT:]
        self._heard[key] = reports, total
        while len(self._heard) > 10_000:
            del self._heard[next(iter(self._heard))]

    def of(
        self, job: Job, sensors: Measures | None, said: Mapping[str, Any] | None = None
    ) -> Steps | None:
        """What a running job has said; None if that says nothing of its end.

        Args:
            said: the last of each value that it reported; a total may have been said but once.
        """
        if not job.started_us:
            return None
        reports, total = self._heard.get((job.id, job.attempt), ([], 0.0))
        if not reports and sensors is not None:
            return _measured(job, sensors, said or {})
        return Steps(reports, total) if reports and total > 0.0 else None


def _measured(job: Job, sensors: Measures, said: Mapping[str, Any]) -> Steps | None:
    """From what the agent heard of the job's present attempt."""
    total = _total(said)
    if total <= 0.0 or STEP not in said:
        return None
    begin_s = job.started_us / US_PER_S
    times_s, steps = sensors.series(f"application.{job.id}.{STEP}", 86_400.0)
    heard = [Report(at - begin_s, step) for at, step in zip(times_s, steps, strict=True)]
    return Steps([each for each in heard if each.time_s >= 0.0][-KEPT:], total)


def _total(values: Mapping[str, Any]) -> float:
    found = (values.get(name) for name in TOTALS)
    return next((float(x) for x in found if isinstance(x, int | float) and x > 0), 0.0)
