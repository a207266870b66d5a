"""Sums over pending jobs, in whole numbers: they do not depend on the order of the jobs."""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import hot, kernel
from flyball.schedule.order import doubled
from flyball.twin.totals import work_done

SIZES = (1.0, 4.0, 8.0)
"""Upper ends of the classes of devices asked for; the last class is open."""
LENGTHS_S = (600.0, 3_600.0, 21_600.0, 86_400.0)
"""Upper ends of the classes of estimated work left in seconds; the last class is open."""

DEVICES, RESTARTED, DONE, SUBMITTED = range(4)
"""Places of: thousandths of devices, jobs started before, their work done, and the sum of the
instants of submission."""
SIZE = 4
LENGTH = SIZE + 2 * (len(SIZES) + 1)
"""Where the jobs and then the work of every class of size and of length are."""
COUNTS = LENGTH + 2 * (len(LENGTHS_S) + 1)
"""Number of sums."""
UNIT_US = 100.0
"""Device time left is counted in units of 0.1 ms."""
DONE_PER_US = 256.0
"""Work done is counted in parts of a microsecond: rewards are small differences of it."""


@hot
def size_class(devices_milli: int) -> int:
    """Return the class of a number of devices, in thousandths."""
    return (
        int(devices_milli > 1000 * SIZES[0])
        + int(devices_milli > 1000 * SIZES[1])
        + int(devices_milli > 1000 * SIZES[2])
    )


@hot
def length_class(left_us: float) -> int:
    """Return the class of an estimated time left."""
    return (
        int(left_us > 1e6 * LENGTHS_S[0])
        + int(left_us > 1e6 * LENGTHS_S[1])
        + int(left_us > 1e6 * LENGTHS_S[2])
        + int(left_us > 1e6 * LENGTHS_S[3])
    )


@hot
def units(devices_milli: int, left_us: float) -> int:
    """Return device time in units, rounded."""
    return int(devices_milli * left_us * (1e-3 / UNIT_US) + 0.5)


@kernel
def add(sums: Any, job: Any, run: Any, sign: int) -> None:
    """Add a pending job to the sums, or subtract it (sign -1)."""
    devices_milli = int(job.devices) * int(job.milli)
    left_us = doubled(job.estimate_us, run.done_us) - run.done_us
    work = sign * units(devices_milli, left_us)
    sums[DEVICES] += sign * devices_milli
    sums[SUBMITTED] += sign * job.submit_us
    at = SIZE + size_class(devices_milli)
    sums[at] += sign
    sums[at + len(SIZES) + 1] += work
    at = LENGTH + length_class(left_us)
    sums[at] += sign
    sums[at + len(LENGTHS_S) + 1] += work
    if run.attempt > 0:
        sums[RESTARTED] += sign
        sums[DONE] += sign * int(work_done(job, run.done_us) * DONE_PER_US + 0.5)
