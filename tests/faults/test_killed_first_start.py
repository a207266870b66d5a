"""`flyball up` is killed during the first start of a state folder: the next one always starts."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.until import WAIT_S

KILLED_UP = Path(__file__).with_name("killed_up.py")


def up_arguments(state: Path) -> list[str]:
    return ["up", "--state", str(state), "--no-agent", "--no-foresight"]


def start(state: Path, points: Path, kill_at: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(KILLED_UP), str(points), str(kill_at), *up_arguments(state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_and_stop(state: Path) -> None:
    """Check that the real command starts on this folder, and its journal is intact."""
    command = [sys.executable, "-m", "flyball", *up_arguments(state)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        process.terminate()
        _out, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert first_line.startswith("flyball is up: "), errors
    assert process.returncode == 0, errors
    with closing(sqlite3.connect(state / "journal.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kinds = database.execute("SELECT kind FROM events").fetchall()
        assert set(kinds) == {("opened",)}


def points_of_a_start(folder: Path) -> list[str]:
    """Return the points that a first start passes until it is up, in order."""
    points = folder / "points"
    process = start(folder / "state", points, 0)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("flyball is up: ")
        return points.read_text().splitlines()
    finally:
        process.kill()
        process.communicate()


def killed_at(folder: Path, number: int) -> Path:
    """Return a state folder whose first start was killed at this point."""
    state = folder / f"state-{number}"
    process = start(state, folder / f"points-{number}", number)
    _out, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == -signal.SIGKILL, errors
    return state


def first_of(points: list[str], beginning: str) -> int:
    """Return the number of the first point with such a name."""
    for number, point in enumerate(points, 1):
        if point.startswith(beginning):
            return number
    raise AssertionError(f"no start passes {beginning!r}: {points}")


def test_first_start_killed_at_each_stage(tmp_path: Path) -> None:
    points = points_of_a_start(tmp_path)
    stages = [
        first_of(points, "os.link /token"),
        first_of(points, "open /journal.db") + 1,  # the file is there and empty
        first_of(points, "CREATE TABLE alembic_version"),
        first_of(points, "CREATE TABLE jobs"),
        first_of(points, "INSERT INTO alembic_version"),
        first_of(points, "INSERT INTO alembic_version") + 1,  # about to commit
        first_of(points, "INSERT INTO events"),
        first_of(points, "os.rename /endpoint"),  # the endpoint is about to be published
    ]
    for number in sorted(set(stages)):
        state = killed_at(tmp_path, number)
        check_starts(state, points[number - 1])


def check_starts(state: Path, point: str) -> None:
    try:
        start_and_stop(state)
    except AssertionError as error:
        raise AssertionError(f"killed at {point!r}: {error}") from error


@pytest.mark.soak
def test_first_start_killed_at_every_point(tmp_path: Path) -> None:
    points = points_of_a_start(tmp_path)
    for number in range(1, len(points) + 1):
        check_starts(killed_at(tmp_path, number), points[number - 1])
