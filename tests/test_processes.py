"""The processes that a test leaves behind are found and ended, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.engines.rig import Rig
from tests.processes import Processes
from tests.until import until

DETACH = (
    "import os, subprocess, sys\n"
    "p = subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL)\n"
    "print(p.pid, flush=True)\n"
    "os._exit(0)"
)


def test_detached_grandchild_is_found_and_ended() -> None:
    started = Processes("test-of-tracking", None)
    other = subprocess.Popen(["sleep", "600"])
    with started.tracked():
        printed = subprocess.run(
            [sys.executable, "-c", DETACH], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    # A process has no environment for an instant after its parent learns that it was started.
    until(lambda: started.left() == {int(printed): "sleep 600"}, "the grandchild is found")
    started.end()
    assert started.left() == {}
    assert other.poll() is None
    other.kill()
    other.wait()


def test_child_is_reaped_and_its_pipes_are_closed() -> None:
    started = Processes("test-of-a-child", None)
    with started.tracked():
        child = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    assert list(started.left()) == [child.pid]
    started.end()
    assert child.returncode == -9
    assert child.stdout is not None
    assert child.stdout.closed


def test_engine_that_was_not_closed_is_ended(tmp_path: Path) -> None:
    started = Processes("test-of-an-engine", tmp_path)
    with started.tracked():
        rig = Rig(tmp_path / "state")
        rig.launch("sh", "-c", "setsid sleep 600 & echo on; wait")
        rig.until_prints("on")
    supervisor = rig.claim().pid
    until(lambda: {supervisor, rig.spawner()} < set(started.left()), "the engine is found")
    until(lambda: len(started.left()) >= 4, "its job is found")
    started.end()
    assert started.left() == {}
    until(lambda: rig.processes() == [])
    rig.close()
