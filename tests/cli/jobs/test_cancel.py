"""`flyball cancel` and `flyball queue` with more jobs than one answer holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.world import SLEEP, World

from flyball.cli.jobs.cancel import Cancellation, lines
from flyball.cli.main import run
from flyball.sdk.client import Client
from flyball.sdk.errors import ApiError


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Serve a control plane that acts only when tests say so, and point commands at it."""
    new_world = World(tmp_path / "state")
    monkeypatch.setenv("FLYBALL_STATE", str(new_world.folder))
    with new_world.server():
        yield new_world
    new_world.plane.close()


def submitted(world: World, count: int, **asked: Any) -> list[int]:
    with Client(world.folder) as client:
        return client.submit_many([{**SLEEP, **asked}] * count)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    printed = capsys.readouterr()
    return printed.out or printed.err


def test_all_means_all(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.sdk.client.QUEUE_PAGE", 1000)
    ids = submitted(world, 2100, user="ben") + submitted(world, 3, user="ada", name="late")
    shown = json.loads(asked(capsys, "queue", "--user", "ada", "--json"))
    assert [job["id"] for job in shown] == ids[-3:]
    assert len(json.loads(asked(capsys, "queue", "--json"))) == 2103
    assert "waiting (2,103)" in asked(capsys, "top", "--once")
    assert asked(capsys, "cancel", "--user", "") == (
        "nothing to cancel: no such job runs or waits\n"
    )
    assert asked(capsys, "cancel", "--name", "late") == "cancelled 3 jobs: 2101-2103\n"
    assert asked(capsys, "cancel", "--all") == "cancelled 2,100 jobs: 1-2100\n"
    assert json.loads(asked(capsys, "queue", "--json")) == []
    assert len(json.loads(asked(capsys, "queue", "--all", "--json"))) == 2103


def test_one_that_is_not_there_keeps_no_other_from_ending(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(world, 4)
    said = asked(capsys, "cancel", "1", "999", "2", "2", code=2)
    assert said.splitlines() == [
        "cancelled 2 jobs: 1-2",
        "999 was not cancelled: no job 999; see flyball queue --all",
    ]
    assert json.loads(asked(capsys, "cancel", "1", "3", "998", "--json", code=2)) == {
        "cancelled": [3],
        "ended": ["1"],
        "failed": [{"job": "998", "error": "no job 998; see flyball queue --all"}],
    }
    assert asked(capsys, "cancel", "3") == "3 had ended already\n"


def test_what_may_help_later_has_its_own_exit_code(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(self: Client, job: str) -> list[int]:
        raise ApiError(503, "the disk is full", "try again")

    monkeypatch.setattr(Client, "cancel", busy)
    said = asked(capsys, "cancel", "1", code=75)
    assert said == "1 was not cancelled: the disk is full; try again\n"


def test_what_was_done_in_a_line() -> None:
    assert list(lines(Cancellation([1, 2, 3, 7], [], {}))) == ["cancelled 4 jobs: 1-3,7"]
    (many,) = lines(Cancellation(list(range(1, 1000, 2)), [], {}))
    assert many.startswith("cancelled 500 jobs: 1,3,5,")
    assert many.endswith(",37,39,...")


def test_nothing_done() -> None:
    assert list(lines(Cancellation([], [], {}))) == ["nothing to cancel: no such job runs or waits"]


def test_the_queue_says_why(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    submitted(world, 10, user="ada")
    world.step()
    said = asked(capsys, "queue").splitlines()
    assert [line.split()[3:5] for line in said[10:12]] == [
        ["PENDING", "(no-free-devices)"],
        ["PENDING", "(behind-head)"],
    ]
