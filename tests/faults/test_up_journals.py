"""`flyball up` on journals of other versions, and on damaged ones."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.control.journal_cases import Kept, submitted

FLYBALL = (sys.executable, "-m", "flyball")
UPGRADED = Path(__file__).with_name("upgraded_up.py")
WAIT_S = 240.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder whose journal has one job that waits."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    kept = Kept(folder / "journal.db")
    kept.journal.append([submitted(1)]).wait()
    kept.journal.close()
    return folder


def up(state: Path, program: Sequence[str] = FLYBALL) -> tuple[str, int, str]:
    """Start, and stop once it is up: the first line it printed, exit code, what it said."""
    command = [*program, "up", "--state", str(state), "--no-agent", "--no-foresight"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        process.terminate()
        _out, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    return first_line, process.returncode, said


def check_starts(state: Path, program: Sequence[str] = FLYBALL) -> None:
    first_line, code, said = up(state, program)
    assert first_line.startswith("flyball is up: "), said
    assert code == 0, said


def check_refused(state: Path, *words: str) -> None:
    """It exits with 2 and one line with all of these words."""
    first_line, code, said = up(state)
    assert (first_line, code) == ("", 2), said
    lines = said.splitlines()
    assert len(lines) == 1, said
    for word in words:
        assert word in lines[0]


def values(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()


def test_up_upgrades_an_older_journal(state: Path, tmp_path: Path) -> None:
    program = [sys.executable, str(UPGRADED), str(tmp_path / "revisions")]
    check_starts(state, program)
    journal = state / "journal.db"
    assert values(journal, "SELECT version_num FROM alembic_version") == [("0002",)]
    assert values(journal, "SELECT value FROM meta WHERE name = 'upgraded'") == [("yes",)]
    assert values(journal, "SELECT id FROM jobs") == [(1,)]
    backup = state / "journal.db.before-0002"
    assert values(backup, "SELECT version_num FROM alembic_version") == [("0001",)]


def test_up_refuses_a_newer_journal(state: Path) -> None:
    change(state / "journal.db", "UPDATE alembic_version SET version_num = '0099'")
    check_refused(state, "written by a newer Flyball", "schema 0099", "use that version")
    assert values(state / "journal.db", "SELECT id FROM jobs") == [(1,)]


def test_up_starts_on_an_empty_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "journal.db").touch(mode=0o600)
    check_starts(state)
