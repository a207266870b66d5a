"""Spawner, supervisors and engine are killed at random while jobs run: each job ends once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.engines.rig import Rig
from tests.until import WAIT_S, until

JOBS = 120
AT_A_TIME = 16


class Chaos:
    """A queue of jobs on an engine whose processes are killed at random."""

    def __init__(self, state: Path, seed: int) -> None:
        self.state = state
        self.random = random.Random(seed)
        self.rig = Rig(state, patience_s=1.0)
        self.attempt: dict[int, int] = {}
        self.over: set[int] = set()

    def launch(self, job: int, attempt: int) -> None:
        self.attempt[job] = attempt
        text = f"echo >> {self.state}/ran.{job}.{attempt}; sleep 0.0{self.random.randrange(10)}"
        assert self.rig.launch("sh", "-c", text, job=job, attempt=attempt).accepted

    def disturb(self) -> None:
        engine = self.rig.engine
        if self.random.random() < 0.05 and engine._line is not None:
            kill(engine._line.pid)
        if self.random.random() < 0.1:
            claims = [attempt.claim for attempt in engine._attempts.by_token.values()]
            pids = [claim.pid for claim in claims if claim is not None and claim.pid]
            if pids:
                kill(self.random.choice(pids))
        if self.random.random() < 0.03:
            engine.close()
            self.rig = Rig(self.state, patience_s=1.0)
            expected = [token for token in self.attempt.items() if token[0] not in self.over]
            self.rig.engine.reconcile(expected)

    def settle(self) -> None:
        self.rig.engine.wait(0.2)
        ends = [report for report in self.rig.engine.observe() if report.what != "started"]
        self.rig.engine.acknowledge(ends)
        for report in ends:
            assert self.attempt[report.job] == report.attempt
            assert report.job not in self.over
            if report.what == "ended":
                self.over.add(report.job)
                continue
            began = (self.state / f"ran.{report.job}.{report.attempt}").exists()
            assert report.what == "lost" or not began
            self.launch(report.job, report.attempt + 1)

    def is_tidy(self) -> bool:
        """Return whether nothing is reported and no claim is left."""
        assert self.rig.engine.observe() == []
        return self.rig.claims() == []


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_job_ends_once_and_no_attempt_runs_twice(tmp_path: Path, seed: int) -> None:
    chaos = Chaos(tmp_path, seed)
    deadline_s = time.monotonic() + WAIT_S
    sent = 0
    while len(chaos.over) < JOBS:
        assert time.monotonic() < deadline_s
        while sent < JOBS and sent - len(chaos.over) < AT_A_TIME:
            sent += 1
            chaos.launch(sent, 1)
        chaos.disturb()
        chaos.settle()
    # A killed job may have created the file and written nothing; none wrote twice.
    written = {path.name: path.read_text() for path in tmp_path.glob("ran.*")}
    assert {name: text for name, text in written.items() if text not in ("", "\n")} == {}
    ended = {f"ran.{job}.{chaos.attempt[job]}" for job in chaos.over}
    assert {name for name in ended if written[name] != "\n"} == set()
    until(chaos.is_tidy)
    chaos.rig.close()
