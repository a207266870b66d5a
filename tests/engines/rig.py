"""A local engine on a folder of its own, for tests with real processes."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.core.clock import RealClock
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Cap, Checkpoint, Launch, LiveNode, Report, Resize, Stop
from flyball.core.protocols import Receipt
from flyball.engines.local import claim, proc
from flyball.engines.local.claim import Claim
from flyball.engines.local.engine import LocalEngine

PYTHON = (sys.executable, "-I", "-S", "-c")
WAIT_S = 60.0
SLEEP = ("sleep", "60")


def until(done: Callable[[], Any], wait_s: float = WAIT_S) -> Any:
    """Wait for something that must come true."""
    deadline_s = time.monotonic() + wait_s
    while not (value := done()):
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.005)
    return value


class Rig:
    """An engine and what it has said."""

    def __init__(self, state: Path, node: LiveNode | None = None, **options: Any) -> None:
        self.state = state
        self.engine = LocalEngine(state, RealClock(), node, **options)
        self.seen: list[Report] = []

    def launch(
        self, *argv: str, job: int = 1, attempt: int = 1, mask: int = 0, **spec: Any
    ) -> Receipt:
        launch = Launch(job, attempt, JobSpec(argv, **spec), (Row(0, mask),) if mask else ())
        return self.engine.apply(launch)

    def python(self, text: str, **spec: Any) -> Receipt:
        """Launch a piece of Python."""
        return self.launch(*PYTHON, text, **spec)

    def listens_only(self) -> None:
        """From now on it knows what the kernel tells it: the folder is not read now and then."""
        self.engine._scan_s = math.inf

    def stop(self, why: str = "cancel", job: int = 1, attempt: int = 1) -> Receipt:
        return self.engine.apply(Stop(job, attempt, why))

    def order(self, action: Resize | Cap | Checkpoint) -> Receipt:
        return self.engine.apply(action)

    def report(self, what: str, job: int = 1, attempt: int = 1, wait_s: float = WAIT_S) -> Report:
        """Wait until the engine says this of the attempt."""
        deadline_s = time.monotonic() + wait_s
        while True:
            for each in self.seen:
                if (each.job, each.attempt, each.what) == (job, attempt, what):
                    return each
            assert time.monotonic() < deadline_s, f"no report {what!r} in {self.seen}"
            self.engine.wait(0.1)
            self.seen += self.engine.observe()

    def ended(self, job: int = 1, attempt: int = 1) -> dict[str, Any]:
        """What is known of its end."""
        return dict(self.report("ended", job, attempt).values)

    def claim(self, job: int = 1, attempt: int = 1) -> Claim:
        """The claim with the program started."""

        def started() -> Claim | None:
            folder = os.open(self.state / "engine", os.O_RDONLY)
            try:
                found = claim.read(folder, job, attempt)
            finally:
                os.close(folder)
            return found if found is not None and found.child else None

        found = until(started)
        assert isinstance(found, Claim)
        return found

    def output(self, job: int = 1, attempt: int = 1) -> str:
        path = self.state / "logs" / f"{job}.{attempt}.out"
        return path.read_text() if path.exists() else ""

    def until_prints(self, text: str, job: int = 1, attempt: int = 1) -> str:
        until(lambda: text in self.output(job, attempt))
        return self.output(job, attempt)

    def claims(self) -> list[str]:
        """Names of the claims in the folder."""
        return sorted(n for n in os.listdir(self.state / "engine") if claim.token_of(n))

    def spawner(self) -> int:
        """The pid of the spawner."""
        line = self.engine._line
        assert line is not None
        return line.pid

    def errors(self) -> str:
        path = self.state / "engine" / "errors.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """End all that still runs, and see that nothing complained."""
        self.engine.reconcile([])
        self.engine.close()
        assert self.errors() == ""
        assert self.processes() == []

    def processes(self) -> list[int]:
        """Every process of any job of this rig, by its environment."""
        mark = f"FLYBALL_STATE={self.state.resolve()}"
        return [pid for pid in proc.pids() if not gone(pid) and mark in proc.environment(pid)]


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    found = proc.stat(pid)
    return found is None or found.gone
