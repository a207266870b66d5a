"""Tenants, quotas, borrowing, reclaim: what holds at every decision, whatever is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.property.record import Schedule, plan_of, preset, twin_of
from tests.twin.strategies import Problem, problems

from flyball.core.accounts import own_rows
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.state import State
from flyball.core.units import FOREVER_US, MILLI_PER_DEVICE, to_us
from flyball.core.workload import Workload
from flyball.twin.twin import Twin

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def fair(problem: Problem, **changes: Any) -> Problem:
    """The problem under order = fair, with whatever else was drawn."""
    place = problem.knobs.place if problem.knobs.place != Place.HOLD else Place.BEST_FIT
    changes = {"backfill": Backfill.SKIP, "place": place, "move_s": Knobs.move_s, **changes}
    knobs = replace(problem.knobs, order=Order.FAIR, **changes)
    return replace(problem, knobs=knobs)


def asks_milli(state: State) -> Any:
    return state.jobs.devices.astype(np.int64) * state.jobs.milli


def without_hosts(workload: Workload) -> Workload:
    """The same jobs, none with a demand on hosts: a full host may stand in a reclaim's way."""
    none = np.zeros_like(workload.cpu_milli)
    devices = np.maximum(1, workload.devices)
    return replace(workload, cpu_milli=none, host_mib=none, devices=devices)


def accounts(state: State) -> Any:
    """The tenants' own accounts."""
    return own_rows(state.tenants, len(state.pools))


def tenant_rows(state: State) -> Any:
    """Which of these is that of each job's tenant."""
    return np.where(state.jobs.tenant < 0, len(accounts(state)) - 1, state.jobs.tenant)


def use_by_tenant(state: State) -> Any:
    """What each tenant's running jobs hold, counted from the jobs."""
    running = state.runs.status == Status.RUNNING
    return np.bincount(
        tenant_rows(state)[running],
        weights=asks_milli(state)[running],
        minlength=len(accounts(state)),
    ).astype(np.int64)


def borrowed(state: State) -> list[int]:
    """The running jobs beyond their tenant's quota, in the order in which they started."""
    rows, asks, borrowers = tenant_rows(state), asks_milli(state), []
    up_to = np.zeros(len(accounts(state)), np.int64)
    running = np.flatnonzero(state.runs.status == Status.RUNNING)
    for job in running[np.argsort(state.memos.start_number[running])]:
        up_to[rows[job]] += asks[job]
        if up_to[rows[job]] > accounts(state).quota_milli[rows[job]]:
            borrowers.append(int(job))
    return borrowers


def stepped(problem: Problem) -> Any:
    """(state before, plan, state after) of every decision; the state after is the twin's own."""
    twin, policy = twin_of(problem), preset(problem.knobs)
    while True:
        before = twin.clone()
        plan = twin.step(policy)
        if plan is None:
            return
        yield before, plan, twin


@settings(max_examples=100, **QUIET)
@given(problems())
def test_nobody_uses_more_than_the_limit(problem: Problem) -> None:
    for _before, _plan, twin in stepped(fair(problem)):
        state = twin.state
        used = use_by_tenant(state)
        assert np.array_equal(accounts(state).used_milli, used)
        assert (used <= accounts(state).limit_milli).all()
        by_pool = state.tenants.used_milli.reshape(len(used), -1)[:, 1:]
        assert np.array_equal(by_pool.sum(axis=1), used)
        there = 1000 * state.pools.nodes.astype(np.int64) * state.pools.capacity
        assert accounts(state).share.tolist() == (by_pool / there).max(axis=1).tolist()
        assert ((accounts(state).usage >= 0) & (accounts(state).usage <= 1)).all()


@settings(max_examples=150, **QUIET)
@given(problems())
def test_only_borrowers_are_set_aside_and_only_for_jobs_within_their_quota(
    problem: Problem,
) -> None:
    problem = fair(problem, preempt=Preempt.ROUNDS)
    within: set[tuple[int, int]] = set()  # (job, attempt) that started within the quota
    for _before, plan, twin in stepped(problem):
        state = twin.state
        # Play the plan back from the end: `used` is what it was after each action.
        used, asks, rows = use_by_tenant(state), asks_milli(state), tenant_rows(state)
        seen: set[int] = set()
        for action in plan[::-1]:
            job = int(action.job)
            row = rows[job]
            if action.kind == ActionKind.PREEMPT:
                used[row] += asks[job]
                assert used[row] > accounts(state).quota_milli[row]
                assert (job, int(state.runs[job].attempt)) not in within
                assert action.reason == Reason.GAVE_BACK
            elif job not in seen:
                seen.add(job)
                inside = used[row] <= accounts(state).quota_milli[row]
                assert inside == (action.reason != Reason.BORROWED)
                if inside:
                    within.add((job, int(state.runs[job].attempt)))
                used[row] -= asks[job]


