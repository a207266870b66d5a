"""Accounts for a running slice in its job's record when it ends, however it ends."""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel
from flyball.physics.signals import bill_job
from flyball.schedule.order import progress


@kernel
def account(state: Any, job_id: int, now: int) -> None:
    """Add the running slice's device time, energy, bill and wait for its nodes to the job's."""
    job, run = state.jobs[job_id], state.runs[job_id]
    run.service_us += (now - run.since_us) * run.devices * job.milli / 1000
    run.energy_j += run.watts * (now - run.since_us) / 1e6
    if len(state.steps) > 0:
        bill_job(state.clock[0], state.steps, run, now)
    run.waking_us += max(0, min(now, run.awake_us) - run.since_us)
    if len(state.shares) > 0:
        share = state.shares[job_id * len(state.pools) + run.pool]
        share.received_us += now - max(run.since_us, state.clock[0].asked_us)


@kernel
def cut_short(state: Any, job_id: int, kept_us: float, now: int) -> None:
    """Account for a slice that ends before its job does; `kept_us` of its progress is saved."""
    run = state.runs[job_id]
    run.lost_us += progress(run, now) - kept_us
    account(state, job_id, now)
    run.done_us += kept_us
    run.end_us = -1


@kernel
def give_way(state: Any, job_id: int, now: int) -> None:
    """Account for a preemption: the checkpoint is written during the end of the slice."""
    job, run, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    kept = max(0, now - run.ready_us - job.checkpoint_us) * run.rate
    run.preemptions += 1
    clock.preemptions += 1
    cut_short(state, job_id, kept, now)
