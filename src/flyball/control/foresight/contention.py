"""How much slower jobs run because other work takes the same cores.

The monitor counts the tasks that are ready to run. Those that belong to no job compete with the
jobs for the cores: if they all had the same priority and never slept, a job would get half of its
core with as many of them as there are cores. Many run at a lower priority or end soon, so half of
that (of its logarithm) is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flyball.core.jobs import Job
from flyball.core.results import Floats

RUNNABLE = "compute.runnable"
WINDOW_S = 30.0
"""Span of samples that are averaged: longer than a burst, shorter than most jobs."""
SAMPLER = 1.0
"""Tasks in every sample that are the monitor itself, which runs while it counts."""
BELIEVED = 0.5
"""Part of the logarithm of the worst case that is believed: over ten runs of the live demo beside
compilers and tests, jobs were slowed down by 0.26 to 0.63 of it, 0.46 in the mean."""
MOST = 4.0
"""Largest slowdown that is believed."""

Series = Callable[[str, float], tuple[Floats, Floats]]
"""Times and values of a metric over the last so many seconds."""


def slowdown(series: Series | None, cores: int, running: Sequence[Job]) -> float:
    """Estimate how many times longer a job takes than it would on free cores; at least 1.

    Args:
        series: reads the monitor's metrics; None = there is no monitor.
        cores: of the machine.
        running: jobs that hold cores now; their tasks are not other work.
    """
    if series is None or not cores:
        return 1.0
    _, runnable = series(RUNNABLE, WINDOW_S)
    if not len(runnable):
        return 1.0
    ours = sum(job.spec.cpus for job in running)
    others = max(0.0, float(np.mean(runnable)) - SAMPLER - ours)
    worst = 1.0 + others / cores
    return float(min(MOST, worst**BELIEVED))
