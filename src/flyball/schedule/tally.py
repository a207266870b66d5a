"""Sums over pending jobs, kept up to date as jobs enter and leave the queue.

Only twins that are observed keep them (`tally[0]` is 1): a step then costs no pass over the queue.
All sums are whole numbers, so they do not depend on the order in which jobs come and go, nor on
when counting began. Behind the sums there is a bit for every job, set while it is pending.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.physics.compile import hot, kernel, lowest_bit
from flyball.schedule.order import doubled

SIZES = (1.0, 4.0, 8.0)
"""Upper ends of the classes of devices asked for; the last class is open."""
LENGTHS_S = (600.0, 3_600.0, 21_600.0, 86_400.0)
"""Upper ends of the classes of estimated work left in seconds; the last class is open."""

KEPT, LOWEST, DEVICES, RESTARTED, DONE, SUBMITTED = range(6)
"""Places of: whether the sums are kept, the first word that may have a bit set, thousandths of
devices, jobs started before, their work done, and the sum of the instants of submission."""
SIZE = 6
LENGTH = SIZE + 2 * (len(SIZES) + 1)
"""Where the jobs and then the work of every class of size and of length are."""
BITS = LENGTH + 2 * (len(LENGTHS_S) + 1)
"""Number of sums; the bits are behind them."""
BITS_PER_WORD = 32
WORD_SHIFT = 5
UNIT_US = 100.0
"""Device time left is counted in units of 0.1 ms."""
DONE_PER_US = 256.0
"""Work done is counted in parts of a microsecond: rewards are small differences of it."""


def blank_tally(jobs: int) -> npt.NDArray[np.int64]:
    """Return the sums and bits of no job; `jobs` is how many there are in all."""
    return np.zeros(BITS + jobs // BITS_PER_WORD + 1, np.int64)


@kernel
def work_done(job: Any, done_us: float) -> float:
    """Return the part of a job's work that is done, in device time of the reference device."""
    return float(min(1.0, done_us / job.work_us) * job.reference_us) if job.work_us > 0 else 0.0


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


@kernel
def set_bit(tally: Any, job_id: int) -> None:
    """Mark a job as pending."""
    word = job_id >> WORD_SHIFT
    tally[BITS + word] |= 1 << (int(job_id) & (BITS_PER_WORD - 1))
    tally[LOWEST] = min(tally[LOWEST], word)


@kernel
def enter(tally: Any, job: Any, run: Any, job_id: int) -> None:
    """Count a job that becomes pending."""
    add(tally, job, run, 1)
    set_bit(tally, job_id)


@kernel
def leave(tally: Any, job: Any, run: Any, job_id: int) -> None:
    """Stop counting a job that is no longer pending; its record must not have changed yet."""
    add(tally, job, run, -1)
    tally[BITS + (job_id >> WORD_SHIFT)] &= ~(1 << (int(job_id) & (BITS_PER_WORD - 1)))


@kernel
def oldest(tally: Any) -> int:
    """Return the pending job that was submitted first; there must be one."""
    word = tally[LOWEST]
    while tally[BITS + word] == 0:
        word += 1
    return int(word * BITS_PER_WORD + lowest_bit(tally[BITS + word]))
