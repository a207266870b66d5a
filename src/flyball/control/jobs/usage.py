"""Resources that all attempts of a job used together: folded into the live state, and read back.

Kept in a job's values:

    {"active_s", "counted_s", "cpu_s", "max_rss_mib", "peak_mib", "peak_by", "spans": [...]}

`active_s` is the time in which attempts ran, without the waits between them; `counted_s` the part
of it whose CPU time is known (that of an attempt whose supervisor was killed is not); `spans` holds
(began_us, over_us, [[node, mask], ...], cpu_s) of the last attempts that ran. A job that started
under an older version has none of these, and its `cpu_s` is that of its last attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flyball.core.jobs import Job, Row
from flyball.core.units import US_PER_S

ACTIVE, COUNTED, SPANS = "active_s", "counted_s", "spans"
AT_LEAST = "at_least"
"""Marks a memory peak as a lower bound: the job may have used more."""
MOST_SPANS = 20
"""Maximum number of spans kept per job; the energy of a job with more attempts is modelled."""


class Span(NamedTuple):
    """Holds one attempt that ran: when, where, and its CPU time (None = unknown)."""

    began_us: int
    over_us: int
    rows: tuple[Row, ...]
    cpu_s: float | None


def add_attempt(job: Job, over_us: int, end_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's values after its current attempt, with the values its end reported."""
    values = {**job.values, **end_values}
    if not _is_complete(job) or not job.started_us:
        return values
    ran_s = max(0, over_us - job.started_us) / US_PER_S
    cpu_s = end_values.get("cpu_s")
    values[ACTIVE] = job.values.get(ACTIVE, 0.0) + ran_s
    values[COUNTED] = job.values.get(COUNTED, 0.0) + (ran_s if cpu_s is not None else 0.0)
    if cpu_s is not None:
        values["cpu_s"] = job.values.get("cpu_s", 0.0) + cpu_s
    rows = [[row.node, row.mask] for row in job.rows]
    spans = [*job.values.get(SPANS, ()), [job.started_us, over_us, rows, cpu_s]]
    return values | {SPANS: spans[-MOST_SPANS:]} | _peaks(job.values, end_values)


def _peaks(before: Mapping[str, Any], end_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the largest peaks over all attempts; a lower bound if one attempt's is unknown."""
    most = {
        name: max(before[name], end_values[name])
        for name in ("max_rss_mib", "peak_mib")
        if name in before and name in end_values
    }
    attempts = [values for values in (before, end_values) if "max_rss_mib" in values]
    if any("peak_mib" in values for values in attempts) and any(
        values.get("peak_by", AT_LEAST) == AT_LEAST for values in attempts
    ):
        most["peak_by"] = AT_LEAST
    return most


def _is_complete(job: Job) -> bool:
    """Whether the sums cover all attempts of a job, from the first."""
    return ACTIVE in job.values or job.first_start_us == job.started_us


def active_s(job: Job, now_us: int) -> float:
    """Return how long its attempts have run so far."""
    if not job.first_start_us:
        return 0.0
    over_us = job.end_us if job.state.final else now_us
    if ACTIVE not in job.values and (job.state.final or not _is_complete(job)):
        return max(0.0, (over_us - job.first_start_us) / US_PER_S)
    present_us = max(0, now_us - job.started_us) if job.rows and job.started_us else 0
    return float(job.values.get(ACTIVE, 0.0)) + present_us / US_PER_S


def cores_used(job: Job, run_s: float) -> float | None:
    """Return how many cores it kept busy on average; None = unknown."""
    if "cpu_s" not in job.values:
        return None
    counted_s = job.values.get(COUNTED, run_s)
    return float(job.values["cpu_s"]) / counted_s if counted_s else None


def spans_of(job: Job, now_us: int) -> list[Span]:
    """Return the kept spans of its attempts, the current one up to now."""
    spans = [
        Span(began_us, over_us, tuple(Row(*row) for row in rows), cpu_s)
        for began_us, over_us, rows, cpu_s in job.values.get(SPANS, ())
    ]
    if job.rows and job.started_us:
        spans.append(Span(job.started_us, now_us, job.rows, None))
    return spans
