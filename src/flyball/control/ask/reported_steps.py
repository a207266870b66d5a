"""Steps that running jobs report, from which their remaining time is estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from flyball.core.jobs import Job
from flyball.core.units import US_PER_S
from flyball.predict.runtime.remaining import Report

STEP = "step"
TOTALS = ("total_steps", "max_steps", "steps")
"""Names under which a job may report its total number of steps."""
KEPT = 50
"""Maximum number of latest reports kept per job."""
MAX_ATTEMPTS = 10_000
"""Maximum number of attempts whose reports are kept."""


class Steps(NamedTuple):
    """Holds the steps a job had done at times (seconds after its start), and their total."""

    reports: Sequence[Report]
    total: float


class Measures(Protocol):
    """Reads what the agent received: `monitor.reader.Telemetry`."""

    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class ReportedSteps:
    """Holds reports sent to the API; those sent to the agent are read on request."""

    def __init__(self) -> None:
        self._reports: dict[tuple[int, int], tuple[list[Report], float]] = {}

    def hear(self, job: Job, now_us: int, values: Mapping[str, Any]) -> None:
        """Take in values that a job reported."""
        key = job.id, job.attempt
        reports, total = self._reports.get(key, ([], 0.0))
        total = _total(values) or total
        step = values.get(STEP)
        if isinstance(step, int | float) and job.started_us:
            at_s = (now_us - job.started_us) / US_PER_S
            reports = [*reports, Report(at_s, float(step))][-KEPT:]
        self._reports[key] = reports, total
        while len(self._reports) > MAX_ATTEMPTS:
            del self._reports[next(iter(self._reports))]

    def of(
        self, job: Job, sensors: Measures | None, latest: Mapping[str, Any] | None = None
    ) -> Steps | None:
        """Return the steps a running job reported; None if its end cannot be told from them.

        Args:
            latest: the latest of each value it reported; a total may have been reported only once.
        """
        if not job.started_us:
            return None
        reports, total = self._reports.get((job.id, job.attempt), ([], 0.0))
        if not reports and sensors is not None:
            return _measured(job, sensors, latest or {})
        return Steps(reports, total) if reports and total > 0.0 else None


def _measured(job: Job, sensors: Measures, latest: Mapping[str, Any]) -> Steps | None:
    """Return the steps that the agent received from the current attempt."""
    total = _total(latest)
    if total <= 0.0 or STEP not in latest:
        return None
    begin_s = job.started_us / US_PER_S
    times_s, steps = sensors.series(f"application.{job.id}.{STEP}", 86_400.0)
    heard = [Report(at - begin_s, step) for at, step in zip(times_s, steps, strict=True)]
    return Steps([report for report in heard if report.time_s >= 0.0][-KEPT:], total)


def _total(values: Mapping[str, Any]) -> float:
    totals = (values.get(name) for name in TOTALS)
    return next((float(x) for x in totals if isinstance(x, int | float) and x > 0), 0.0)
