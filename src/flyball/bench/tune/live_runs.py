"""Runs a control plane on this machine, with jobs that are steered while they run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flyball.app import policy_settings
from flyball.control.ask.bills import Prices
from flyball.control.decide.tuning_rounds import Tuning
from flyball.control.plane import Plane
from flyball.core.errors import Unavailable
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.engines.local import claim, proc
from flyball.live import Live, build_live

TRAINING = "flyball.data.live_demo.elastic"
WAIT_S = 120.0
"""Timeout of every wait."""
FAILED_STATES = frozenset(state for state in JobState if state.final) - {
    JobState.COMPLETED,
    JobState.CANCELLED,
}
LOG_END_LINES = 5


class TrainingStep(NamedTuple):
    """One step that a training job printed."""

    attempt: int
    step: int
    loss: float
    threads: int


class Stage:
    """A live system in its own folder."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.folder = live, folder

    @property
    def plane(self) -> Plane:
        return self.live.plane

    def train(self, steps: int, every: int, pause_s: float, cpus: int = 2, **more: Any) -> int:
        """Submit the elastic training job."""
        options = ["--steps", str(steps), "--every", str(every), "--pause", str(pause_s)]
        argv = (sys.executable, "-m", TRAINING, *options)
        return self.submit(argv, cpus=cpus, least=1, most=max(2, cpus), **more)

    def submit(self, argv: tuple[str, ...], **asked: Any) -> int:
        """Submit a job that has the same Python path as this process."""
        env = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return self.plane.submit([JobSpec(argv, env=env, cwd=str(self.folder), **asked)])[0]

    def job(self, job: int) -> Job:
        return self.plane.ask.job(job)

    def curve(self, job: int) -> list[TrainingStep]:
        """Return every step that it printed, attempt by attempt."""
        steps = []
        for attempt in range(1, self.job(job).attempt + 1):
            path = self.plane.ask.log_path(job, attempt)
            lines = path.read_text().splitlines() if path.exists() else []
            for words in (line.split() for line in lines):
                if len(words) == 3 and words[0].isdigit():
                    steps.append(
                        TrainingStep(attempt, int(words[0]), float(words[1]), int(words[2]))
                    )
        return steps

    def until(self, done: Callable[[], Any], what: str, job: int = 0) -> Any:
        """Wait until `done` returns a true value, and return it.

        Args:
            done: polled until it is true.
            what: what is waited for, for the error message.
            job: the job that it depends on; when it has failed, waiting ends. 0 = none.

        Raises:
            Unavailable: the wait timed out, or the job has failed.
        """
        end_s = time.monotonic() + WAIT_S
        while not (value := done()):
            if job:
                self.refuse_failed(job, what)
            if time.monotonic() > end_s:
                raise Unavailable(f"waited {WAIT_S:g} s for {what}", "the machine may be too busy")
            time.sleep(0.02)
        return value

    def until_step(self, job: int, step: int) -> None:
        """Wait until it has printed a step."""
        self.until(
            lambda: any(last.step >= step for last in self.curve(job)[-1:]), f"step {step}", job
        )

    def refuse_failed(self, job: int, what: str) -> None:
        """Raise an error with the end of its log if a job has failed.

        Raises:
            Unavailable: it has failed.
        """
        now = self.job(job)
        if now.state not in FAILED_STATES:
            return
        code = now.values.get("exit_code")
        exited = f" with exit code {code}" if code else ""
        path = self.plane.ask.log_path(job) if now.attempt else None
        raise Unavailable(
            f"job {job} ended as {now.state}{exited} before {what}: {log_end(path)}",
            "fix what its log shows, then measure this part again",
        )

    def ended(self, job: int) -> Job:
        """Wait until a job has ended, completed or cancelled.

        Raises:
            Unavailable: it has failed, or does not end.
        """
        self.until(lambda: self.job(job).state.final, f"the end of job {job}")
        self.refuse_failed(job, "it was done")
        return self.job(job)

    def supervisor(self, job: int) -> int:
        """Return the pid of the supervisor of its running attempt."""
        folder = os.open(self.folder / "engine", os.O_RDONLY)
        try:
            held = self.until(
                lambda: claim.read(folder, job, self.job(job).attempt), f"the claim of {job}"
            )
        finally:
            os.close(folder)
        return int(held.pid)

    def used_s(self, job: int) -> float:
        """Return the processor time of all its processes."""
        return sum(map(proc.cpu_s, proc.descendants(self.supervisor(job))))

    def lose(self, job: int) -> None:
        """Kill its supervisor, and with it the job, as a failing machine would."""
        os.kill(self.supervisor(job), signal.SIGKILL)


def log_end(path: Path | None, lines: int = LOG_END_LINES) -> str:
    """Return the last lines of a job's log, on one line."""
    text = "" if path is None or not path.exists() else path.read_text(errors="replace")
    printed = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(printed[-lines:]) or "it printed nothing"


def open_stage(folder: Path, policy: str = "easy", tuning: Tuning | None = None) -> Stage:
    """Start a live system on a folder."""
    live = build_live(folder, policy_settings(policy, [])[0], Prices(), tuning=tuning)
    live.driver.start()
    return Stage(live, folder)


@contextlib.contextmanager
def stage(policy: str = "easy", tuning: Tuning | None = None) -> Iterator[Stage]:
    """Run a live system; at the end, stop it and every job that still runs."""
    with tempfile.TemporaryDirectory(prefix="flyball-live-") as name:
        here = open_stage(Path(name).resolve(), policy, tuning)
        try:
            yield here
        finally:
            here.live.driver.stop()
            here.live.engine.reconcile([])
            here.live.close()
