"""Whatever is killed, no attempt is lost from sight, none runs twice, and nothing is left over."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.rig import SLEEP, Rig, gone
from tests.until import WAIT_S, until

from flyball.core.live import Report
from flyball.engines.local import attempts, claim, proc
from flyball.engines.local.cgroup import Group, find_place, group_name
from flyball.engines.local.line import PRESENCE

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    opened = Rig(tmp_path / "state")
    yield opened
    opened.close()


def whats(reports: list[Report]) -> list[str]:
    return [report.what for report in reports]


# The supervisor ----------------------------------------------------------------------


def test_killed_supervisor_is_lost_and_leaves_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed by the file that the kernel closes, before the folder is rescanned."""
    monkeypatch.setattr(attempts, "CLOSING_S", WAIT_S)
    rig.launch("sh", "-c", "sleep 60 & setsid sleep 61 & echo on; wait")
    rig.until_prints("on")
    pids = proc.descendants(rig.claim().pid)
    assert len(pids) == 3
    rig.report("started")
    rig.listens_only()
    os.kill(rig.claim().pid, signal.SIGKILL)
    lost = rig.report("lost")
    assert all(gone(pid) for pid in pids)
    assert "is gone without a record" in lost.values["message"]
    assert "ended" not in whats(rig.seen)
    rig.engine.acknowledge([lost])
    rig.engine.wait(0.0)
    assert rig.claims() == []


def test_killed_supervisor_of_a_job_with_a_memory_group(rig: Rig) -> None:
    rig.launch(*SLEEP, memory_mib=100)
    held = rig.claim()
    place = find_place()
    folder = os.open(rig.state / "engine", os.O_RDONLY)
    group = None if place is None else Group(place, group_name(folder, 1, 1))
    os.close(folder)
    if group is not None and not group.pids():
        pytest.skip("memory groups are not permitted here")
    os.kill(held.pid, signal.SIGKILL)
    rig.report("lost")
    assert gone(held.child)
    assert group is None or not os.path.exists(group.folder)


def test_killed_while_no_control_plane_was_there(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.launch("sh", "-c", "setsid sleep 60 & echo on; wait")
    first.until_prints("on")
    held = first.claim()
    pids = proc.descendants(held.pid)
    first.engine.close()
    os.kill(held.pid, signal.SIGKILL)
    second = Rig(tmp_path)
    second.seen += second.engine.reconcile([(1, 1)])
    second.report("lost")
    assert all(gone(pid) for pid in pids)
    second.close()


def test_a_record_outweighs_a_death(tmp_path: Path) -> None:
    """A supervisor that is gone after it recorded the end has not lost anything."""
    first = Rig(tmp_path)
    first.launch("sh", "-c", "exit 9")
    held = first.claim()
    first.engine.close()
    until(lambda: gone(held.pid))
    second = Rig(tmp_path)
    reports = list(second.engine.reconcile([(1, 1)]))
    assert whats(reports) == ["started", "ended"]
    assert reports[1].values["exit_code"] == 9
    second.close()


@pytest.mark.parametrize("field", ["start", "boot"])
def test_another_process_with_the_same_pid_is_not_it(rig: Rig, field: str) -> None:
    """A reused pid, or a machine that was rebooted."""
    other = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    stat = proc.stat(other.pid)
    assert stat is not None
    head: dict[str, int | str] = {
        "job": 1,
        "attempt": 1,
        "pid": other.pid,
        "start": stat.start,
        "child": 1,
    }
    head |= {"boot": proc.boot_id(), "time_us": 5}
    head[field] = 1 if field == "start" else "another"
    folder = os.open(rig.state / "engine", os.O_RDONLY)
    os.close(claim.make(folder, head))
    os.close(folder)
    rig.report("lost")
    assert other.poll() is None  # a stranger is not killed
    other.kill()
    other.wait()


def test_a_blank_claim_is_lost_unless_a_process_holds_it(rig: Rig) -> None:
    path = rig.state / "engine" / "1.1"
    holder = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"f = open({str(path)!r}, 'w'); print(1, flush=True)\n"
         "import time; time.sleep(3600)"], stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    assert rig.engine.reconcile([(1, 1)]) == []
    assert rig.engine.observe() == []
    holder.kill()
    holder.wait()
    holder.stdout.close()
    rig.report("lost")


