"""After a restore, new jobs never see what jobs submitted after the backup left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.server.test_up import Up, submit, until

from flyball.control.journal.history import History
from flyball.sdk.client import Client


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Up]]:
    """Start control planes on one state folder, and kill them afterwards."""
    begun: list[Up] = []

    def start_one() -> Up:
        begun.append(Up(tmp_path / "state", "--no-foresight"))
        return begun[-1]

    yield start_one
    for process in begun:
        process.kill()


def completed(client: Client, job: int) -> bool:
    return str(client.job(job)["state"]) == "COMPLETED"


def test_new_job_never_meets_files_of_a_lost_one(start: Callable[[], Up], tmp_path: Path) -> None:
    up = start()
    state, go, copy = up.state, tmp_path / "go", tmp_path / "copy.db"
    save = 'ls "$FLYBALL_CHECKPOINT_DIR"; echo mine > "$FLYBALL_CHECKPOINT_DIR/weights"; echo ran'
    with Client(state) as client:
        # 1. Job 1 waits when the copy is made, and ends after it.
        first = submit(client, f"while [ ! -e {go} ]; do sleep 0.02; done; echo was here", cpus=1)
        until(lambda: client.job(first)["state"] == "RUNNING")
        with History(state / "journal.db") as history:
            history.back_up(copy)
        go.touch()
        until(lambda: completed(client, first))
        # 2. Job 2 comes after the copy, and leaves a checkpoint and a log.
        lost = submit(client, save)
        until(lambda: completed(client, lost))
    assert up.interrupt()[0] == 0
    # 3. The copy is put back by hand.
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (state / name).unlink(missing_ok=True)
    shutil.copy(copy, state / "journal.db")
    start()
    with Client(state) as client:
        new = submit(client, save)
        until(lambda: completed(client, new))
        assert (first, lost, new) == (1, 2, 3)
        assert (state / "logs" / f"{new}.1.out").read_text() == "ran\n"
        # 4. Job 1 was lost as far as the old journal knows: it runs again, with a log of its own.
        until(lambda: completed(client, first))
        attempt = client.job(first)["attempts"]
        assert (state / "logs" / f"{first}.{attempt}.out").read_text() == "was here\n"
