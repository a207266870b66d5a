"""The journal under faults: full and broken disks, torn and damaged files, kill -9."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy import event as hook
from sqlalchemy.exc import OperationalError
from tests.control.journal.cases import (
    START_US,
    Kept,
    every_job,
    everything,
    folded,
    life,
    submitted,
)
from tests.until import WAIT_S

from flyball.control.journal import sqlite
from flyball.control.journal.history import History
from flyball.control.journal.store import Journal, JournalUnavailable
from flyball.core.errors import BadInput
from flyball.core.events import Audited, Event

ROOT = Path(__file__).parents[2]


def check_intact(history: History) -> list[tuple[int, Event]]:
    """Check that numbers have no gap, appends are whole, and states are the fold of the events."""
    events = everything(history)
    assert [seq for seq, _ in events] == list(range(1, len(events) + 1))
    assert every_job(history) == folded(events)
    return events


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    opened = Kept(tmp_path / "journal.db", inline=False)
    for events in islice(life(3), 20):
        opened.journal.append(events).wait(WAIT_S)
    yield opened
    opened.journal.close()


# Disks -----------------------------------------------------------------------------


def test_a_full_disk(kept: Kept) -> None:
    """Cause SQLite's "full" by a limit on the pages of the file."""
    journal, before = kept.journal, kept.journal.last().seq
    states = dict(kept.live_state.jobs)
    limit = {"pages": 1}

    def set_limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={limit['pages']}")

    hook.listen(journal._writer, "connect", set_limit)
    _renew(journal)
    events = [submitted(job) for job in range(10_000, 10_200)]
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match=r"is full.*; free space where") as full:
            journal.append(events, "k", 1).wait(WAIT_S)
        assert full.value.exit_code == 75
    assert (journal.last().seq, journal.answer("k")) == (before, None)
    assert kept.live_state.jobs == states
    limit["pages"] = 2**30
    _renew(journal)
    assert journal.append(events, "k", 1).wait(WAIT_S) == before + 200
    assert len(check_intact(journal)) == before + 200


def _renew(journal: Journal) -> None:
    """Have the writer open a new connection next time."""
    connection, journal._connection = journal._connection, None
    if connection is not None:
        connection.close()
    journal._writer.dispose()


def test_a_disk_that_fails_at_the_commit(kept: Kept) -> None:
    journal, before = kept.journal, kept.journal.last().seq
    left = [3]

    def fail(connection: Connection) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    hook.listen(journal._writer, "commit", fail)
    count = len(kept.told)
    for _ in range(3):
        with pytest.raises(JournalUnavailable, match=r"disk I/O error\); check the disk"):
            journal.append([submitted(20_000)]).wait(WAIT_S)
    assert len(kept.told) == count
    assert journal.append([submitted(20_000)]).wait(WAIT_S) == before + 1
    check_intact(journal)


def test_every_ticket_of_a_failed_commit_fails(kept: Kept) -> None:
    entered, opened = threading.Event(), threading.Event()

    def fail(connection: Connection) -> None:
        entered.set()
        assert opened.wait(WAIT_S)
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    hook.listen(kept.journal._writer, "commit", fail)
    tickets = [kept.journal.append([submitted(20_000)])]
    assert entered.wait(WAIT_S)
    tickets += [kept.journal.append([submitted(20_000 + at)]) for at in range(1, 20)]
    opened.set()
    for ticket in tickets:
        with pytest.raises(JournalUnavailable):
            ticket.wait(WAIT_S)
    assert not [job for job in kept.live_state.jobs if job >= 20_000]
    check_intact(kept.journal)