@settings(max_examples=150, **QUIET)
@given(problems())
def test_borrowed_devices_come_back_in_one_round(problem: Problem) -> None:
    problem = fair(problem, preempt=Preempt.ROUNDS)
    problem = replace(problem, cluster=replace(problem.cluster, power_budget_w=0.0))
    problem = replace(problem, workload=without_hosts(problem.workload))
    every_us = to_us(problem.knobs.round_s)
    for _before, _plan, twin in stepped(problem):
        if twin.now_us % every_us == 0:
            assert_nothing_left_to_take_back(twin)


def assert_nothing_left_to_take_back(twin: Twin) -> None:
    """For each pending job within its quota: no pool would serve it without the borrowed jobs."""
    state, asks, rows = twin.state, asks_milli(twin.state), tenant_rows(twin.state)
    room = accounts(state).quota_milli - accounts(state).used_milli
    set_aside = {int(action.job) for action in plan_of(state) if action.kind == ActionKind.PREEMPT}
    free = np.where(state.nodes.down == 1, 0, state.nodes.free).astype(np.int64)
    could_be = free.copy()
    for lender in borrowed(state):
        before = state.runs[lender].since_us < twin.now_us
        row_id = int(state.runs[lender].first_row) if before else -1
        while row_id >= 0:
            row = state.rows[row_id]
            if row.milli == MILLI_PER_DEVICE:
                could_be[row.node] += int(row.mask).bit_count()
            row_id = int(row.next)
    for job in np.flatnonzero(state.runs.status == Status.PENDING):
        whole_devices = state.jobs[job].milli == MILLI_PER_DEVICE
        if not whole_devices or job in set_aside or asks[job] > room[rows[job]]:
            continue
        devices = int(state.jobs[job].devices)
        mask = int(state.shapes.pools[state.jobs[job].shape_id])
        for pool_id, pool in enumerate(state.pools):
            if mask >> pool_id & 1:
                here = slice(int(pool.first_node), int(pool.first_node + pool.nodes))
                lent = could_be[here][could_be[here] > free[here]]
                if devices <= pool.capacity:
                    assert (lent < devices).all()
                elif len(lent):
                    empty = (could_be[here] == pool.capacity).sum()
                    assert empty < -(-devices // int(pool.capacity))


@settings(max_examples=60, **QUIET)
@given(problems())
def test_a_single_tenant_with_the_whole_cluster_is_first_come_first_served(
    problem: Problem,
) -> None:
    alone = replace(problem.workload, tenant=np.full(len(problem.workload), -1))
    cluster = replace(problem.cluster, tenants=())
    problem = fair(replace(problem, workload=alone, cluster=cluster), preempt=Preempt.NEVER)
    plain = replace(problem, knobs=replace(problem.knobs, order=Order.SUBMIT))
    assert schedule(problem) == schedule(plain)


def schedule(problem: Problem) -> Schedule:
    from tests.property.record import run_recorded

    return run_recorded(twin_of(problem))


@settings(max_examples=40, **QUIET)
@given(problems())
def test_turning_fairness_on_and_off_loses_nothing(problem: Problem) -> None:
    # Shapes are split by tenant and joined again, what tenants use is counted anew.
    twin = twin_of(fair(problem))
    plain = Knobs()
    finished = twin.clone()
    finished.run()
    begin_us = int(finished.state.clock[0].start_us)
    step_us = 1 + (finished.now_us - begin_us) // 4
    shapes = len(twin.state.shapes)
    for knobs in (plain, twin.knobs):
        twin.run(begin_us + step_us)
        begin_us += step_us
        twin.set_knobs(knobs)
        if knobs.order == Order.FAIR:
            assert np.array_equal(accounts(twin.state).used_milli, use_by_tenant(twin.state))
            assert len(twin.state.shapes) == shapes
        else:
            assert len(twin.state.shapes) <= shapes
    twin.run()
    if problem.cluster.power_budget_w == 0:
        assert twin.finished
    assert twin.next_us == FOREVER_US


@pytest.mark.soak
@settings(max_examples=2_000, **QUIET)
@given(problems(most=40))
def test_reclaim_for_long(problem: Problem) -> None:
    test_only_borrowers_are_set_aside_and_only_for_jobs_within_their_quota.hypothesis.inner_test(  # type: ignore[attr-defined]
        problem
    )
