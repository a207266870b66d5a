"""Measures how fast a job that computes runs under Flyball, against the same program by itself.

Other load on a host changes the speed of a core by a fifth from one moment to the next, however
long the moments are, and no two processes of one program are equally fast. So the job and its bare
twins take turns of milliseconds, thousands of times, and several sets of them are compared.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.bench.submit.rows import Row, SubmitSetting, at_least, at_most
from flyball.bench.submit.server import Up, refuse_failed, running, state_folder, wait_until
from flyball.core.intervals import student_95

SETS, TURNS = 40, 84
"""Sets of a job and its twins, and turns of each in a set: every order occurs equally often."""
TURN_S = 0.06
"""Length of a turn. In a few milliseconds the kernel has not yet moved Flyball's threads to free
cores: with turns of 20 ms a job waited for its core 1.2 % of the time, with these and in long runs
0.1 %."""
REST_S = 0.01
"""Pause before each turn, for the work that Flyball missed while it was stopped: it must not count
against the job; work that falls due in the job's turn does."""
SETTLE_S = 0.005
"""Time from resuming a program to the measured turn, so that waking up does not count."""
START_S = 60.0
BAR = 99.0
"""Least speed in percent of the bare speed."""

COUNTED, PID, PARENT = range(3)
"""Positions of the integers in a program's file."""
PROGRAM = """
import hashlib, mmap, os, sys
with open(sys.argv[1], "r+b") as file:
    words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
words[1], words[2] = os.getpid(), os.getppid()
while True:
    hashlib.pbkdf2_hmac("sha256", b"a word", b"some salt", 300)
    words[0] += 1
"""
"""Counts pieces of work that stay within the caches of a core."""

NAMES = JOB, SAME, ANY = "as a job", "bare on the same core", "bare on any core"


class Worker:
    """A process of the program, observed through its file.

    Attributes:
        command: that starts it.
        turns_s: total time of its turns.
        waited_s: part of that in which it was runnable but another task had its core.
    """

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8 * 3))
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        self.command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(path)]
        self.turns_s = self.waited_s = 0.0

    @property
    def computes(self) -> bool:
        """Whether it has begun to count."""
        return self._words[COUNTED] > 0

    @property
    def pid(self) -> int:
        """Pid of its process, once it computes."""
        wait_until(lambda: self.computes, START_S, "a program to start")
        return self._words[PID]

    @property
    def parent(self) -> int:
        """Pid of the parent: the supervisor if it is a job."""
        return self._words[PARENT]

    def stop(self) -> None:
        """Stop the process."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the process."""
        os.kill(self.pid, signal.SIGCONT)

    def turn(self) -> float:
        """Run for one turn and return pieces of work per second."""
        time.sleep(REST_S)
        self.go_on()
        time.sleep(SETTLE_S)
        waited_s, counted, began = self._delay_s(), self._words[COUNTED], time.perf_counter()
        time.sleep(TURN_S)
        counted, took_s = self._words[COUNTED] - counted, time.perf_counter() - began
        self.stop()
        self.turns_s += took_s
        self.waited_s += self._delay_s() - waited_s
        return counted / took_s

    def _delay_s(self) -> float:
        """Return how long it has waited in the run queue of a core."""
        _ran, waited, _times = Path(f"/proc/{self.pid}/schedstat").read_text().split()
        return int(waited) * 1e-9


def speed(setting: SubmitSetting) -> list[Row]:
    """The same work under Flyball and bare, on the job's core and on any core, in turns.

    Flyball's processes are stopped while it runs bare.
    """
    sets, turns = setting.size(SETS, 2), setting.size(TURNS, 24)
    ratios: dict[str, list[float]] = {SAME: [], ANY: []}
    waited, total = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    with state_folder(setting.folder) as state, running(state) as up:
        for number in range(sets):
            workers = {name: Worker(state / f"words.{at}") for at, name in enumerate(NAMES)}
            speeds = measure_set(up, workers, turns)
            for name, worker in workers.items():
                waited[name] += worker.waited_s
                total[name] += worker.turns_s
            for twin, percents in ratios.items():
                percents.append(100.0 * speeds[JOB] / speeds[twin])
            texts = (f"{percents[-1]:.1f} % of {twin}" for twin, percents in ratios.items())
            setting.note(f"  set {number + 1} of {sets}: {', '.join(texts)}")
    about = f"{sets} sets of processes, {turns} turns of {1e3 * TURN_S:g} ms each"
    shares = {name: 100.0 * waited[name] / total[name] for name in NAMES}
    return [
        *(speed_row(twin, percents, about) for twin, percents in ratios.items()),
        *(
            at_most(f"its core was taken, {name}", share, "%", None)
            for name, share in shares.items()
        ),
    ]


def measure_set(up: Up, workers: Mapping[str, Worker], turns: int) -> dict[str, float]:
    """Return the mean speeds of a new job and new twins."""
    job = workers[JOB]
    sums = dict.fromkeys(NAMES, 0.0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(running_as_job(up, job))
        cores, job_cores = os.sched_getaffinity(0), os.sched_getaffinity(job.pid)
        stack.enter_context(running_bare(workers[SAME], job_cores))
        stack.enter_context(running_bare(workers[ANY], cores))
        stack.enter_context(_kept_to(cores - job_cores or cores))
        for order in itertools.islice(itertools.cycle(itertools.permutations(NAMES)), turns):
            for name in order:
                sums[name] += job.turn() if name == JOB else bare_turn(up, job, workers[name])
    return {name: total / turns for name, total in sums.items()}


@contextlib.contextmanager
def _kept_to(cores: Set[int]) -> Iterator[None]:
    """Keep this process to these cores, out of the way of the job."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bare_turn(up: Up, job: Worker, twin: Worker) -> float:
    """Run a turn of a twin while Flyball is stopped."""
    with up.paused(job.parent):
        return twin.turn()


@contextlib.contextmanager
def running_as_job(up: Up, worker: Worker) -> Iterator[None]:
    """Run the program as a job of one core, stopped."""
    with up.client() as client:
        number = client.submit(worker.command, cwd="/", cpus=1)
        wait_until(
            lambda: worker.computes or refuse_failed(client, number), START_S, "a job to start"
        )
        worker.stop()
        try:
            yield
        finally:
            worker.go_on()
            client.cancel(number)
            client.wait(number, START_S)


@contextlib.contextmanager
def running_bare(worker: Worker, cores: Set[int]) -> Iterator[None]:
    """Run the program by itself on these cores, stopped."""
    # In its own session, as a job is: the kernel divides the machine among sessions.
    process = subprocess.Popen(worker.command, start_new_session=True)
    try:
        os.sched_setaffinity(process.pid, cores)
        worker.stop()
        yield
    finally:
        process.kill()
        process.wait()


def speed_row(twin: str, ratios: list[float], about: str) -> Row:
    """Return the mean of the sets with its 95 % interval."""
    logs: npt.NDArray[np.float64] = np.log(ratios)
    mean = float(logs.mean())
    wide = float(student_95(len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5)
    low, high = np.exp([mean - wide, mean + wide]).tolist()
    name = f"speed of a job against {twin}"
    return at_least(name, float(np.exp(mean)), "%", BAR, about=about, low=low, high=high)
