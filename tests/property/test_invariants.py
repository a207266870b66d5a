"""What must hold in every run, whatever is drawn: nothing oversubscribed, nothing lost."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.property.record import (
    Keeper,
    actions,
    plan_of,
    preset,
    run_recorded,
    same_bytes,
    summary,
    twin_of,
)
from tests.twin.strategies import Problem, knobs, problems

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs
from flyball.core.state import State
from flyball.core.units import FOREVER_US, MILLI_PER_DEVICE
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy, names
from flyball.twin import kernel
from flyball.twin.twin import Twin

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
}
SHARES = st.sampled_from((0.0, 0.2, 0.5, 0.8))


def held(state: State) -> dict[tuple[int, int], list[int]]:
    """The jobs on each (node, device), by walking the rows of the running jobs."""
    out: dict[tuple[int, int], list[int]] = defaultdict(list)
    for job_id in np.flatnonzero(state.runs.status == Status.RUNNING):
        row_id = int(state.runs[job_id].first_row)
        assert row_id >= 0
        devices = 0
        while row_id >= 0:
            row = state.rows[row_id]
            assert row.job == job_id
            assert row.milli == state.jobs[job_id].milli
            for device in range(64):
                if int(row.mask) >> device & 1:
                    out[int(row.node), device].append(int(job_id))
                    devices += 1
            row_id = int(row.next)
        assert devices == state.jobs[job_id].devices
    return out


def on_host(state: State, node_id: int) -> tuple[int, int]:
    """Cores (thousandths) and memory that the jobs on a node take of its host."""
    cpu_milli, host_mib, row_id = 0, 0, int(state.nodes[node_id].first_row)
    while row_id >= 0:
        row = state.rows[row_id]
        job = state.jobs[row.job]
        shape, devices = state.shapes[job.shape_id], int(job.devices)
        part = Fraction(int(row.mask).bit_count(), devices) if devices else Fraction(1)
        cpu_milli += math.ceil(int(shape.cpu_milli) * part)
        host_mib += math.ceil(int(shape.host_mib) * part)
        row_id = int(row.sibling)
    return cpu_milli, host_mib


def assert_sound(state: State) -> None:
    """No device holds more than it has, and the books on capacity agree with the rows."""
    holders = held(state)
    for node_id, node in enumerate(state.nodes):
        pool, used_milli = state.pools[node.pool], 0
        for device in range(pool.capacity):
            jobs: Any = state.jobs[holders.get((node_id, device), [])]
            milli = int(jobs.milli.sum())
            used_milli += milli
            assert milli <= MILLI_PER_DEVICE
            assert int(jobs.memory_mib.sum()) <= pool.memory_mib
            assert bool(int(node.free_mask) >> device & 1) == (milli == 0)
        assert all(device < pool.capacity for at, device in holders if at == node_id)
        assert used_milli == node.used_milli
        cpu_milli, host_mib = on_host(state, node_id)
        assert node.free_cpu_milli == pool.cpu_milli - cpu_milli >= 0
        assert node.free_host_mib == pool.host_mib - host_mib >= 0
        assert not (node.down and used_milli)
    running = np.flatnonzero(state.runs.status == Status.RUNNING)
    assert len(running) == state.clock[0].running
    assert (state.runs.status == Status.PENDING).sum() == state.clock[0].pending


@settings(max_examples=60, **QUIET)
@given(problems())
def test_no_device_is_ever_oversubscribed(problem: Problem) -> None:
    twin = twin_of(problem)
    while (now_us := twin.next_us) < FOREVER_US:
        twin.run(now_us)
        assert_sound(twin.state)
    assert not held(twin.state)


@settings(max_examples=100, **QUIET)
@given(problems())
def test_every_job_ends_exactly_once(problem: Problem) -> None:
    twin = twin_of(problem)
    ended: set[int] = set()
    while (now_us := twin.next_us) < FOREVER_US:
        twin.run(now_us)
        final = {int(job) for job in np.flatnonzero(twin.state.runs.status >= Status.DONE)}
        assert ended <= final
        ended = final
    runs, clock = twin.state.runs, twin.state.clock[0]
    assert twin.finished
    assert len(ended) == clock.ends == clock.arrivals == len(problem.workload)
    assert clock.starts == runs.attempt.sum()
    assert clock.starts == clock.ends + runs.preemptions.sum() + runs.failures.sum()
    assert (runs.first_start_us >= problem.workload.submit_us).all()
    assert (runs.end_us >= runs.first_start_us).all()
    done = runs.status == Status.DONE
    assert (runs.done_us[done] == twin.state.jobs.work_us[done]).all()
    if problem.effects.costs is None:
        assert (runs.done_us[done] == problem.workload.duration_us[done]).all()
    assert (problem.workload.limit_us[~done] > 0).all()


@settings(max_examples=40, **QUIET)
@given(problems())
def test_same_seed_same_schedule(problem: Problem) -> None:
    first, second = twin_of(problem), twin_of(problem)
    assert run_recorded(first) == run_recorded(second)
    assert summary(first.state) == summary(second.state)


@settings(max_examples=80, **QUIET)
@given(problems())
def test_nodes_draw_at_least_what_their_jobs_draw(problem: Problem) -> None:
    # A job is charged with its devices and with its share of the host: both are the node's.
    results = twin_of(problem).replay()
    assert results.node_energy_j.sum() >= results.energy_j.sum() * (1 - 1e-9)
    assert results.node_busy_us.sum() == pytest.approx(results.service_us.sum())
    budget_w = problem.cluster.power_budget_w
    assert budget_w == 0 or results.peak_power_w <= budget_w * (1 + 1e-9)


@settings(max_examples=80, **QUIET)
@given(problems())
def test_arrays_and_dependencies_are_respected(problem: Problem) -> None:
    workload, twin = problem.workload, twin_of(problem)
    assume(len(workload.group_limits) or len(workload.after_job))
    limits = np.array(workload.group_limits, np.int64)
    while (now_us := twin.next_us) < FOREVER_US:
        twin.run(now_us)
        status = twin.state.runs.status
        admitted = (status == Status.PENDING) | (status == Status.RUNNING)
        in_array = admitted & (workload.group >= 0)
        assert (np.bincount(workload.group[in_array], minlength=len(limits)) <= limits).all()
    runs = twin.state.runs
    assert (runs.first_start_us[workload.after_job] >= runs.end_us[workload.after_on]).all()


# Copies ----------------------------------------------------------------------


def at_share(problem: Problem, share: float) -> tuple[Twin, Twin]:
    """A finished twin, and one stopped after this share of its time."""
    finished = twin_of(problem)
    stopped = finished.clone()
    finished.run()
    begin_us = int(finished.state.clock[0].start_us)
    stopped.run(begin_us + int(share * (finished.now_us - begin_us)))
    return finished, stopped


@settings(max_examples=60, **QUIET)
@given(problems(), SHARES, knobs())
def test_a_clone_goes_its_own_way(problem: Problem, share: float, others: Knobs) -> None:
    finished, original = at_share(problem, share)
    before = summary(original.state)
    copy, other, into = original.clone(), original.clone(), finished.clone()

    # The copies go on, one of them by other rules: the original stays where it is.
    copy.run()
    other.set_knobs(others)
    other.run()
    assert summary(original.state) == before
    assert summary(copy.state) == summary(finished.state)

    # An earlier clone is written over, then both go on as one did.
    assert original.clone(into) is into
    original.run()
    into.run()
    assert summary(original.state) == summary(into.state) == summary(finished.state)


@settings(max_examples=30, **QUIET)
@given(problems(), SHARES)
def test_dump_load_and_go_on(tmp_path: Path, problem: Problem, share: float) -> None:
    finished, stopped = at_share(problem, share)
    path = tmp_path / "twin.npz"
    stopped.dump(path)
    loaded = Twin.load(path)
    assert loaded.knobs == stopped.knobs
    assert same_bytes(loaded.state, stopped.state)
    loaded.run()
    assert summary(loaded.state) == summary(finished.state)
    assert list(tmp_path.iterdir()) == [path]


@settings(max_examples=80, **QUIET)
@given(problems(), SHARES, st.lists(knobs(), min_size=1, max_size=3))
def test_knobs_change_on_the_way(problem: Problem, share: float, others: list[Knobs]) -> None:
    finished, twin = at_share(problem, share)
    step_us = 1 + finished.now_us // 4
    for setting in others:
        before = twin.state.runs.status.copy()
        twin.set_knobs(setting)
        assert np.array_equal(twin.state.runs.status, before)
        assert_sound(twin.state)
        if twin.next_us < FOREVER_US:
            twin.run(twin.next_us + step_us)
            assert_sound(twin.state)
    twin.run()
    # Under a power budget another cap may leave a job that is never allowed to start.
    if problem.cluster.power_budget_w == 0:
        assert twin.finished
    assert not held(twin.state) or not twin.finished


@settings(max_examples=30, **QUIET)
@given(problems(), SHARES)
def test_setting_the_same_knobs_changes_nothing_but_the_reservation(
    problem: Problem, share: float
) -> None:
    finished, twin = at_share(problem, share)
    assume(problem.knobs.backfill != Backfill.EASY)  # a reservation is kept until it has passed
    twin.set_knobs(problem.knobs)
    twin.run()
    for name in ("status", "first_start_us", "end_us", "preemptions", "attempt"):
        assert np.array_equal(twin.state.runs[name], finished.state.runs[name]), name


# What policies know ----------------------------------------------------------


@settings(max_examples=40, **QUIET)
@given(problems())
def test_a_policy_never_sees_a_true_duration(problem: Problem) -> None:
    twin, keeper = twin_of(problem), Keeper(preset(problem.knobs))
    work_us = twin.state.jobs.work_us.copy()
    while twin.step(keeper) is not None:
        assert np.isnan(keeper.snapshots[-1].jobs.work_us).all()
    assert len(keeper.snapshots) == twin.state.clock[0].decisions
    assert np.array_equal(twin.state.jobs.work_us, work_us)


@settings(max_examples=60, **QUIET)
@given(problems(), SHARES, st.floats(1.5, 10.0))
def test_decisions_do_not_depend_on_true_durations(
    problem: Problem, share: float, factor: float
) -> None:
    # Two clusters that look the same at the same instant, after the same events; in one of
    # them every job takes longer in truth. What is decided then is the same.
    _, twin = at_share(problem, share)
    now_us = twin.next_us
    assume(now_us < FOREVER_US)
    kernel.advance_to(twin.state, problem.knobs.pack(), now_us)
    longer = twin.snapshot()
    longer.jobs.work_us = twin.state.jobs.work_us * factor
    plans = []
    for state in (twin.snapshot(), longer):
        plans.append(actions(now_us, preset(problem.knobs).decide(state)))
    assert plans[0] == plans[1]


def test_first_decision_is_the_same_for_other_true_durations() -> None:
    cluster = Cluster("two", (NodeGroup("a", 2, "V100", 4), NodeGroup("b", 1, "P100", 2)))
    short = Workload.of(
        "short", [0] * 6, [10, 20, 30, 40, 50, 60], [4, 4, 6, 2, 1, 1], estimate_us=1e8
    )
    long = replace(short, name="long", duration_us=short.duration_us[::-1] * 7)
    for name in names():
        plans = []
        for workload in (short, long):
            policy = get_policy(name)
            twin = Twin(cluster, workload, policy.knobs, allocator=policy.allocator)
            twin.run(0)
            plans.append(actions(0, plan_of(twin.state)))
        assert plans[0] == plans[1], name
        assert plans[0], name
