"""What all attempts of a job used together: a part of the book's fold, and how it is read.

In a job's values:

    {"active_s", "counted_s", "cpu_s", "max_rss_mib", "peak_mib", "peak_by", "spans": [...]}

`active_s` is the time in which attempts ran, without the waits between them; `counted_s` the part
of it whose processor time is known (that of an attempt whose supervisor was killed is not);
`spans` has (began_us, over_us, [[node, mask], ...], cpu_s) of the last attempts that ran. A job
that began under a version before this has none of it, and `cpu_s` is that of its last attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flyball.core.jobs import Job, Row
from flyball.core.units import US_PER_S

ACTIVE, COUNTED, SPANS = "active_s", "counted_s", "spans"
AT_LEAST = "at_least"
"""Says of a peak of memory that the job may have had more."""
MOST_SPANS = 20
"""Kept of a job; of one that was set aside more often energy is modelled."""


class Span(NamedTuple):
    """An attempt that ran: when, where, and its processor time (None = not known)."""

    began_us: int
    over_us: int
    rows: tuple[Row, ...]
    cpu_s: float | None


def added(job: Job, over_us: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """A job's values after its present attempt is over, with what is said of its end."""
    values = {**job.values, **said}
    if not _is_kept(job) or not job.started_us:
        return values
    ran_s = max(0, over_us - job.started_us) / US_PER_S
    cpu_s = said.get("cpu_s")
    values[ACTIVE] = job.values.get(ACTIVE, 0.0) + ran_s
    values[COUNTED] = job.values.get(COUNTED, 0.0) + (ran_s if cpu_s is not None else 0.0)
    if cpu_s is not None:
        values["cpu_s"] = job.values.get("cpu_s", 0.0) + cpu_s
    rows = [[row.node, row.mask] for row in job.rows]
    spans = [*job.values.get(SPANS, ()), [job.started_us, over_us, rows, cpu_s]]
    return values | {SPANS: spans[-MOST_SPANS:]} | _most(job.values, said)


def _most(before: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The larger of what attempts had at most; a lower bound if one attempt's is not known."""
    most = {
        name: max(before[name], said[name])
        for name in ("max_rss_mib", "peak_mib")
        if name in before and name in said
    }
    attempts = [each for each in (before, said) if "max_rss_mib" in each]
    if any("peak_mib" in each for each in attempts) and any(
        each.get("peak_by", AT_LEAST) == AT_LEAST for each in attempts
    ):
        most["peak_by"] = AT_LEAST
    return most


def _is_kept(job: Job) -> bool:
    """Whether all attempts of a job were added up, from the first."""
    return ACTIVE in job.values or job.first_start_us == job.started_us


def active_s(job: Job, now_us: int) -> float:
    """How long its attempts ran until now."""
    if not job.first_start_us:
        return 0.0
    over_us = job.end_us if job.state.final else now_us
    if ACTIVE not in job.values and (job.state.final or not _is_kept(job)):
        return max(0.0, (over_us - job.first_start_us) / US_PER_S)
    present_us = max(0, now_us - job.started_us) if job.rows and job.started_us else 0
    return float(job.values.get(ACTIVE, 0.0)) + present_us / US_PER_S


def cores_used(job: Job, run_s: float) -> float | None:
    """How many cores it kept busy, on average; None = not known."""
    if "cpu_s" not in job.values:
        return None
    counted_s = job.values.get(COUNTED, run_s)
    return float(job.values["cpu_s"]) / counted_s if counted_s else None


def spans_of(job: Job, now_us: int) -> list[Span]:
    """Its attempts that ran, as far as they are kept; the present one until now."""
    made = [
        Span(began_us, over_us, tuple(Row(*row) for row in rows), cpu_s)
        for began_us, over_us, rows, cpu_s in job.values.get(SPANS, ())
    ]
    if job.rows and job.started_us:
        made.append(Span(job.started_us, now_us, job.rows, None))
    return made
