"""Real jobs on this machine: how many short ones a second, and how fast a long one runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

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
PAIRS = 20
REST_S = 0.5
"""After a pause, for what Flyball has to catch up with."""

WORK = """
import os, sys
total = 0
for number in range(int(sys.argv[1])):
    total = (total * 31 + number) % 1000003
print(os.times().user)
"""
STEPS = 15_000_000
"""Of the loop: about two seconds. What else the host does changes by the minute, so that many short
pairs tell more than few long ones."""


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


def speed(setting: Setting) -> list[Row]:
    """The same work under Flyball and bare, in turns; Flyball's processes stand still meanwhile."""
    steps, pairs = setting.size(STEPS, STEPS // 20), setting.size(PAIRS, 2)
    command = [sys.executable, "-I", "-S", "-c", WORK, str(steps)]
    ours, bare = [], []
    with state_folder(setting.folder) as state, running(state) as up:
        for number in range(pairs):
            for ours_next in (number % 2 == 0, number % 2 == 1):  # who is first changes
                if ours_next:
                    time.sleep(REST_S)
                    ours.append(_as_job(up, command))
                else:
                    with up.paused():
                        bare.append(_bare(command))
            setting.note(
                f"  pair {number + 1} of {pairs}: bare {bare[-1][0]:.2f} s wall and "
                f"{bare[-1][1]:.2f} s CPU, as a job {ours[-1][0]:.2f} and {ours[-1][1]:.2f}"
            )
    return [row for at in range(2) for row in _speed_rows(bare, ours, at)]


CLOCKS = ("wall time", "user CPU time")


def _speed_rows(
    bare: list[tuple[float, float]], ours: list[tuple[float, float]], at: int
) -> list[Row]:
    """The median of the pairs with its interval, and the best run of each beside."""
    times = np.array([bare, ours])[:, :, at]
    ratios = 100.0 * np.sort(times[0] / times[1])
    least, most = _median_interval(len(ratios))
    about = f"{len(ratios)} pairs in turns, one core; the median of their ratios"
    between = {"low": float(ratios[least]), "high": float(ratios[most])}
    best = 100.0 * float(times[0].min() / times[1].min())
    name = f"speed of a job against bare, by {CLOCKS[at]}"
    return [
        at_least(name, float(np.median(ratios)), "%", 99.0, about=about, **between),
        at_least(f"{name}: the best run of each", best, "%", None, about="what others do left out"),
    ]


def _median_interval(count: int) -> tuple[int, int]:
    """Which of so many values, in order, bound 95 % of what the true median may be."""
    least = max(0, int(binom.ppf(0.025, count, 0.5)) - 1)
    return least, count - 1 - least


def _bare(command: list[str]) -> tuple[float, float]:
    """Seconds from its start to its end, and seconds of CPU."""
    began = time.monotonic()
    # In a session of its own, as a job is: the kernel shares the machine out among sessions.
    done = subprocess.run(command, capture_output=True, check=True, start_new_session=True)
    return time.monotonic() - began, float(done.stdout)


def _as_job(up: Up, command: list[str]) -> tuple[float, float]:
    """The same, by what is on record of the job."""
    with up.client() as client:
        job = client.submit(command, cwd="/", cpus=1)
        found = client.wait(job, LONGEST_S)
        if found["state"] != JobState.COMPLETED:
            raise Unavailable(f"the job is {found['state']}: {found['reason']}", "try again")
        said = b"".join(client.logs(job))
    return float(found["end_time"]) - float(found["start_time"]), float(said)