# The spawner -------------------------------------------------------------------------


def test_killed_spawner_takes_no_job_with_it(rig: Rig) -> None:
    rig.launch(*SLEEP)
    rig.report("started")
    first = rig.spawner()
    os.kill(first, signal.SIGKILL)
    rig.launch("true", job=2)
    assert rig.ended(job=2)["exit_code"] == 0
    assert rig.spawner() != first
    assert not gone(rig.claim().child)
    rig.stop()
    assert rig.ended()["why"] == "stopped"


def test_launches_a_spawner_never_read_are_sent_again(rig: Rig, tmp_path: Path) -> None:
    rig.launch("true", job=99)
    rig.ended(job=99)
    first = rig.spawner()
    os.kill(first, signal.SIGSTOP)  # reads no more
    for job in range(1, 6):
        assert rig.launch("sh", "-c", f"echo {job} >> {tmp_path}/runs", job=job).accepted
    os.kill(first, signal.SIGKILL)
    for job in range(1, 6):
        rig.ended(job=job)
    assert sorted((tmp_path / "runs").read_text().split()) == ["1", "2", "3", "4", "5"]


def test_a_launch_sent_again_comes_late_and_does_not_run(rig: Rig, tmp_path: Path) -> None:
    mark = tmp_path / "runs"
    rig.launch("sh", "-c", f"echo x >> {mark}")
    rig.engine._restart()  # as if the first spawner had died before its launch was heard of
    second = rig.spawner()
    os.kill(second, signal.SIGSTOP)
    rig.engine.acknowledge([rig.report("ended")])
    assert rig.claims() == ["1.1"]  # it keeps out what is on its way
    os.kill(second, signal.SIGCONT)
    rig.launch("true", job=2)
    rig.engine.acknowledge([rig.report("ended", job=2)])
    assert mark.read_text() == "x\n"

    def cleared() -> bool:
        rig.engine.observe()
        return rig.claims() == []

    until(cleared)


