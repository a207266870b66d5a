"""Writes the speeds of running jobs into the state, for tuners to use, in compiled code.

Of an elastic job the true speed over the guessed one, where it runs; of two jobs on a device what
each keeps of its speed alone. Speeds are read off the state here instead of measured: what a job
shows after `SEEN_US` is its true speed.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import entry, kernel

RUNNING = int(Status.RUNNING)
GUEST = 0
SEEN_US = 30_000_000
"""Minimum run time after which a job's speed counts as measured."""


@entry
def learn_speeds(state: Any) -> None:
    """Record what running jobs show of their speed by size and type, and of pairs."""
    sizes, pairs = len(state.learned) > 0, len(state.pairs) > 0
    if not sizes and not pairs:
        return
    for job_id in range(state.clock[0].next_job):
        if state.runs[job_id].status == RUNNING:
            if sizes:
                learn_size(state, job_id)
            if pairs:
                learn_pair(state, job_id)


@kernel
def learn_size(state: Any, job_id: int) -> None:
    """Record the true over the guessed speed of an elastic job where it runs."""
    job, run, pools = state.jobs[job_id], state.runs[job_id], len(state.pools)
    if job.curve < 0 or state.clock[0].now_us - run.ready_us < SEEN_US:
        return
    span = state.ranges[job.curve]
    at = span.first + (run.devices - span.least) * pools + run.pool
    guess = state.guesses[at].packed
    if guess > 0.0:
        state.learned[job_id * pools + run.pool] = state.points[at].packed / guess


@kernel
def learn_pair(state: Any, job_id: int) -> None:
    """Record the speeds of a job that holds a device whole and of its only guest, if it has one.

    Where equal pairs differ, the holder with the highest number counts.
    """
    run = state.runs[job_id]
    if not takes_one(state, job_id) or state.rows[run.first_row].milli == GUEST:
        return
    mine, other, others = state.rows[run.first_row], -1, 0
    row_id = state.nodes[mine.node].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        beside = row.job != job_id and row.mask == mine.mask and takes_one(state, row.job)
        if beside and state.runs[row.job].first_row == row_id:
            other = row.job
            others += 1
        row_id = row.sibling
    if others == 1:
        note_pair(state, job_id, other)
        note_pair(state, other, job_id)


@kernel
def takes_one(state: Any, job_id: int) -> bool:
    """Return whether a running job asked for one device and has rows."""
    job, run = state.jobs[job_id], state.runs[job_id]
    whole = job.devices == 1 and job.milli == MILLI_PER_DEVICE
    return bool(whole and run.status == RUNNING and run.first_row >= 0)


@kernel
def note_pair(state: Any, job_id: int, other: int) -> None:
    """Record what a job keeps of its speed beside another."""
    run, profiles = state.runs[job_id], len(state.rates) // len(state.pools)
    row = run.pool * profiles + state.jobs[job_id].profile
    state.pair_guesses[row * profiles + state.jobs[other].profile] = run.slow
