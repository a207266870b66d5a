"""The active jobs a page at a time, so that nobody who stays active is passed over.

A cursor holds the place of the last job of its page, and when the newest attempt had been
intended as the first page was made: what starts between two pages keeps the place that it had
among those that wait. It may come twice, never not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobState

Place = tuple[bool, float, int, int]
"""Whether it waits, its priority (the highest first), when it was submitted, its id."""


@dataclass(frozen=True)
class QueueQuery:
    """Which active jobs.

    Attributes:
        user, tenant, name: only of exactly this user, on exactly this account, with exactly this
            name; None = of any.
        states: only in one of these; none = in any.
        limit: jobs in a page.
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
        """Whether every job is asked for."""
        return (self.user, self.tenant, self.name, self.states) == (None, None, None, ())

    def wants(self, job: Job) -> bool:
        """Whether a job is asked for."""
        return (
            (self.user is None or job.spec.user == self.user)
            and (self.tenant is None or job.spec.tenant == self.tenant)
            and (self.name is None or job.spec.name == self.name)
            and (not self.states or job.state in self.states)
        )


class Page(NamedTuple):
    """A part of the active jobs that were asked for.

    Attributes:
        total, pending: of all that were asked for, on this page or not.
        next: cursor of the next page, None = this is the last.
    """

    jobs: list[Job]
    total: int
    pending: int
    next: str | None


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """What runs, then what waits; each by priority, then by time of submission."""
    return sorted(jobs, key=lambda job: _place(job, job.since_us))


def page_of(jobs: Iterable[Job], query: QueueQuery) -> Page:
    """The page of these active jobs that a query asks for.

    Raises:
        BadInput: a cursor that no page gave.
    """
    active = list(jobs)
    after, newest_us = _read(query.cursor)
    if newest_us is None:
        newest_us = max((job.since_us for job in active if not _pends(job)), default=0)
    wanted = active if query.wants_all else [job for job in active if query.wants(job)]
    place = partial(_place, newest_us=newest_us)
    ordered = sorted(wanted, key=place)
    begin = 0 if after is None else bisect_right(ordered, after, key=place)
    shown = ordered[begin : begin + query.limit]
    more = begin + len(shown) < len(ordered)
    following = _written(place(shown[-1]), newest_us) if more else None
    return Page(shown, len(wanted), sum(map(_pends, wanted)), following)


def _pends(job: Job) -> bool:
    return job.state == JobState.PENDING


def _place(job: Job, newest_us: int) -> Place:
    """Where a job stands; what was intended after `newest_us` still counts as waiting."""
    waits = _pends(job) or job.since_us > newest_us
    return waits, -job.spec.priority, job.submit_us, job.id


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
        raise BadInput("no page of the queue gave this cursor", "begin without one") from error