def test_a_spawner_that_does_nothing_is_replaced(rig: Rig) -> None:
    rig.launch("true", job=99)
    rig.ended(job=99)
    first = rig.spawner()
    os.kill(first, signal.SIGSTOP)
    rig.set_patience(0.5)
    rig.launch("true")
    void = rig.report("void")
    rig.set_patience(WAIT_S)
    assert "nothing was heard of it for 0.5 s" in void.values["message"]
    assert gone(first)
    with open(rig.state / "engine" / PRESENCE, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as a supervisor of its that has not claimed yet
        rig.engine.acknowledge([void])
        assert void not in rig.engine.observe()
        assert rig.claims() == ["1.1", "99.1"]  # the token stays taken
    rig.launch("true", attempt=2)
    assert rig.ended(attempt=2)["exit_code"] == 0


def test_a_spawner_ends_with_its_control_plane(rig: Rig) -> None:
    rig.launch("true")
    rig.ended()
    spawner = rig.spawner()
    rig.engine._hang_up(kill=False)
    until(lambda: gone(spawner))


# The control plane -------------------------------------------------------------------

PLANE = """
    import json, os, sys
    from pathlib import Path
    from flyball.core.clock import RealClock
    from flyball.core.jobs import JobSpec
    from flyball.core.live import Launch
    from flyball.engines.local.engine import LocalEngine

    engine = LocalEngine(Path(sys.argv[1]), RealClock())
    for job in range(1, 6):
        argv = ("sh", "-c", "echo x >> $FLYBALL_STATE/runs.$FLYBALL_JOB_ID; exec sleep 3600")
        assert engine.apply(Launch(job, 1, JobSpec(argv), ())).accepted
    print("sent", flush=True)
    sys.stdin.read()
"""


def test_killed_control_plane(rig: Rig) -> None:
    """Killed at some point of launching five: each runs once, or is void and never runs."""
    plane = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PLANE), str(rig.state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert plane.stdin is not None
    assert plane.stdout is not None
    plane.stdout.readline()
    plane.kill()
    plane.wait()
    plane.stdin.close()
    plane.stdout.close()
    rig.seen += rig.engine.reconcile([(job, 1) for job in range(1, 7)])
    assert rig.report("void", job=6)
    for job in range(1, 6):
        mark = rig.state / f"runs.{job}"
        if any((report.job, report.what) == (job, "void") for report in rig.seen):
            assert not mark.exists()
            continue
        rig.report("started", job=job)
        until(mark.exists)
        assert mark.read_text() == "x\n"
    rig.engine.acknowledge(rig.seen)
    rig.engine.wait(0.0)
    assert "6.1" not in rig.claims()  # no spawner was left that could still begin it


def test_reconcile_kills_unexpected_attempts(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    for job in (1, 2):
        first.launch("sh", "-c", "setsid sleep 60 & echo on; wait", job=job)
    first.launch("true", job=3)
    first.ended(job=3)
    first.until_prints("on", job=1)
    first.until_prints("on", job=2)
    pids = proc.descendants(first.claim(1).pid)
    first.engine.close()
    second = Rig(tmp_path)
    reports = second.engine.reconcile([(2, 1)])
    assert [(report.job, report.what) for report in reports] == [(2, "started")]
    assert all(gone(pid) for pid in pids)
    assert second.claims() == ["2.1"]
    assert sorted((report.job, report.what) for report in second.engine.strays) == [
        (1, "lost"),
        (3, "ended"),
    ]
    second.close()


# The claim ---------------------------------------------------------------------------


CLAIMANT = """
    import os, sys
    sys.path.append(sys.argv[1])
    from local import claim

    folder = os.open(sys.argv[2], os.O_RDONLY)
    os.read(0, 1)  # all begin together
    got = 0
    for job in range(1, 21):
        try:
            claim.make(folder, {"job": job, "attempt": 1, "pid": os.getpid()})
            got += 1
        except FileExistsError:
            pass
    print(got)
"""


def test_a_token_is_claimed_once(tmp_path: Path) -> None:
    """Four processes try to claim the same twenty."""
    hear, tell = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(CLAIMANT)]
    command += [str(SRC / "flyball" / "engines"), str(tmp_path)]
    rivals = [subprocess.Popen(command, stdin=hear, stdout=subprocess.PIPE) for _ in range(4)]
    os.write(tell, b"go!!")
    assert sum(int(rival.communicate()[0]) for rival in rivals) == 20
    os.close(hear)
    os.close(tell)
    data = (tmp_path / "1.1").read_bytes()
    assert len(data) == claim.SIZE
    assert json.loads(data[: claim.HEAD])["pid"] in [rival.pid for rival in rivals]


def test_void_and_launch_race(rig: Rig, tmp_path: Path) -> None:
    """Whichever is first, the attempt runs or is void, never both."""
    for job in range(1, 21):
        rig.launch("sh", "-c", f"echo >> {tmp_path}/ran.{job}", job=job)
        rig.engine._attempts.make_void((job, 1), fenced=True)
    rig.launch("true", job=99)
    rig.ended(job=99)

    def outcomes() -> dict[int, str]:
        rig.seen += rig.engine.observe()
        return {report.job: report.what for report in rig.seen if report.what in ("ended", "void")}

    until(lambda: len(outcomes()) == 21)
    for job in range(1, 21):
        assert (tmp_path / f"ran.{job}").exists() != (outcomes()[job] == "void")
