"""A job that starts too many processes is ended, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.engines.rig import PYTHON, SLEEP, Rig, gone
from tests.faults.test_supervisor_trouble import end_of, supervised
from tests.until import WAIT_S, until

from flyball.engines.local import cgroup, proc
from flyball.engines.local.machine import default_max_processes

LIMIT = 50
BOMB = """
import os, sys, time
for _ in range(300):  # bounded: never more, whatever the limit does
    try:
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)
    except BlockingIOError:
        if SYS_EXIT:
            sys.exit(3)
print("forked", flush=True)
time.sleep(3600)
"""
IN_GROUP = """
import time
while "flyball-" not in [each for each in open("/proc/self/cgroup") if ":pids:" in each or
                         each.startswith("0:")][0]:
    time.sleep(0.01)
"""
"""Waits until the supervisor has put the job into a group."""
NO_GROUP = "cgroup.find_place = lambda *given, **options: None"
needs_group = pytest.mark.skipif(
    cgroup.find_place(controller="pids") is None, reason="no control group for processes here"
)


def bomb(leaves: bool = False) -> str:
    return BOMB.replace("SYS_EXIT", str(leaves))


def assert_process_limit(end: dict[str, Any]) -> int:
    """Check the end's token, numbers and remedy; returns the number of processes it names."""
    assert end["why"] == "processes"
    token, _, sentence = end["message"].partition(": ")
    assert token == "process-limit"
    count = int(sentence.removeprefix("wanted ").partition(" ")[0])
    assert f"its limit is {LIMIT}; start fewer or submit with a higher --max-pro" in sentence
    return count


def test_fork_bomb_is_counted_where_there_is_no_group(tmp_path: Path) -> None:
    process = supervised(tmp_path, *PYTHON, bomb(), fault=NO_GROUP, max_processes=LIMIT)
    process.communicate(timeout=WAIT_S)
    assert LIMIT < assert_process_limit(end_of(tmp_path)) <= 302


def test_threads_count_too(tmp_path: Path) -> None:
    threads = (
        "import threading, time\n"
        "for _ in range(60): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(3600)"
    )
    process = supervised(tmp_path, *PYTHON, threads, fault=NO_GROUP, max_processes=LIMIT)
    process.communicate(timeout=WAIT_S)
    assert assert_process_limit(end_of(tmp_path)) > LIMIT


@needs_group
@pytest.mark.parametrize("leaves", [False, True], ids=["goes on", "gives up"])
def test_kernel_refuses_a_fork_bomb_and_its_job_is_ended(rig: Rig, leaves: bool) -> None:
    rig.launch(*SLEEP, job=2, mask=1)
    other = rig.claim(job=2)
    rig.launch(*PYTHON, IN_GROUP + bomb(leaves), max_processes=LIMIT)
    supervisor = rig.claim().pid
    assert assert_process_limit(rig.ended()) == LIMIT + 1
    until(lambda: not proc.descendants(supervisor))
    assert not gone(other.child)
    place = cgroup.find_place(controller="pids")
    assert place is not None
    folder = os.open(rig.state / "engine", os.O_RDONLY)
    name = cgroup.group_name(folder, 1, 1)
    os.close(folder)
    until(lambda: not Path(place.folder, name).exists())


def test_job_within_its_limit_is_left_alone(rig: Rig) -> None:
    rig.launch("sh", "-c", "sleep 1 & sleep 1 & wait", max_processes=LIMIT)
    assert rig.ended()["why"] == "exit"


def test_engine_sets_the_limit_of_jobs_that_state_none(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state", max_processes=LIMIT)
    rig.launch(*PYTHON, bomb())
    assert_process_limit(rig.ended())
    rig.close()


def test_default_limit_is_a_quarter_of_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "pid_max").write_text("32768\n")
    (tmp_path / "threads-max").write_text("200000\n")
    assert default_max_processes(str(tmp_path)) == 8192
    (tmp_path / "pid_max").write_text("4194304\n")
    assert default_max_processes(str(tmp_path)) == 16_384
    assert 0 < default_max_processes() <= 16_384
