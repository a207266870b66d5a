"""Gathers the results of a run from the state at its end."""

from __future__ import annotations

import numpy as np

from flyball.core.results import Mark, Results
from flyball.core.state import State
from flyball.twin.tables.signals import bills_of

EVENT_COUNTS = ("arrivals", "starts", "ends", "preemptions", "failures", "repairs")


def results_of(state: State, window: tuple[Mark, Mark]) -> Results:
    """Return the results of a run whose accounts are settled."""
    clock, jobs, runs, nodes = state.clock[0], state.jobs, state.runs, state.nodes
    packed = state.rates.packed.reshape(-1, len(state.pools))[jobs.profile]
    node_bills, job_bills = bills_of(state, nodes), bills_of(state, runs)
    return Results(
        submit_us=jobs.submit_us.astype(np.int64),
        devices=jobs.devices.astype(np.int64),
        milli=jobs.milli.astype(np.int64),
        first_start_us=runs.first_start_us.copy(),
        end_us=runs.end_us.copy(),
        solo_us=jobs.work_us / packed.max(axis=1),
        reference_us=jobs.reference_us.copy(),
        service_us=runs.service_us.copy(),
        waking_us=runs.waking_us.copy(),
        lost_us=runs.lost_us.copy(),
        energy_j=runs.energy_j.copy(),
        priority=jobs.priority.copy(),
        tenant=jobs.tenant.astype(np.int64),
        status=runs.status.astype(np.int64),
        attempts=runs.attempt.astype(np.int64),
        preemptions=runs.preemptions.astype(np.int64),
        moves=runs.moves.astype(np.int64),
        failures=runs.failures.astype(np.int64),
        pool=runs.pool.astype(np.int64),
        node_capacity=state.pools.capacity[nodes.pool].astype(np.int64),
        node_busy_us=nodes.busy_us.copy(),
        node_energy_j=nodes.energy_j.copy(),
        node_asleep_us=nodes.asleep_us.copy(),
        start_us=int(clock.start_us),
        stop_us=int(clock.now_us),
        window=window,
        peak_power_w=float(clock.peak_power_w),
        events=sum(int(clock[name]) for name in EVENT_COUNTS),
        decisions=int(clock.decisions),
        money=job_bills.money,
        carbon_g=job_bills.carbon_g,
        node_money=node_bills.money,
        node_carbon_g=node_bills.carbon_g,
    )
