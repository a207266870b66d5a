"""A disk that refuses writes, a machine out of processes, or one that shuts down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.engines.local.test_run import SAY_SIGNALS
from tests.engines.rig import Rig
from tests.named_pipes import send_line
from tests.until import WAIT_S, until

from flyball.core.jobs import JobSpec
from flyball.core.live import Launch, LiveNode
from flyball.engines.local import claim
from flyball.engines.local.claim import Claim
from flyball.engines.local.request import KEPT_LOGS, request_line
from flyball.engines.local.signals import send

ENGINES = Path(claim.__file__).parents[1]
BARE = """
    import errno, json, os, sys
    sys.path.append(sys.argv[1])
    from local import cgroup, claim, proc, signals, supervisor
    claim.AGAIN_S = 0.01
    folder = os.open(sys.argv[2], os.O_RDONLY)
    os.setsid()
    wake = signals.hear()
    def fails(module, name, times):
        # Have a call of the system fail as often.
        real, left = getattr(module, name), [times]
        def call(*given):
            if left[0]:
                left[0] -= 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*given)
        setattr(module, name, call)
    FAULT
    request = json.loads(sys.argv[3])
    supervisor.supervise(request, folder, proc.boot_id(), None, wake, int, print)
    print("free for others", len(os.listdir("/proc/self/fd")))
"""
"""Runs a supervisor by itself, with an injected fault."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    opened = Rig(tmp_path / "state")
    yield opened
    opened.close()


def supervised(
    folder: Path, *argv: str, fault: str = "", number: int = 1, **spec: Any
) -> subprocess.Popen[str]:
    """Start a supervisor of one attempt."""
    (folder / "logs").mkdir(exist_ok=True)
    launch = Launch(number, 1, JobSpec(argv, grace_s=2.0, **spec), ())
    now = (0, time.monotonic_ns() // 1000)
    node = LiveNode("n", "CPU1", 2, 2, 10)
    request = request_line(launch, folder, node, [], KEPT_LOGS, now).partition(b" ")[2].decode()
    text = textwrap.dedent(BARE).replace("FAULT", fault)
    command = [sys.executable, "-I", "-S", "-c", text, str(ENGINES), str(folder), request]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def claimed(folder: Path, number: int = 1) -> Claim | None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return claim.read(descriptor, number, 1)
    finally:
        os.close(descriptor)


def started(folder: Path, number: int = 1) -> Claim | None:
    """Return the claim once its program runs."""
    record = claimed(folder, number)
    return record if record is not None and record.child else None


def end_of(folder: Path, number: int = 1) -> dict[str, Any]:
    record = claimed(folder, number)
    assert record is not None
    assert record.exit is not None
    return record.exit


# The disk ----------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return path


def test_a_full_disk_at_the_claim(tmp_path: Path, small_disk: Path) -> None:
    state = small_disk / "state"
    state.mkdir()
    full = Rig(state, patience_s=0.3)
    filler = fill(small_disk)
    full.launch("sh", "-c", f"echo > {tmp_path}/ran")
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < 1.0:
        full.engine.wait(0.1)
        assert full.engine.observe() == []  # no room for the engine's own claim either
    assert full.claims() == []
    filler.unlink()
    void = full.report("void")
    assert void.values["message"] == "cannot be claimed: No space left on device"
    full.engine.acknowledge([void])
    full.engine.wait(0.0)
    assert full.claims() == []
    assert not (tmp_path / "ran").exists()
    full.set_patience(WAIT_S)
    full.launch("true", attempt=2)
    assert full.ended(attempt=2)["exit_code"] == 0
    full.close()


def test_a_full_disk_at_the_end(small_disk: Path) -> None:
    """Space for the record is reserved; output is lost and the job does not notice."""
    full = Rig(small_disk / "state")
    os.mkfifo(small_disk / "state" / "go")  # before the job is there to read it
    full.launch("sh", "-c", "read x < $FLYBALL_STATE/go; seq 1 100000; exit 6")
    full.report("started")
    fill(small_disk)
    send_line(small_disk / "state" / "go")
    end = full.ended()
    assert (end["exit_code"], end["why"]) == (6, "exit")
    assert end["message"].endswith("bytes of output lost: No space left on device")
    full.close()


def test_a_failed_write_of_the_start_ends_no_job(tmp_path: Path) -> None:
    """Only the claim does not show yet that it runs."""
    fault = "fails(claim, 'write_head', 2)"
    process = supervised(tmp_path, "sleep", "3600", fault=fault)
    until(lambda: started(tmp_path))
    os.kill(process.pid, signal.SIGUSR2)
    process.communicate(timeout=WAIT_S)
    assert end_of(tmp_path)["why"] == "stopped"


def test_a_failed_write_of_the_end_is_retried(tmp_path: Path) -> None:
    """Writes fail, then syncs: the end is recorded all the same."""
    fault = "fails(claim.os, 'pwrite', 3); fails(claim.os, 'fdatasync', 9)"
    process = supervised(tmp_path, "sh", "-c", "exit 6", fault=fault)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert (end_of(tmp_path)["exit_code"], end_of(tmp_path)["why"]) == (6, "exit")


@pytest.mark.parametrize(
    "fault", ["fails(os, 'fork', 1)", "fails(claim.os, 'fsync', 1)"], ids=["process", "sync"]
)
def test_an_attempt_that_cannot_run_now_is_returned(tmp_path: Path, fault: str) -> None:
    """Neither the claim nor an open file is left, and the supervisor can take other attempts."""
    messages = []
    for number, injected in enumerate(("", fault), 1):
        process = supervised(tmp_path, "true", fault=injected, number=number)
        messages.append(process.communicate(timeout=WAIT_S)[0].splitlines())
    assert messages[1][0] == "No space left on device"
    assert claimed(tmp_path, 2) is None
    after, left = (int(lines[-1].split()[-1]) for lines in messages)
    assert left <= after, "descriptors are left open"


# The machine goes down ---------------------------------------------------------------


def test_the_machine_goes_down(rig: Rig) -> None:
    """On SIGTERM to a supervisor its job is stopped in order, and may run again elsewhere."""
    rig.python(SAY_SIGNALS.format(last=15), checkpoint_signal=int(signal.SIGUSR1), grace_s=0.2)
    rig.until_prints("ready")
    os.kill(rig.claim().pid, signal.SIGTERM)
    rig.report("lost")
    assert rig.output() == "ready\nSIGUSR1\nSIGTERM\n"


@pytest.mark.parametrize("first", ["supervisor", "program"])
def test_a_job_killed_by_a_shutdown_has_not_failed(tmp_path: Path, first: str) -> None:
    """All processes get SIGTERM in any order: no end is recorded, and the job may run again."""
    for number in range(1, 9):
        # However late a busy machine tells the second process, it is told in time.
        patient = "supervisor.TOLD_LATE_S = 600.0"
        process = supervised(tmp_path, "sleep", "3600", fault=patient, number=number)
        record = until(partial(started, tmp_path, number))
        both = [process.pid, record.child]
        for pid in both if first == "supervisor" else reversed(both):
            send(pid, signal.SIGTERM)  # the first may have ended the second by now
        process.communicate(timeout=WAIT_S)
        over = claimed(tmp_path, number)
        assert over is not None
        assert over.exit is None


def test_a_job_killed_by_its_owner_has_ended(tmp_path: Path) -> None:
    process = supervised(tmp_path, "sleep", "3600")
    record = until(lambda: started(tmp_path))
    os.kill(record.child, signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert (end_of(tmp_path)["signal"], end_of(tmp_path)["why"]) == (signal.SIGTERM, "exit")
