"""Totals of a run at an instant between two events: work, energy, device time, money, carbon."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import entry, kernel
from flyball.physics.energy import busy_at, energy_at, touch
from flyball.physics.signals import node_bill
from flyball.schedule.order import progress

RUNNING, DONE = int(Status.RUNNING), int(Status.DONE)


@kernel
def totals(state: Any, knobs: Any, now: int) -> tuple:  # type: ignore[type-arg]
    """Return (work, energy, device time, money, carbon) up to `now`; changes nothing.

    Money and carbon are 0 while every signal is constant.
    """
    energy_j, money, carbon_g = 0.0, 0.0, 0.0
    busy_us = 0.0
    for node_id in range(len(state.nodes)):
        node = state.nodes[node_id]
        sleep_w = state.pools[node.pool].sleep_w
        energy_j += energy_at(node, sleep_w, now)
        busy_us += busy_at(node, now)
        if len(state.steps) > 0:
            clock, steps = state.clock[0], state.steps
            money += node.money + node_bill(clock.price, steps, node, sleep_w, now)
            carbon_g += node.carbon_g + node_bill(clock.carbon, steps, node, sleep_w, now)
    work_us = 0.0
    for job_id in range(state.clock[0].next_job):
        job, run_ = state.jobs[job_id], state.runs[job_id]
        if run_.status == DONE:
            work_us += job.reference_us
        else:
            done_us = run_.done_us
            if run_.status == RUNNING:
                done_us += progress(run_, now)
            work_us += work_done(job, done_us)
    return work_us, energy_j, busy_us, money, carbon_g


@kernel
def work_done(job: Any, done_us: float) -> float:
    """Return the part of a job's work that is done, in device time of the reference device."""
    return float(min(1.0, done_us / job.work_us) * job.reference_us) if job.work_us > 0 else 0.0


@kernel
def note_end(state: Any, job_id: int, now: int) -> None:
    """Add a job that just ended to the sums over ended jobs."""
    job, run_, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    clock.flow_us += float(now - job.submit_us)
    clock.ended_us += job.reference_us if run_.status == DONE else work_done(job, run_.done_us)


@entry
def totals_at(state: Any, packed: Any, now: int) -> tuple:  # type: ignore[type-arg]
    return totals(state, packed[0], now)


@entry
def settle(state: Any, packed: Any, now: int) -> None:
    """Bring every node's account up to `now`."""
    for node_id in range(len(state.nodes)):
        touch(state, node_id, now)
