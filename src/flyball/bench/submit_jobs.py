"""Real jobs on this machine: how many short ones a second, and how fast a long one runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Set
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from flyball.bench.submit_rows import Row, Setting, at_least
from flyball.bench.submit_up import Up, running, state_folder, wait_until
from flyball.control.history import History
from flyball.control.plane import JOURNAL
from flyball.core.errors import Unavailable
from flyball.core.jobs import JobState

BATCH = 1_000
LONGEST_S = 1_800.0
LOOK_S = 0.5
"""Between two looks whether all have ended: each goes through the queue."""
ROUNDS = 50
REST_S = 0.5
"""After a pause, for what Flyball has to catch up with."""

WORK = """
import os, sys
total = 0
for number in range(int(sys.argv[1])):
    total = (total * 31 + number) % 1000003
print(os.times().user, *os.sched_getaffinity(0))
"""
STEPS = 6_000_000
"""Of the loop: about a second. What else the host does changes by the second and by the core, so
many short rounds tell more than few long ones."""


class Timed(NamedTuple):
    """A run: seconds from its start to its end, seconds of user CPU time, and its cores."""

    wall_s: float
    user_s: float
    cores: frozenset[int]


def jobs(setting: Setting) -> list[Row]:
    """`true`, many times: from the first submit until the last has ended; and xargs beside it."""
    count = setting.size(10_000, 300)
    with state_folder(setting.folder) as state:
        with running(state) as up:
            setting.note(f"  {count:,} jobs")
            cpu_s = up.cpu_s()
            rate = count / _run_all(up, count)
            cpu_ms = 1e3 * (up.cpu_s() - cpu_s) / count
        with History(state / JOURNAL) as history:
            ended = history.counts()
        if ended != Counter({JobState.COMPLETED: count}):
            raise Unavailable(f"not all jobs were completed: {ended}", "see the jobs' logs")
    cores = len(os.sched_getaffinity(0))
    began = time.monotonic()
    lines = "\n".join(map(str, range(count)))
    command = ["xargs", f"-P{cores}", "-n1", "true"]
    subprocess.run(command, input=lines, text=True, check=True)
    bare = count / (time.monotonic() - began)
    setting.note(f"  {rate:,.0f} jobs/s; {' '.join(command)}: {bare:,.0f}/s")
    about = f"{count:,} jobs of `true`, all COMPLETED, each claimed and ended durably"
    more = {"about": about, "cpu_ms_per_job": cpu_ms}
    return [
        at_least("short jobs, end to end", rate, "jobs/s", 100.0, **more),
        at_least("the same by xargs", bare, "jobs/s", None, about=" ".join(command)),
    ]


def _run_all(up: Up, count: int) -> float:
    """Seconds until all have ended."""
    began = time.monotonic()
    with up.client() as client:
        for first in range(0, count, BATCH):
            size = min(BATCH, count - first)
            client.submit_many([{"argv": ["true"], "cwd": "/", "cpus": 1}] * size)
        wait_until(lambda: not client.queue(1), LONGEST_S, "the jobs to end", LOOK_S)
    return time.monotonic() - began


JOB, PINNED, FREE = "as a job", "bare on the same core", "bare on any core"
CLOCKS = ("wall time", "user CPU time")


def speed(setting: Setting) -> list[Row]:
    """The same work under Flyball and bare, on the job's core and wherever the kernel puts it, in
    turns; Flyball's processes stand still while it runs bare."""
    steps, rounds = setting.size(STEPS, STEPS // 20), setting.size(ROUNDS, 2)
    command = [sys.executable, "-I", "-S", "-c", WORK, str(steps)]
    turns = (JOB, PINNED, FREE)
    runs: dict[str, list[Timed]] = {each: [] for each in turns}
    with state_folder(setting.folder) as state, running(state) as up:
        for number in range(rounds):
            for turn in (*turns[number % 3 :], *turns[: number % 3]):  # who is first changes
                if turn == JOB:
                    time.sleep(REST_S)
                    runs[JOB].append(_as_job(up, command))
                else:
                    cores = runs[JOB][-1].cores if turn == PINNED else os.sched_getaffinity(0)
                    with up.paused():
                        runs[turn].append(_bare(command, cores))
            said = (f"{turn} {runs[turn][-1].wall_s:.2f} s" for turn in turns)
            setting.note(f"  round {number + 1} of {rounds}: {', '.join(said)}")
    pairs = [(turn, at) for turn in (PINNED, FREE) for at in range(len(CLOCKS))]
    return [row for turn, at in pairs for row in _speed_rows(turn, runs[turn], runs[JOB], at)]


def _speed_rows(turn: str, bare: list[Timed], ours: list[Timed], at: int) -> list[Row]:
    """The median of the pairs with its interval, and the best run of each beside."""
    times = np.array([[each[at] for each in runs] for runs in (bare, ours)])
    ratios = 100.0 * np.sort(times[0] / times[1])
    least, most = _median_interval(len(ratios))
    about = f"{len(ratios)} pairs in turns; the median of their ratios"
    between = {"low": float(ratios[least]), "high": float(ratios[most])}
    best = 100.0 * float(times[0].min() / times[1].min())
    name = f"speed of a job against {turn}, by {CLOCKS[at]}"
    return [
        at_least(name, float(np.median(ratios)), "%", 99.0, about=about, **between),
        at_least(f"{name}: the best run of each", best, "%", None, about="what others do left out"),
    ]


def _median_interval(count: int) -> tuple[int, int]:
    """Which of so many values, in order, bound 95 % of what the true median may be."""
    least = max(0, int(binom.ppf(0.025, count, 0.5)) - 1)
    return least, count - 1 - least


def _bare(command: list[str], cores: Set[int]) -> Timed:
    """On these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        began = time.monotonic()
        # In a session of its own, as a job is: the kernel shares the machine out among sessions.
        done = subprocess.run(command, capture_output=True, check=True, start_new_session=True)
        wall_s = time.monotonic() - began
    finally:
        os.sched_setaffinity(0, before)
    return _timed(wall_s, done.stdout)


def _as_job(up: Up, command: list[str]) -> Timed:
    """The same, by what is on record of the job."""
    with up.client() as client:
        job = client.submit(command, cwd="/", cpus=1)
        found = client.wait(job, LONGEST_S)
        if found["state"] != JobState.COMPLETED:
            raise Unavailable(f"the job is {found['state']}: {found['reason']}", "try again")
        said = b"".join(client.logs(job))
    return _timed(float(found["end_time"]) - float(found["start_time"]), said)


def _timed(wall_s: float, said: bytes) -> Timed:
    user_s, *cores = said.split()
    return Timed(wall_s, float(user_s), frozenset(map(int, cores)))
