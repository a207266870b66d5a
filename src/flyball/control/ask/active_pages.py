"""Pages of the active jobs, such that a job that stays active is never skipped.

A cursor holds the position of the last job of its page, and the time of the newest attempt when the
first page was read: a job that starts between two pages keeps its position among the pending ones.
It may be listed twice, but is never missed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, JobState

Place = tuple[bool, float, int, int]
"""Position of a job: whether it waits, its negated priority, its submission time, its id."""
Priority = Callable[[JobSpec], float]


def stated_priority(spec: JobSpec) -> float:
    """Return the priority that a job states."""
    return spec.priority


@dataclass(frozen=True)
class QueueQuery:
    """Selects active jobs.

    Attributes:
        user, tenant, name: only jobs of exactly this user, account and name; None = any.
        states: only jobs in one of these states; none = any.
        limit: maximum number of jobs per page.
        cursor: `next` of the page before, "" = the first page.
    """

    user: str | None = None
    tenant: str | None = None
    name: str | None = None
    states: tuple[JobState, ...] = ()
    limit: int = 1000
    cursor: str = ""

    @property
    def wants_all(self) -> bool:
        """Whether every job is selected."""
        return (self.user, self.tenant, self.name, self.states) == (None, None, None, ())

    def wants(self, job: Job) -> bool:
        """Whether a job is selected."""
        return (
            (self.user is None or job.spec.user == self.user)
            and (self.tenant is None or job.spec.tenant == self.tenant)
            and (self.name is None or job.spec.name == self.name)
            and (not self.states or job.state in self.states)
        )


class Page(NamedTuple):
    """Holds one page of the selected active jobs.

    Attributes:
        total, pending: numbers of all selected and selected pending jobs, on this page or not.
        next: cursor of the next page, None = this is the last.
    """

    jobs: list[Job]
    total: int
    pending: int
    next: str | None


def in_order(jobs: Iterable[Job], priority: Priority = stated_priority) -> list[Job]:
    """Return running, then pending jobs; each by priority, then by time of submission."""
    return sorted(jobs, key=lambda job: _place(job, job.since_us, priority))


def page_of(jobs: Iterable[Job], query: QueueQuery, priority: Priority = stated_priority) -> Page:
    """Return the page of these active jobs that a query selects.

    Args:
        priority: returns the priority by which decisions order a job.

    Raises:
        BadInput: the cursor is not one that a page returned.
    """
    active = list(jobs)
    after, newest_us = _read(query.cursor)
    if newest_us is None:
        newest_us = max((job.since_us for job in active if not _is_pending(job)), default=0)
    selected = active if query.wants_all else [job for job in active if query.wants(job)]
    place = partial(_place, newest_us=newest_us, priority=priority)
    ordered = sorted(selected, key=place)
    begin = 0 if after is None else bisect_right(ordered, after, key=place)
    shown = ordered[begin : begin + query.limit]
    more = begin + len(shown) < len(ordered)
    following = _written(place(shown[-1]), newest_us) if more else None
    return Page(shown, len(selected), sum(map(_is_pending, selected)), following)


def _is_pending(job: Job) -> bool:
    return job.state == JobState.PENDING


def _place(job: Job, newest_us: int, priority: Priority) -> Place:
    """Return the position of a job; one that started after `newest_us` counts as waiting."""
    waits = _is_pending(job) or job.since_us > newest_us
    return waits, -priority(job.spec), job.submit_us, job.id


def _written(place: Place, newest_us: int) -> str:
    waits, priority, submit_us, job_id = place
    return f"{newest_us}_{int(waits)}_{priority!r}_{submit_us}_{job_id}"


def _read(cursor: str) -> tuple[Place | None, int | None]:
    if not cursor:
        return None, None
    try:
        newest_us, waits, priority, submit_us, job_id = cursor.split("_")
        place = waits == "1", float(priority), int(submit_us), int(job_id)
        return place, int(newest_us)
    except ValueError as error:
        raise BadInput(
            "this is not a cursor of a page of the queue", "begin without one"
        ) from error
