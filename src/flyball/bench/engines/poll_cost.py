"""Measures what a poll of a Slurm queue costs: slurmctld's CPU time, and ours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.bench.engines.slurm_cluster import SlurmCluster
from flyball.bench.figure import Bar, Figure
from flyball.engines.slurm.commands import Commands
from flyball.engines.slurm.poll import Site
from flyball.watch.adviser import Adviser

POLLS = 20
EVERY_S = 10.0
"""Time between polls of `flyball watch slurm` unless told otherwise."""
SITES_OWN = {"SchedulerParameters": "bf_interval=30"}
"""Slurm's defaults: how often it plans is not what is measured here."""
CONTROLLER_PERCENT = 1.0
Note = Callable[[str], None]


def measure(note: Note, jobs: int, polls: int = POLLS) -> dict[str, Any]:
    """Poll a queue of `jobs` pending jobs; return figures with their bars.

    slurmctld's own work meanwhile is measured over as long a time without polls, and subtracted.
    """
    with SlurmCluster(settings=SITES_OWN) as slurm:
        slurm.submit("--nodes=4", "--exclusive", "--time=60", seconds=3000)
        for number in range(jobs):
            if number % 250 == 0:
                note(f"submitting: {number:,} of {jobs:,}")
            slurm.submit("--gres=gpu:1", "--time=30", f"--job-name=kind{number % 7}", seconds=60)
        site = Site(Commands(slurm.environment))
        reading = site.read()  # nodes and settings are read here, once a minute
        pid = slurm.controller_pid
        note(f"{polls} polls of {len(reading.jobs):,} jobs")
        before_s, began = cpu_s(pid), time.monotonic()
        children_s = os.times().children_user + os.times().children_system
        own_s = time.process_time()
        for _ in range(polls):
            reading = site.read()
        took_s = time.monotonic() - began
        polled_s = cpu_s(pid) - before_s
        squeue_s = os.times().children_user + os.times().children_system - children_s
        parse_s = time.process_time() - own_s
        before_s = cpu_s(pid)
        time.sleep(took_s)
        idle_s = cpu_s(pid) - before_s
        adviser = Adviser()
        adviser.observe(reading)  # loads the compiled kernels
        began_s = time.process_time()
        adviser.observe(reading)
        forecast_s = time.process_time() - began_s
    controller_ms = max(0.0, polled_s - idle_s) * 1000.0 / polls
    rows = [
        Figure(
            f"slurmctld's CPU at {jobs:,} jobs, one poll in {EVERY_S:g} s",
            controller_ms / 10.0 / EVERY_S,
            "% of a core",
            Bar.at_most(CONTROLLER_PERCENT),
        ),
        Figure("slurmctld's CPU per poll", controller_ms, "ms"),
        Figure("squeue's CPU per poll", squeue_s * 1000.0 / polls, "ms"),
        Figure("our CPU per poll (start, read)", parse_s * 1000.0 / polls, "ms"),
        Figure("a poll, wall clock", took_s * 1000.0 / polls, "ms"),
        Figure("our CPU per forecast of the whole queue", forecast_s * 1000.0, "ms"),
    ]
    return {"jobs": len(reading.jobs), "polls": polls, "figures": [as_row(row) for row in rows]}


def as_row(figure: Figure) -> dict[str, Any]:
    """Return a figure as JSON values."""
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "bar": figure.bar.as_json(),
        "holds": figure.holds,
    }


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
