"""The local engine: launch, observe, stop, acknowledge, with real processes."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from tests.engines.rig import SLEEP, Rig, gone
from tests.named_pipes import send_line
from tests.until import WAIT_S, until

from flyball.core.clock import RealClock
from flyball.core.live import LiveNode, Stop
from flyball.engines.local import claim, proc
from flyball.engines.local.attempts import Attempt
from flyball.engines.local.engine import START_S, LocalEngine


def test_life_of_an_attempt(rig: Rig) -> None:
    assert rig.launch("sh", "-c", "exit 3", job=7).accepted
    started = rig.report("started", job=7)
    ended = rig.report("ended", job=7)
    assert started.values["pid"] > 0
    assert started.time_us <= ended.time_us
    assert (ended.values["exit_code"], ended.values["why"]) == (3, "exit")
    assert rig.claims() == ["7.1"]
    rig.engine.acknowledge([started, ended])
    rig.engine.wait(0.0)
    assert rig.claims() == []
    assert rig.engine.observe() == []


def test_a_start_is_told_once_and_an_end_until_acknowledged(rig: Rig) -> None:
    rig.launch("true")
    rig.report("ended")
    assert [report.what for report in rig.seen].count("started") == 1
    assert [report.what for report in rig.engine.observe()] == ["ended"]
    again = rig.engine.observe()
    assert [report.what for report in again] == ["ended"]
    rig.engine.acknowledge(again)
    rig.engine.acknowledge(again)  # no matter how often


def test_a_start_is_told_with_an_end_or_soon(rig: Rig) -> None:
    rig.launch(*SLEEP, job=1)
    began_us = rig.report("started", job=1).time_us
    assert rig.engine._now_us() - began_us >= 0.9e6 * START_S
    rig.launch(*SLEEP, job=2)
    rig.claim(job=2)
    assert rig.engine.observe() == []
    rig.launch("true", job=3)
    rig.report("ended", job=3)
    assert [(report.job, report.what) for report in rig.seen[1:]] == [
        (2, "started"),
        (3, "started"),
        (3, "ended"),
    ]


def test_claims_go_when_nobody_makes_one(rig: Rig) -> None:
    rig.launch("true", job=1)
    rig.report("ended", job=1)
    rig.launch(*SLEEP, job=2)
    rig.engine.acknowledge(rig.seen)
    assert rig.claims()[0] == "1.1"
    assert rig.engine.observe() == []  # what is forgotten is not told again
    rig.report("started", job=2)
    assert rig.claims() == ["2.1"]


def test_a_claim_that_was_seen_and_taken_back_is_void(tmp_path: Path) -> None:
    """A disk may fail only when the claim is synced, after the engine has seen it: the supervisor
    is alive, free for other attempts, and runs nothing."""
    rig = Rig(tmp_path / "state", patience_s=0.1)
    attempts, folder = rig.engine._attempts, os.open(tmp_path / "state" / "engine", os.O_RDONLY)
    attempts.by_token[1, 1] = attempts.unclaimed[1, 1] = Attempt()
    process = proc.stat(os.getpid())
    assert process is not None
    holder = {"pid": process.pid, "start": process.start, "boot": proc.boot_id(), "child": 0}
    file = claim.make(folder, {"job": 1, "attempt": 1, **holder, "time_us": 1, "cpu_s": 0.0})
    rig.engine.observe()
    assert attempts.by_token[1, 1].claim is not None and not attempts.unclaimed
    attempts.refuse((1, 1), "Input/output error", rig.engine._clock.now())
    assert not attempts.unclaimed, "as long as the claim is there, it is the other launch's"
    os.unlink(claim.name_of(1, 1), dir_fd=folder)
    attempts.refuse((1, 1), "Input/output error", rig.engine._clock.now())
    void = rig.report("void")
    assert void.values["message"] == "cannot be claimed: Input/output error"
    for descriptor in (file, folder):
        os.close(descriptor)
    rig.close()


def test_a_claim_that_cannot_be_removed_now_is_removed_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.launch("true")
    rig.report("ended")
    rig.engine.acknowledge(rig.seen)

    def unlink(name: str, **_more: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        rig.engine.wait(0.0)
    assert rig.claims() == ["1.1"]
    assert rig.engine.observe() == [], "it is forgotten all the same"
    rig.engine.wait(0.0)
    assert rig.claims() == []


def test_an_end_wakes_whoever_waits(rig: Rig) -> None:
    """Not only at the rescan of the folder, every 2 s."""
    rig.listens_only()
    for job in range(1, 10):
        rig.launch("true", job=job)
        while "ended" not in [report.what for report in rig.seen if report.job == job]:
            assert rig.engine.wait(WAIT_S), "it was not woken"
            rig.seen += rig.engine.observe()


def test_nothing_happens_while_nothing_happens(rig: Rig) -> None:
    rig.launch(*SLEEP)
    rig.report("started")
    rig.engine.observe()
    before_s = time.monotonic()
    assert rig.engine.wait(0.2) is False
    assert time.monotonic() - before_s >= 0.19


def test_the_same_token_runs_once(rig: Rig, tmp_path: Path) -> None:
    mark = tmp_path / "runs"
    for _ in range(3):
        assert rig.launch("sh", "-c", f"echo x >> {mark}").accepted
    rig.ended()
    assert rig.launch("sh", "-c", f"echo x >> {mark}").accepted
    rig.launch("true", job=2)
    rig.ended(job=2)  # whatever was sent before it has been served
    assert mark.read_text() == "x\n"


def test_another_attempt_runs_again(rig: Rig) -> None:
    rig.launch("true")
    rig.launch("false", attempt=2)
    assert rig.ended()["exit_code"] == 0
    assert rig.ended(attempt=2)["exit_code"] == 1


def test_stop_before_the_claim_is_seen(rig: Rig) -> None:
    rig.launch(*SLEEP)
    assert rig.stop().accepted
    end = rig.ended()
    assert (end["why"], end["signal"]) == ("stopped", 15)
    assert rig.stop().accepted  # it is over: that was what was wanted


def test_stop_of_what_was_never_launched(rig: Rig) -> None:
    assert not rig.engine.apply(Stop(99, 1, "cancel")).accepted


def test_many_at_a_time(rig: Rig) -> None:
    for job in range(1, 41):
        assert rig.launch("sh", "-c", f"exit {job}", job=job).accepted
    assert [rig.ended(job=job)["exit_code"] for job in range(1, 41)] == list(range(1, 41))
    rig.engine.acknowledge(rig.seen)
    rig.engine.wait(0.0)
    assert rig.claims() == []


def test_a_line_longer_than_the_socket_holds(rig: Rig) -> None:
    """Launches wait in the engine, which does not wait for them."""
    big = {"BIG": "x" * 100_000}
    for job in range(1, 9):
        assert rig.launch("sh", "-c", "echo ${#BIG}", job=job, env=big).accepted
    for job in range(1, 9):
        rig.ended(job=job)
        assert rig.output(job=job) == "100000\n"


def test_jobs_outlive_the_engine_and_a_new_one_goes_on(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    os.mkfifo(tmp_path / "go")  # before the job is there to read it
    first.launch("sh", "-c", "read x < $FLYBALL_STATE/go; exit 5", job=1)
    first.launch("sh", "-c", "exit 6", job=2)
    first.report("started", job=1)
    first.report("ended", job=2)
    spawner = first.spawner()
    first.engine.close()
    until(lambda: gone(spawner))
    second = Rig(tmp_path)
    reconciled = {report.job: report.what for report in second.engine.reconcile([(1, 1), (2, 1)])}
    reports = second.engine.observe()
    assert reconciled[1] == "started"
    assert [(report.job, report.what) for report in reports] == [(2, "ended")]
    send_line(tmp_path / "go")
    assert second.ended(job=1)["exit_code"] == 5
    assert second.ended(job=2)["exit_code"] == 6
    second.close()


def test_stop_after_a_restart(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.launch(*SLEEP)
    first.report("started")
    first.engine.close()
    second = Rig(tmp_path)
    assert second.stop().accepted  # even before it was looked at
    assert second.ended()["why"] == "stopped"
    second.close()


def test_a_long_path_of_the_state_folder(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a" * 60] * 4)
    rig = Rig(deep)
    rig.launch("true")
    assert rig.ended()["exit_code"] == 0
    rig.close()


def test_without_a_watch_the_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.engines.local.watch.FolderWatch.works", False)
    rig = Rig(tmp_path)
    rig.launch("true")
    assert rig.ended()["exit_code"] == 0
    rig.close()


def test_the_node_is_as_given_or_as_found(tmp_path: Path) -> None:
    node = LiveNode("here", "V100", 2, 8, 1000, ("GPU-a", "GPU-b"))
    engine = LocalEngine(tmp_path, RealClock(), node)
    assert engine.nodes() == (node,)
    engine.close()
    engine = LocalEngine(tmp_path, RealClock())
    assert engine.nodes()[0].cpus == len(os.sched_getaffinity(0))
    engine.close()
