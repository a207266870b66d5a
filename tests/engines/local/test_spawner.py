"""A supervisor is reused after its attempt's end is on record; nothing of that attempt is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.engines.rig import SLEEP, Rig, gone
from tests.until import until

from flyball.core.live import Report
from flyball.engines.local.line import no_spawner
from flyball.engines.local.spawner import MOST_BYTES, MOST_USES


def run(rig: Rig, *argv: str, job: int) -> tuple[int, Report]:
    """Run an attempt until its end is acknowledged; return its supervisor and the report."""
    rig.launch(*argv, job=job)
    pid = rig.claim(job).pid
    report = rig.report("ended", job)
    rig.engine.acknowledge([report])
    return pid, report


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_it_gets_the_next(rig: Rig) -> None:
    busy = ("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $FLYBALL_JOB_ID")
    first, end = run(rig, *busy, job=1)
    assert end.values["cpu_s"] > 0.0
    rig.launch(*SLEEP, job=2)
    assert rig.claim(2).pid == first
    files = open_files(first)
    rig.stop(job=2)
    end = rig.report("ended", 2)
    assert (end.values["why"], end.values["signal"]) == ("stopped", signal.SIGTERM)
    rig.engine.acknowledge([end])
    for job in range(3, 12):
        assert run(rig, "sh", "-c", f"echo {job}; exit {job}", job=job)[0] == first
        end = rig.report("ended", job)
        assert (end.values["exit_code"], end.values["why"]) == (job, "exit")
        assert end.values["cpu_s"] < 0.1
        assert rig.output(job) == f"{job}\n"
    assert rig.output(1) == "1\n"
    rig.launch(*SLEEP, job=20)
    assert rig.claim(20).pid == first
    assert open_files(first) == files


def test_also_after_one_that_could_not_begin(rig: Rig) -> None:
    rig.launch("true", job=1, cwd="/no/such/folder")
    end = rig.report("ended", 1)
    assert end.values["why"] == "boot"
    rig.engine.acknowledge([end])
    pid, end = run(rig, "sh", "-c", "exit 3", job=2)
    assert end.values["exit_code"] == 3
    assert run(rig, "true", job=3)[0] == pid


def test_not_before_the_end_is_on_record(rig: Rig) -> None:
    """Until then the previous attempt may still be stopped."""
    rig.launch("true", job=1)
    first = rig.claim(1).pid
    rig.report("ended", 1)
    rig.launch(*SLEEP, job=2)
    assert rig.claim(2).pid != first


def test_one_that_was_killed_meanwhile_is_given_nothing(rig: Rig) -> None:
    first, _end = run(rig, "true", job=1)
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first))
    pid, end = run(rig, "sh", "-c", "exit 4", job=2)
    assert pid != first
    assert end.values["exit_code"] == 4


def test_a_request_that_is_too_long_to_pass_on(rig: Rig) -> None:
    first, _end = run(rig, "true", job=1)
    env = {"A": "a" * MOST_BYTES}
    rig.launch("sh", "-c", "exit ${#A}", job=2, env=env)
    assert rig.claim(2).pid != first
    assert rig.ended(2)["exit_code"] == MOST_BYTES % 256


def test_it_is_not_used_for_ever(rig: Rig) -> None:
    pids = [run(rig, "true", job=job)[0] for job in range(1, MOST_USES + 2)]
    assert len(set(pids[:MOST_USES])) == 1
    assert pids[-1] != pids[0]


def test_it_does_not_stay_for_long(rig: Rig) -> None:
    first, _end = run(rig, "true", job=1)
    rig.engine.observe()
    until(lambda: gone(first))


def test_it_ends_with_the_spawner(rig: Rig) -> None:
    first, _end = run(rig, "true", job=1)
    rig.engine._hang_up(kill=True)
    until(lambda: gone(first))


def test_what_is_passed_on_holds_the_locks(rig: Rig, tmp_path: Path) -> None:
    """A launch in flight to a free supervisor counts: sent again, it would run twice."""
    first, _end = run(rig, "true", job=1)
    os.kill(first, signal.SIGSTOP)
    mark = tmp_path / "runs"
    rig.launch("sh", "-c", f"echo x >> {mark}", job=2)
    spawner = rig.spawner()
    until(lambda: "poll" in Path(f"/proc/{spawner}/wchan").read_text())
    os.kill(spawner, signal.SIGKILL)
    until(lambda: gone(spawner))
    assert not no_spawner(rig.state / "engine")
    rig.engine._restart()  # sends it to another spawner, which has to wait
    os.kill(first, signal.SIGCONT)
    assert rig.ended(2)["exit_code"] == 0
    rig.engine.acknowledge([rig.report("ended", 2)])
    run(rig, "true", job=3)
    assert mark.read_text() == "x\n"
