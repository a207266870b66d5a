"""Pages of the active jobs: a job that stays active is never skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.control.live_cases import START_US, spec_of

from flyball.control.ask.active_pages import Page, QueueQuery, in_order, page_of
from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobState


def waiting(number: int, priority: float = 0.0, **asked: object) -> Job:
    return Job(number, spec_of(priority=priority, **asked), START_US + number)


def running(number: int, since_us: int = START_US) -> Job:
    return replace(waiting(number), state=JobState.RUNNING, attempt=1, since_us=since_us)


def ids(page: Page) -> list[int]:
    return [job.id for job in page.jobs]


def test_what_runs_comes_first_then_priority_then_time() -> None:
    jobs = [waiting(1), waiting(2, 1.5), running(3), waiting(4, -1e-7), waiting(5)]
    assert [job.id for job in in_order(jobs)] == [3, 2, 1, 5, 4]
    assert page_of(jobs, QueueQuery()) == (in_order(jobs), 5, 4, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_together_are_all_of_it(limit: int) -> None:
    jobs = [waiting(1), waiting(2, 1.5), running(3), waiting(4, -1e-7), waiting(5)]
    listed, cursor = list[int](), ""
    while True:
        page = page_of(jobs, QueueQuery(limit=limit, cursor=cursor))
        assert (page.total, page.pending) == (5, 4)
        listed += ids(page)
        if page.next is None:
            break
        assert len(page.jobs) == limit
        cursor = page.next
    assert listed == [3, 2, 1, 5, 4]


def test_a_job_that_ends_between_two_pages_shifts_no_other() -> None:
    jobs = [waiting(job_id) for job_id in range(1, 7)]
    first = page_of(jobs, QueueQuery(limit=3))
    second = page_of(jobs[3:], QueueQuery(limit=3, cursor=first.next or ""))
    assert (ids(first), ids(second)) == ([1, 2, 3], [4, 5, 6])
    assert (second.total, second.next) == (3, None)


def test_a_job_that_starts_between_two_pages_is_not_missed() -> None:
    jobs = [running(1), *(waiting(job_id) for job_id in range(2, 7))]
    first = page_of(jobs, QueueQuery(limit=3))
    jobs[4] = running(5, START_US + 1)
    second = page_of(jobs, QueueQuery(limit=3, cursor=first.next or ""))
    assert (ids(first), ids(second)) == ([1, 2, 3], [4, 5, 6])
    assert second.pending == 4
    idle = page_of(jobs[1:4], QueueQuery(limit=1))
    jobs[1:4] = [running(job_id, START_US + 1) for job_id in (2, 3, 4)]
    assert ids(page_of(jobs[1:4], QueueQuery(cursor=idle.next or ""))) == [3, 4]


def test_a_job_preempted_between_two_pages_is_listed_again() -> None:
    jobs = [running(1), running(2), waiting(3)]
    first = page_of(jobs, QueueQuery(limit=2))
    jobs[0] = replace(jobs[0], state=JobState.PENDING, since_us=START_US + 9)
    assert ids(page_of(jobs, QueueQuery(cursor=first.next or ""))) == [1, 3]


def test_filters() -> None:
    jobs = [waiting(1, user="ada", name="a"), waiting(2, user="ben", name="a"), running(3)]
    assert ids(page_of(jobs, QueueQuery(user="ada"))) == [1]
    assert ids(page_of(jobs, QueueQuery(name="a", limit=1))) == [1]
    assert page_of(jobs, QueueQuery(name="a", limit=1)).total == 2
    assert ids(page_of(jobs, QueueQuery(user=""))) == [3], "nobody's, not everybody's"
    assert ids(page_of(jobs, QueueQuery(states=(JobState.RUNNING,)))) == [3]


@pytest.mark.parametrize("cursor", ["x", "1_2", "1_1_x_3_4", "1_1_1.0_3_4_5"])
def test_an_invalid_cursor(cursor: str) -> None:
    with pytest.raises(BadInput, match="not a cursor of a page of the queue"):
        page_of([], QueueQuery(cursor=cursor))
