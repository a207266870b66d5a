"""Measures short real jobs on this machine: how many a second."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter

from flyball.bench.submit.rows import Row, SubmitSetting, at_least
from flyball.bench.submit.server import (
    FAILED_STATES,
    Up,
    refuse_failed,
    running,
    state_folder,
    wait_until,
)
from flyball.control.journal.history import History
from flyball.control.plane import JOURNAL
from flyball.core.errors import Unavailable
from flyball.core.jobs import JobState

BATCH = 1_000
LONGEST_S = 1_800.0
POLL_S = 0.5
"""Interval of checks whether all have ended: each reads the queue."""


def jobs(setting: SubmitSetting) -> list[Row]:
    """`true`, many times: from the first submit until the last has ended; and the same by xargs."""
    count = setting.size(10_000, 300)
    with state_folder(setting.folder) as state:
        with running(state) as up:
            setting.note(f"  {count:,} jobs")
            cpu_s = up.cpu_s()
            rate = count / run_all(up, count)
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


def run_all(up: Up, count: int) -> float:
    """Run all jobs and return the seconds until the last has ended."""
    began = time.monotonic()
    with up.client() as client:
        for first in range(0, count, BATCH):
            size = min(BATCH, count - first)
            client.submit_many([{"argv": ["true"], "cwd": "/", "cpus": 1}] * size)
        wait_until(lambda: not client.queue(1), LONGEST_S, "the jobs to end", POLL_S)
        took_s = time.monotonic() - began
        for state in FAILED_STATES:  # while the control plane can still serve their logs
            for job in client.jobs(state=state, limit=1):
                refuse_failed(client, job["id"])
    return took_s