def test_a_locked_file(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    other = Journal(kept.journal.path, kept.live_state.fold, inline=True)
    holder = sqlite3.connect(kept.journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match=r"is locked.*another process holds"):
        other.append([submitted(30_000)]).wait()
    holder.execute("ROLLBACK")
    holder.close()
    assert other.append([submitted(30_000)]).wait() == kept.live_state.seq + 1
    other.close()


# Files -----------------------------------------------------------------------------


def test_a_torn_log_loses_only_its_end(kept: Kept, tmp_path: Path) -> None:
    """Cut the write-ahead log anywhere, as a power cut may: whole appends are left."""
    path, draw = kept.journal.path, random.Random(4)
    before, kept_bytes = everything(kept.journal), (path.parent / "journal.db-wal").stat().st_size
    lengths = []
    for at, cut in enumerate(sorted(draw.sample(range(kept_bytes), 12))):
        folder = tmp_path / str(at)
        folder.mkdir()
        shutil.copy(path, folder)
        shutil.copy(f"{path}-wal", folder)
        os.truncate(folder / "journal.db-wal", cut)
        again = Kept(folder / "journal.db")
        events = check_intact(again.journal)
        assert events == before[: len(events)]
        assert again.journal.append([submitted(40_000)]).wait() == len(events) + 1
        again.journal.close()
        lengths.append(len(events))
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3


def test_a_damaged_file_is_refused(kept: Kept, tmp_path: Path) -> None:
    kept.journal.close()
    path = kept.journal.path
    backup = tmp_path / "journal.db.before-0002"
    intact = path.read_bytes()
    path.write_bytes(intact[:8192] + b"\xff" * 4096 + intact[12_288:])
    with pytest.raises(BadInput, match=r"is damaged .*sqlite3 journal\.db \.recover"):
        Journal(path, lambda events: {})
    backup.write_bytes(intact)
    with pytest.raises(BadInput, match=r"is damaged .*restore journal\.db\.before-0002"):
        Journal(path, lambda events: {})
    path.write_text("This is no database at all. " * 200)
    with pytest.raises(BadInput, match=r"is damaged .*not a database"):
        Journal(path, lambda events: {})
    with pytest.raises(BadInput, match=r"is damaged .*not a database"):
        History(path)
    shutil.copy(backup, path)
    again = Kept(path)
    assert again.live_state.seq == kept.live_state.seq
    again.journal.close()


def test_a_large_file_is_not_checked_in_full(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.journal.close()
    path = kept.journal.path
    engine = sqlite.open_engine(path, writes=False)
    assert sqlite.quick_check(engine, path) == ""
    path.write_bytes(path.read_bytes()[:8192] + bytes(4096) + path.read_bytes()[12_288:])
    engine.dispose()
    assert sqlite.quick_check(engine, path) != ""
    monkeypatch.setattr(sqlite, "CHECKED_BYTES", 4096)
    assert sqlite.quick_check(engine, path) == ""
    engine.dispose()


# Processes ---------------------------------------------------------------------------

WRITERS = 4


def write_until_killed(path: Path, seed: int) -> None:
    """Append from several threads and print what was confirmed, until killed."""
    kept = Kept(path, inline=False)

    def work(worker: int) -> None:
        lives = life(seed * 100 + worker, first_job=(seed * WRITERS + worker) * 1_000_000 + 1)
        for number, events in zip(count(), lives):
            name = f"{seed}.{worker}.{number}"
            mark = Audited(events[-1].time_us, name, str(len(events)))
            seq = kept.journal.append([*events, mark], name, number).wait(WAIT_S)
            os.write(1, f"{name} {seq}\n".encode())

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WRITERS)]
    for thread in threads:
        thread.start()


def write_with_little_room(path: Path) -> None:
    """Fail at a file size limit, get room, and continue."""
    kept = Kept(path)
    kept.journal.append([submitted(1)]).wait()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, most))
    events = [submitted(job) for job in range(2, 1000)]
    try:
        kept.journal.append(events).wait()
    except JournalUnavailable as error:
        os.write(1, f"{error}\n".encode())
    try:
        kept.journal.back_up(path.with_name("copy.db"))
    except JournalUnavailable as error:
        os.write(1, f"{error}\n".encode())
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    os.write(1, f"{kept.journal.append(events).wait()}\n".encode())
    kept.journal.close()


def process(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.soak)])
def test_kill_9_at_any_point(tmp_path: Path, kills: int) -> None:
    """All confirmed appends are there after a kill, and none in part."""
    path, draw = tmp_path / "journal.db", random.Random(5)
    confirmed: dict[str, int] = {}
    for seed in range(1, kills + 1):
        writer = process("kill", path, seed)
        assert writer.stdout is not None
        for line in islice(writer.stdout, draw.randint(1, 60)):
            name, seq = line.split()
            confirmed[name] = int(seq)
        writer.kill()
        for line in writer.stdout:  # confirmed, but not read before the kill
            if line.endswith("\n"):
                name, seq = line.split()
                confirmed[name] = int(seq)
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL
        kept = Kept(path)
        events = check_intact(kept.journal)
        last: dict[str, int] = {}
        size = 0
        for at, event in events:
            assert event.time_us > START_US - 1
            if isinstance(event, Audited):  # the mark at the end of every append
                assert size == int(event.who)
                last[event.what], size = at, 0
            else:
                size += 1
        assert size == 0, "an append is there in part"
        assert {name: last[name] for name in confirmed} == confirmed
        for name in last:
            answer = kept.journal.answer(name)
            assert answer == (int(name.rsplit(".", 1)[1]), last[name])
        assert {job.id: job for job in kept.journal.active()} == kept.live_state.jobs
        kept.journal.close()
    assert len(confirmed) > 10 * kills


def test_a_file_size_limit_of_the_system(tmp_path: Path) -> None:
    """The operating system itself refuses to write; afterwards there is room again."""
    writer = process("room", tmp_path / "journal.db")
    output, _ = writer.communicate(timeout=WAIT_S)
    refused, no_copy, number = output.splitlines()
    assert "journal.db cannot be used (" in refused
    assert "copy.db cannot be written (" in no_copy
    assert number == "999"
    assert {file.name for file in tmp_path.iterdir()} == {"journal.db"}
    kept = Kept(tmp_path / "journal.db")
    assert len(check_intact(kept.journal)) == 999
    kept.journal.close()


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        write_until_killed(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        write_with_little_room(Path(sys.argv[2]))
