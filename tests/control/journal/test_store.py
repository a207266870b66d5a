"""Writing the journal: tickets, numbers, group commit, and what a failure leaves behind."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from tests.control.journal.cases import (
    START_US,
    Gate,
    Kept,
    decided,
    ended,
    every_job,
    everything,
    folded,
    intended,
    life,
    started,
    submitted,
)
from tests.until import WAIT_S

from flyball.control.journal.history import History
from flyball.control.journal.store import Changes, Journal, JournalUnavailable, Ticket
from flyball.core.errors import BadInput
from flyball.core.events import Audited, Event, Intended, NodeChanged, Reported, Submitted


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    opened = Kept(tmp_path / "journal.db")
    yield opened
    opened.journal.close()


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[Kept]:
    opened = Kept(tmp_path / "journal.db", inline=False)
    yield opened
    opened.journal.close()


def test_numbers_are_given_in_order(kept: Kept) -> None:
    assert kept.journal.append([submitted(1), submitted(2)]).wait() == 2
    assert kept.journal.append([intended(1)]).wait() == 3
    assert [seq for seq, _ in kept.told] == [1, 2, 3]
    assert kept.journal.append([]).wait() == 3
    assert len(kept.told) == 3


def test_what_is_read_is_what_was_written(kept: Kept) -> None:
    odd = Audited(START_US, 'a "quoted" \x00 \udce9 é 漢', "")
    wide = Intended(START_US, 1, 1, [[0, 2**64 - 1]], decision=1)
    node = NodeChanged(START_US, 0, up=False)
    events = [submitted(1), decided(1), wide, started(1), odd, node]
    kept.journal.append(events).wait()
    assert [event for _, event in everything(kept.journal)] == events
    assert kept.journal.job(1) == kept.live_state.jobs[1]


def test_a_threaded_journal_does_the_same(threaded: Kept) -> None:
    tickets = [threaded.journal.append(events) for events in islice(life(1), 60)]
    numbers = [ticket.wait(WAIT_S) for ticket in tickets]
    assert numbers == sorted(set(numbers))
    stored = everything(threaded.journal)
    assert [seq for seq, _ in stored] == list(range(1, numbers[-1] + 1))
    assert threaded.told == stored
    assert every_job(threaded.journal) == folded(stored)


def test_many_appends_share_a_commit(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "journal.db")
    first = gate.journal.append([submitted(1)])
    assert gate.entered.wait(WAIT_S)
    others = [gate.journal.append([submitted(job)]) for job in range(2, 502)]
    assert not first.future.done()
    gate.opened.set()
    assert [ticket.wait(WAIT_S) for ticket in others] == list(range(2, 502))
    assert first.wait() == 1
    assert gate.journal.commits == 2
    gate.journal.close()


def test_a_caller_that_waits_writes_itself(threaded: Kept) -> None:
    writers: list[str] = []

    def follow(seq: int, committed: Sequence[Event], changes: Changes) -> None:
        writers.append(threading.current_thread().name)
        threaded.follow(seq, committed, changes)
        if len(writers) == 1:
            threaded.journal.append([submitted(3)])

    threaded.on_commit = follow
    threaded.journal.record([submitted(1)])
    threaded.journal.append([submitted(2)]).wait(WAIT_S)
    assert writers[0] == threading.current_thread().name
    assert set(writers[1:]) == {"journal"}
    assert sorted(threaded.live_state.jobs) == [1, 2, 3]
    assert [seq for seq, _ in threaded.told] == [1, 2, 3]


def test_a_record_waits_for_the_current_writer(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "journal.db")
    first = gate.journal.append([submitted(1)])
    assert gate.entered.wait(WAIT_S)
    other = threading.Thread(target=gate.journal.record, args=[[submitted(2)]])
    other.start()
    other.join(0.05)
    assert other.is_alive()
    gate.opened.set()
    other.join(WAIT_S)
    assert (first.wait(WAIT_S), gate.journal.last().seq) == (1, 2)
    gate.journal.close()
    with pytest.raises(JournalUnavailable, match="is closed"):
        gate.journal.record([submitted(3)])


def test_records_and_appends_of_many_threads_are_all_kept(threaded: Kept) -> None:
    def write(first: int) -> None:
        for job in range(first, first + 20):
            if job % 2:
                threaded.journal.record([submitted(job)])
            else:
                threaded.journal.append([submitted(job)]).wait(WAIT_S)

    writers = [threading.Thread(target=write, args=[1 + 20 * at]) for at in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(WAIT_S)
    assert sorted(threaded.live_state.jobs) == list(range(1, 121))
    assert [seq for seq, _ in threaded.told] == list(range(1, 121))


def test_a_ticket_is_resolved_after_on_commit(tmp_path: Path) -> None:
    seen: list[bool] = []
    tickets: list[Ticket] = []

    def follow(seq: int, committed: Sequence[Event], changes: Changes) -> None:
        seen.append(tickets[0].future.done() if tickets else False)
        with History(tmp_path / "journal.db") as other:  # durable: others see it already
            assert other.last().seq == seq

    gate = Gate(tmp_path / "journal.db", follow)
    tickets.append(gate.journal.append([submitted(1)]))
    gate.opened.set()
    assert tickets[0].wait(WAIT_S) == 1
    assert seen == [False]
    gate.journal.close()


def test_a_ticket_that_takes_too_long(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "journal.db")
    ticket = gate.journal.append([submitted(1)])
    with pytest.raises(JournalUnavailable, match=r"not answered within 0\.01 s; try again") as late:
        ticket.wait(0.01)
    assert late.value.exit_code == 75
    assert not ticket.future.cancel()
    gate.opened.set()
    assert ticket.wait(WAIT_S) == 1
    gate.journal.close()


def test_on_commit_may_append(kept: Kept) -> None:
    def follow(seq: int, committed: Sequence[Event], changes: Changes) -> None:
        kept.follow(seq, committed, changes)
        last = committed[-1]
        if isinstance(last, Submitted):
            kept.journal.append([intended(last.job)])

    kept.on_commit = follow
    assert kept.journal.append([submitted(1)]).wait() == 1
    assert [event.kind for _, event in kept.told] == ["submitted", "intended"]
    assert kept.journal.last().seq == 2


def test_current_states_are_the_fold_of_the_events(kept: Kept) -> None:
    for events in islice(life(2), 150):
        kept.journal.append(events).wait()
    states = every_job(kept.journal)
    assert states == folded(everything(kept.journal))
    active = {job.id: job for job in kept.journal.active()}
    assert active == kept.live_state.jobs
    assert dict(kept.journal.final_states()) == kept.live_state.ended
    assert {*active, *kept.live_state.ended} == set(states)


def test_a_restart_continues_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    first = Kept(path)
    first.journal.append([submitted(7, START_US + 50), decided(3), intended(7)]).wait()
    first.journal.close()
    again = Kept(path)
    assert again.live_state.jobs == first.live_state.jobs
    assert again.journal.last() == (3, START_US + 50, 8)
    assert again.journal.last_decision() == 3
    assert again.journal.append([started(7)]).wait() == 4
    again.journal.close()


def test_an_empty_journal(kept: Kept) -> None:
    assert kept.journal.last() == (0, 0, 1)
    assert kept.journal.last_decision() == 0
    assert kept.journal.active() == []
    assert kept.journal.counts() == {}
    assert kept.journal.job(1) is None
    assert kept.journal.answer("k") is None


# What is wrong -----------------------------------------------------------------------


def test_one_bad_append_spares_the_others(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "journal.db")
    gate.journal.append([submitted(1), decided(1)])
    assert gate.entered.wait(WAIT_S)
    tickets = [gate.journal.append([event]) for event in (submitted(2), decided(1), submitted(3))]
    gate.opened.set()
    assert tickets[0].wait(WAIT_S) == 3
    with pytest.raises(IntegrityError):
        tickets[1].wait(WAIT_S)
    assert tickets[2].wait(WAIT_S) == 4
    assert [seq for seq, _ in everything(gate.journal)] == [1, 2, 3, 4]
    gate.journal.close()


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Reported(1, 1, {"loss": {1, 2}}), TypeError),
        (Reported(1, 1, {"loss": float("nan")}), ValueError),
    ],
)
def test_what_json_cannot_hold_is_refused_at_once(
    kept: Kept, event: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        kept.journal.append([event])
    assert kept.journal.append([submitted(1)]).wait() == 1


def test_a_failing_on_commit_breaks_the_journal(kept: Kept, tmp_path: Path) -> None:
    def follow(seq: int, committed: Sequence[Event], changes: Changes) -> None:
        raise RuntimeError("no room in the book")

    kept.journal.append([submitted(1)]).wait()
    kept.on_commit = follow
    for job in (2, 3):
        with pytest.raises(JournalUnavailable, match=r"since event 2 .*no room in the book.*start"):
            kept.journal.append([submitted(job)]).wait()
    assert kept.journal.broken
    kept.journal.close()
    again = Kept(tmp_path / "journal.db")  # what was durable is there, what came later is not
    assert set(again.live_state.jobs) == {1, 2}
    again.journal.close()


def test_closing_writes_what_was_appended(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db", inline=False)
    tickets = [kept.journal.append([submitted(job)]) for job in range(1, 101)]
    kept.journal.close()
    kept.journal.close()
    assert [ticket.wait(0) for ticket in tickets] == list(range(1, 101))
    with pytest.raises(JournalUnavailable, match="is closed") as closed:
        kept.journal.append([submitted(101)]).wait()
    assert closed.value.exit_code == 75
    assert closed.value.remedy


def test_only_the_owner_reads_the_file(kept: Kept) -> None:
    kept.journal.append([submitted(1)]).wait()
    files = list(kept.journal.path.parent.iterdir())
    assert {file.name for file in files} == {"journal.db", "journal.db-wal", "journal.db-shm"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_commit_is_synced(kept: Kept) -> None:
    with kept.journal._writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2


def test_an_append_of_nothing_tries_the_disk(kept: Kept) -> None:
    kept.journal.append([submitted(1)]).wait()
    other = sqlite3.connect(kept.journal.path)
    versions = [other.execute("PRAGMA data_version").fetchone()]
    for _ in range(3):
        assert kept.journal.append([]).wait() == 1
        versions.append(other.execute("PRAGMA data_version").fetchone())
    other.close()
    assert len(set(versions)) == 4
    assert len(kept.told) == 1


def test_paths_and_urls(tmp_path: Path) -> None:
    with Journal(f"sqlite:///{tmp_path}/by-url.db", lambda events: {}, inline=True) as journal:
        assert journal.path == tmp_path / "by-url.db"
    for place in ("sqlite://", "postgresql://db/flyball", "://"):
        with pytest.raises(BadInput, match="use"):
            Journal(place, lambda events: {})
    with pytest.raises(BadInput, match="cannot be opened"):
        Journal(tmp_path / "nowhere" / "journal.db", lambda events: {})
    with pytest.raises(BadInput, match="does not exist"):
        History(tmp_path / "nothing.db")


def test_readers_never_see_half_an_append(threaded: Kept) -> None:
    stop = threading.Event()
    torn: list[str] = []

    def look() -> None:
        with History(threaded.journal.path) as history:
            while not stop.is_set():
                jobs = {job.id: job for job in history.active()}
                if len(jobs) % 3:
                    torn.append(f"{len(jobs)} jobs")
                seqs = [seq for seq, _ in history.events(limit=10_000)]
                if seqs != list(range(1, len(seqs) + 1)) or len(seqs) % 3:
                    torn.append(f"{len(seqs)} events")

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(1, 180, 3):
        threaded.journal.append([submitted(first + at) for at in range(3)]).wait(WAIT_S)
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == []
    assert len(threaded.journal.active()) == 180


def test_ended_jobs_keep_what_is_known_of_their_end(kept: Kept) -> None:
    kept.journal.append([submitted(1), intended(1), started(1), ended(1)]).wait()
    job = kept.journal.job(1)
    assert job is not None
    assert job.state.final
    assert job.values.items() >= {"exit_code": 0, "cpu_s": 1.5, "max_rss_mib": 812}.items()
    assert job.spec.argv[0] == "python"
    assert job.service_us == 2.0
