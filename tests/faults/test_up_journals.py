"""`flyball up` on journals of other versions, and on damaged ones."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.control.journal.cases import Kept, submitted
from tests.until import WAIT_S, until

FLYBALL = (sys.executable, "-m", "flyball")
UPGRADED = Path(__file__).with_name("upgraded_up.py")


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
    """Start, and stop once it is up; return its first line, exit code and standard error."""
    command = [*program, "up", "--state", str(state), "--no-agent", "--no-foresight"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        process.terminate()
        _out, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    return first_line, process.returncode, errors


def check_starts(state: Path, program: Sequence[str] = FLYBALL) -> None:
    first_line, code, errors = up(state, program)
    assert first_line.startswith("flyball is up: "), errors
    assert code == 0, errors


def check_refused(state: Path, *words: str) -> None:
    """Check that it exits with 2 and prints one line with all of these words."""
    first_line, code, errors = up(state)
    assert (first_line, code) == ("", 2), errors
    lines = errors.splitlines()
    assert len(lines) == 1, errors
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


def cut(journal: Path) -> None:
    os.truncate(journal, journal.stat().st_size - 100)


def forget_version(journal: Path) -> None:
    change(journal, "DELETE FROM alembic_version")


def garble_job(journal: Path) -> None:
    change(journal, "UPDATE jobs SET spec = '{\"argv'")


def garble_event(journal: Path) -> None:
    change(journal, "UPDATE events SET body = '{' WHERE kind = 'submitted'")


def offline(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*FLYBALL, *arguments], capture_output=True, text=True, timeout=WAIT_S)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("damage", [cut, forget_version, garble_job])
def test_up_refuses_a_damaged_journal_in_one_line(
    state: Path, damage: Callable[[Path], None]
) -> None:
    damage(state / "journal.db")
    check_refused(state, "journal.db is damaged", "restore")


@pytest.mark.parametrize("damage", [forget_version, garble_event])
def test_offline_readers_refuse_a_damaged_journal_in_one_line(
    state: Path, damage: Callable[[Path], None]
) -> None:
    damage(state / "journal.db")
    code, _out, errors = offline("replay", "--decisions", str(state))
    assert code == 2
    assert "is damaged" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@pytest.mark.parametrize("damage", [forget_version, garble_job])
def test_export_refuses_a_damaged_journal_in_one_line(
    state: Path, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    node = {"name": "a", "device": "CPU1", "devices": 1, "cpus": 1, "memory_mib": 9, "uuids": []}
    body = json.dumps({"nodes": [{**node, "of_a_newer_version": 1}]})
    columns = "(seq, time_us, kind, body)"
    change(state / "journal.db", f"INSERT INTO events {columns} VALUES (9, 1, 'opened', '{body}')")
    damage(state / "journal.db")
    out = str(tmp_path / "x.jsonl")
    code, _out, errors = offline("trace", "export", out, "--state", str(state))
    assert (code, errors.count("\n")) == (2, 1), errors
    assert "is damaged" in errors


def test_doctor_says_that_a_journal_is_damaged(state: Path) -> None:
    assert finding(state)["state"] == "ok"
    cut(state / "journal.db")
    damaged_finding = finding(state)
    assert (damaged_finding["state"], "restore" in damaged_finding["remedy"]) == ("damaged", True)


def finding(state: Path) -> dict[str, str]:
    """Return what `doctor` finds about the journal."""
    code, out, errors = offline("doctor", "--state", str(state), "--json")
    assert code == 0, errors
    return next(entry for entry in json.loads(out)["findings"] if entry["name"] == "journal")


def test_unknown_field_of_an_ended_job_is_ignored(state: Path) -> None:
    journal = state / "journal.db"
    change(journal, "UPDATE jobs SET spec = json_set(spec, '$.site', 'x')")
    check_refused(state, "job 1 in the journal states 'site'", "use the version that accepted it")
    change(journal, "UPDATE jobs SET state = 'COMPLETED', end_us = submit_us + 1")
    change(journal, "UPDATE events SET body = json_set(body, '$.spec.site', 'x')")
    check_starts(state)
    code, _out, errors = offline("replay", "--decisions", str(state))
    assert code == 0, errors


def test_removed_endpoint_file_is_written_again(state: Path) -> None:
    endpoint = state / "endpoint.json"
    command = [*FLYBALL, "up", "--state", str(state), "--no-agent", "--no-foresight"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("flyball is up: ")
        before = endpoint.read_text()
        endpoint.unlink()
        until(endpoint.exists, "the endpoint file is written again")
        assert endpoint.read_text() == before
    finally:
        process.kill()
        process.communicate()
