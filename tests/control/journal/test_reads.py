"""Reading the journal: jobs by query, events, decisions, copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.control.journal.cases import (
    START_US,
    Kept,
    cancelled,
    decided,
    ended,
    everything,
    intended,
    started,
    submitted,
)

from flyball.control.journal.history import History
from flyball.control.journal.sqlite import open_engine
from flyball.control.journal.store import JobQuery
from flyball.core.errors import BadInput
from flyball.core.events import Event
from flyball.core.jobs import JobState

EVENTS: list[Event] = [
    submitted(1, START_US, name="Prepare", user="bob", tenant="nlp"),
    submitted(2, START_US + 10, name="train_a", array=2, array_index=0),
    submitted(3, START_US + 20, name="train_b", array=2, array_index=1),
    submitted(4, START_US + 30, name="train%", user="bob"),
    submitted(5, START_US + 40, name="eval", tenant="nlp"),
    decided(1, 5, START_US + 40),
    intended(1, time_us=START_US + 50),
    intended(2, time_us=START_US + 50),
    started(1, time_us=START_US + 60),
    ended(2, time_us=START_US + 70),
    ended(1, time_us=START_US + 80, state="FAILED"),
    cancelled(4, START_US + 90),
    decided(2, 12, START_US + 95, actions=0),
    intended(3, time_us=START_US + 95),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    opened = Kept(tmp_path_factory.mktemp("reads") / "journal.db")
    opened.journal.append(EVENTS).wait()
    yield opened
    opened.journal.close()


def ids(history: History, query: JobQuery) -> list[int]:
    return [job.id for job in history.jobs(query).jobs]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (JobQuery(), [5, 4, 3, 2, 1]),
        (JobQuery(states=(JobState.PENDING,)), [5]),
        (JobQuery(states=(JobState.FAILED, JobState.COMPLETED)), [2, 1]),
        (JobQuery(user="bob"), [4, 1]),
        (JobQuery(user="bob", tenant="nlp"), [1]),
        (JobQuery(user="bo"), []),
        (JobQuery(name="TRAIN"), [4, 3, 2]),
        (JobQuery(name="train_"), [3, 2]),
        (JobQuery(name="%"), [4]),
        (JobQuery(array=2), [3, 2]),
        (JobQuery(since_us=START_US + 20), [5, 4, 3]),
        (JobQuery(until_us=START_US + 20), [2, 1]),
        (JobQuery(after_id=3), [2, 1]),
        (JobQuery(name="'; DROP TABLE jobs; --"), []),
    ],
)
def test_jobs_by_query(kept: Kept, query: JobQuery, expected: list[int]) -> None:
    assert ids(kept.journal, query) == expected


def test_jobs_page_by_page(kept: Kept) -> None:
    seen, after_id = [], 0
    for size in (2, 2, 1):
        page = kept.journal.jobs(JobQuery(limit=2, after_id=after_id))
        assert len(page.jobs) == size
        seen += [job.id for job in page.jobs]
        after_id = page.after_id
    assert (seen, after_id) == ([5, 4, 3, 2, 1], 0)
    assert kept.journal.jobs(JobQuery(limit=5)).after_id == 0


def test_limits(kept: Kept) -> None:
    for limit in (0, 1001):
        with pytest.raises(BadInput, match=f"limit of {limit} .* use 1 to 1,000"):
            kept.journal.jobs(JobQuery(limit=limit))
    with pytest.raises(BadInput, match="use 1 to 10,000"):
        kept.journal.events(limit=10_001)


def test_values_that_no_job_can_have(kept: Kept) -> None:
    with pytest.raises(BadInput, match="cannot be searched for"):
        kept.journal.job(2**70)
    with pytest.raises(BadInput, match="cannot be searched for"):
        kept.journal.jobs(JobQuery(user="\udce9"))
    with pytest.raises(BadInput, match="a name of 60,000 characters; use at most 1,000"):
        kept.journal.jobs(JobQuery(name="%" * 60_000))


def test_active_and_ended_jobs_and_counts(kept: Kept) -> None:
    journal = kept.journal
    assert [job.id for job in journal.active()] == [3, 5]
    assert [job.id for job in journal.ended()] == [4, 1, 2]
    assert [job.id for job in journal.ended(limit=1)] == [4]
    assert journal.counts() == {
        JobState.PENDING: 1,
        JobState.RUNNING: 1,
        JobState.COMPLETED: 1,
        JobState.FAILED: 1,
        JobState.CANCELLED: 1,
    }
    assert dict(journal.final_states()) == {
        1: JobState.FAILED,
        2: JobState.COMPLETED,
        4: JobState.CANCELLED,
    }


def test_events_with_decisions_among_them(kept: Kept) -> None:
    assert [event for _, event in kept.journal.events()] == EVENTS
    assert [seq for seq, _ in kept.journal.events(after=4, limit=4)] == [5, 6, 7, 8]
    assert [seq for seq, _ in kept.journal.events(kinds=("decided",))] == [6, 13]
    assert [seq for seq, _ in kept.journal.events(kinds=("cancel", "decided"))] == [6, 12, 13]
    assert [seq for seq, _ in kept.journal.events(kinds=("started",))] == [9]
    assert [seq for seq, _ in kept.journal.events(job=1)] == [1, 7, 9, 11]
    assert [seq for seq, _ in kept.journal.events(job=1, kinds=("ended",))] == [11]


def test_decisions(kept: Kept) -> None:
    first, second = (6, EVENTS[5].as_dict()), (13, EVENTS[12].as_dict())
    assert kept.journal.decisions() == [first, second]
    assert kept.journal.decisions(after=1) == [second]
    assert kept.journal.decisions(limit=1) == [first]
    assert kept.journal.last_decision() == 2


def test_queries_use_indexes(kept: Kept) -> None:
    """A recovery and a dashboard must not read the whole history."""
    plans = {
        "SELECT * FROM jobs WHERE state IN ('PENDING', 'RUNNING', 'COMPLETING')": "jobs_state",
        "SELECT * FROM jobs WHERE end_us > 0 ORDER BY end_us DESC, id DESC LIMIT 9": "jobs_end_us",
        "SELECT * FROM events WHERE job = 1 AND seq > 0 ORDER BY seq LIMIT 9": "events_job",
        "SELECT * FROM events WHERE kind = 'opened' ORDER BY seq DESC LIMIT 1": "events_kind",
        "SELECT max(seq) FROM decisions": "decisions_seq",
    }
    with closing(sqlite3.connect(kept.journal.path)) as database:
        for statement, index in plans.items():
            rows = database.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            assert any(index in str(row) for row in rows), rows


def test_readers_write_nothing(kept: Kept) -> None:
    with (
        open_engine(kept.journal.path, writes=False).connect() as connection,
        pytest.raises(Exception, match="readonly"),
    ):
        connection.exec_driver_sql("DELETE FROM jobs")


def test_a_copy_while_in_use(kept: Kept, tmp_path: Path) -> None:
    kept.journal.back_up(tmp_path / "copy.db")
    with History(tmp_path / "copy.db") as copy:
        assert everything(copy) == everything(kept.journal)
        assert copy.active() == kept.journal.active()
