"""A local engine on its own folder, for tests with real processes."""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.until import WAIT_S, until

from flyball.core.clock import RealClock
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Cap, Checkpoint, Launch, LiveNode, Report, Resize, Stop
from flyball.core.protocols import Receipt
from flyball.engines.local import claim, proc
from flyball.engines.local.claim import Claim
from flyball.engines.local.engine import LocalEngine

PYTHON = (sys.executable, "-I", "-S", "-c")
SLEEP = ("sleep", "3600")


class Rig:
    """An engine and the reports it has made.

    It does not give a launch up because the machine is busy, unless `patience_s` says so.
    """

    def __init__(
        self,
        state: Path,
        node: LiveNode | None = None,
        patience_s: float = WAIT_S,
        **options: Any,
    ) -> None:
        self.state = state
        self.engine = LocalEngine(state, RealClock(), node, patience_s=patience_s, **options)
        self.seen: list[Report] = []

    def launch(
        self, *argv: str, job: int = 1, attempt: int = 1, mask: int = 0, **spec: Any
    ) -> Receipt:
        launch = Launch(job, attempt, JobSpec(argv, **spec), (Row(0, mask),) if mask else ())
        return self.engine.apply(launch)

    def python(self, text: str, **spec: Any) -> Receipt:
        """Launch a piece of Python."""
        return self.launch(*PYTHON, text, **spec)

    def set_patience(self, seconds: float) -> None:
        """Set how long a launch may stay unclaimed."""
        self.engine._patience_s = seconds

    def listens_only(self) -> None:
        """Disable rescans, so that the engine depends on the kernel's events."""
        self.engine._scan_s = math.inf

    def stop(self, why: str = "cancel", job: int = 1, attempt: int = 1) -> Receipt:
        return self.engine.apply(Stop(job, attempt, why))

    def order(self, action: Resize | Cap | Checkpoint) -> Receipt:
        return self.engine.apply(action)

    def report(self, what: str, job: int = 1, attempt: int = 1, wait_s: float = WAIT_S) -> Report:
        """Wait for this report about the attempt."""
        deadline_s = time.monotonic() + wait_s
        while True:
            for report in self.seen:
                if (report.job, report.attempt, report.what) == (job, attempt, what):
                    return report
                if (report.job, report.attempt, report.what) == (job, attempt, "void"):
                    raise AssertionError(f"void instead of {what}: {report.values}")
            assert time.monotonic() < deadline_s, f"no report {what!r} in {self.seen}"
            self.engine.wait(0.1)
            self.seen += self.engine.observe()

    def ended(self, job: int = 1, attempt: int = 1) -> dict[str, Any]:
        """Wait for the end of the attempt, and return its values."""
        return dict(self.report("ended", job, attempt).values)

    def claim(self, job: int = 1, attempt: int = 1) -> Claim:
        """Wait for the program to start, and return the claim."""

        def started() -> Claim | None:
            folder = os.open(self.state / "engine", os.O_RDONLY)
            try:
                record = claim.read(folder, job, attempt)
            finally:
                os.close(folder)
            return record if record is not None and record.child else None

        record = until(started, limit_s=WAIT_S, every_s=0.005)
        assert record is not None
        return record

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
        """End all that still runs, and check that there were no errors."""
        self.engine.reconcile([])
        self.engine.close()
        assert self.errors() == ""
        assert self.processes() == []

    def processes(self) -> list[int]:
        """Return every process of any job of this rig, by its environment."""
        mark = f"FLYBALL_STATE={self.state.resolve()}"
        return [pid for pid in proc.pids() if not gone(pid) and mark in proc.environment(pid)]


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    process = proc.stat(pid)
    return process is None or process.gone
