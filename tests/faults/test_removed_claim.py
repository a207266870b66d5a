"""The claim of a running job is removed or damaged: it runs on, once, and its end is recorded."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.rig import Rig, gone
from tests.named_pipes import send_line
from tests.until import until

from flyball.core.live import Report
from flyball.engines.local import claim, proc

WAITS = 'echo run >> "$FLYBALL_STATE/runs"; read x < "$FLYBALL_STATE/go"; exit 6'
"""Prints that it runs, and ends on a signal."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """An engine with a job that waits."""
    opened = Rig(tmp_path / "state")
    os.mkfifo(opened.state / "go")
    opened.launch("sh", "-c", WAITS)
    opened.report("started")
    until((opened.state / "runs").exists)
    yield opened
    opened.close()


def claim_file(rig: Rig) -> Path:
    return rig.state / "engine" / "1.1"


def begin_anew(rig: Rig) -> None:
    """A new engine on the same folder, as after a restart of the control plane."""
    rig.engine.close()
    again = Rig(rig.state)
    rig.engine = again.engine
    rig.seen = list(rig.engine.reconcile([(1, 1)]))


def let_it_end(rig: Rig) -> Report:
    send_line(rig.state / "go")
    return rig.report("ended")


def assert_ran_once(rig: Rig) -> None:
    end = let_it_end(rig)
    assert (end.values["exit_code"], end.values["why"]) == (6, "exit")
    assert (rig.state / "runs").read_text() == "run\n"
    assert {report.what for report in rig.seen} <= {"started", "ended"}


def observed_until_restored(rig: Rig) -> None:
    def restored() -> bool:
        rig.engine.wait(0.1)
        rig.seen += rig.engine.observe()
        return claim_file(rig).exists()

    until(restored)


def test_removed_claim_is_written_again(rig: Rig) -> None:
    before = rig.claim()
    claim_file(rig).unlink()
    observed_until_restored(rig)
    after = rig.claim()
    assert (after.pid, after.start, after.child) == (before.pid, before.start, before.child)
    assert_ran_once(rig)


def test_removed_claim_is_found_after_a_restart(rig: Rig) -> None:
    claim_file(rig).unlink()
    begin_anew(rig)
    assert [report.what for report in rig.seen if report.what != "started"] == []
    assert_ran_once(rig)


def test_end_of_a_job_whose_claim_was_removed_is_recorded(rig: Rig) -> None:
    """No control plane is there to notify its supervisor that the claim is gone."""
    supervisor = rig.claim().pid
    claim_file(rig).unlink()
    rig.engine.close()
    send_line(rig.state / "go")
    until(lambda: gone(supervisor))
    again = Rig(rig.state)
    rig.engine = again.engine
    rig.seen = list(rig.engine.reconcile([(1, 1)]))
    assert rig.report("ended").values["exit_code"] == 6
    assert (rig.state / "runs").read_text() == "run\n"


def test_nothing_is_left_if_its_supervisor_is_killed_as_well(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state")
    rig.launch("sh", "-c", "setsid sleep 3600 & echo on; wait")  # far longer than `until` waits
    rig.until_prints("on")
    supervisor = rig.claim().pid
    pids = proc.descendants(supervisor)
    claim_file(rig).unlink()
    rig.engine.close()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: gone(supervisor))
    again = Rig(rig.state)
    again.seen = list(again.engine.reconcile([(1, 1)]))
    again.report("void")
    until(lambda: all(gone(pid) for pid in pids))
    again.close()


GARBLED = {
    "empty": b"",
    "not JSON": b"\x00\xff" * 2048,
    "a list": b"[1, 2]".ljust(claim.SIZE),
    "pid is a word": json.dumps({"pid": "x", "start": 1, "boot": "b"}).encode().ljust(claim.SIZE),
    "pid is null": json.dumps({"pid": None, "start": 1}).encode().ljust(claim.SIZE),
    "pid is huge": json.dumps({"pid": 10**30, "start": 1}).encode().ljust(claim.SIZE),
    "start is negative": json.dumps({"pid": 1, "start": -1}).encode().ljust(claim.SIZE),
    "deep": (b"[" * 4000).ljust(claim.SIZE),
}


@pytest.mark.parametrize("data", GARBLED.values(), ids=list(GARBLED))
@pytest.mark.parametrize("restart", [False, True], ids=["goes on", "begins anew"])
def test_garbled_claim_of_a_running_job(rig: Rig, data: bytes, restart: bool) -> None:
    with claim_file(rig).open("r+b") as file:
        file.write(data)
        file.truncate(max(len(data), 1))
    if restart:
        begin_anew(rig)
    assert_ran_once(rig)


@pytest.mark.parametrize("data", GARBLED.values(), ids=list(GARBLED))
def test_garbled_claim_without_a_process_is_lost(tmp_path: Path, data: bytes) -> None:
    rig = Rig(tmp_path / "state")
    (rig.state / "engine" / "1.1").write_bytes(data)
    rig.seen = list(rig.engine.reconcile([(1, 1)]))
    rig.report("lost")
    rig.close()


@pytest.mark.parametrize("end", [{}, {"exit_code": "x"}, {"exit_code": 0, "time_us": None}])
def test_garbled_end_is_no_end(tmp_path: Path, end: dict[str, object]) -> None:
    rig = Rig(tmp_path / "state")
    head = json.dumps({"pid": 1, "start": 1, "boot": "another"}).encode().ljust(claim.HEAD)
    (rig.state / "engine" / "1.1").write_bytes(head + json.dumps(end).encode().ljust(3072))
    rig.seen = list(rig.engine.reconcile([(1, 1)]))
    rig.report("lost")
    rig.close()


def test_folder_in_the_place_of_a_claim(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state")
    (rig.state / "engine" / "1.1").mkdir()
    rig.seen = list(rig.engine.reconcile([(1, 1)]))
    rig.report("lost")
    (rig.state / "engine" / "1.1").rmdir()
    rig.close()
