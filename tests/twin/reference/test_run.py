"""The reference on preemption, failure and power; and on drawn problems."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.twin.reference.cases import (
    actions,
    job,
    places,
    pool,
    run,
    starts,
)
from tests.twin.strategies import Problem, problems

from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Order, Preempt
from flyball.core.units import to_us
from flyball.twin.build import build_state
from flyball.twin.reference.run import Reference

# Preemption and failure ------------------------------------------------------

ROUNDS = {"preempt": Preempt.ROUNDS, "order": Order.SHORTEST, "margin_s": 0.0}


def test_preemption_pays_checkpoint_and_restart() -> None:
    # The short job comes at 30; the first multiple of 60 is 60. There the long one has done 60,
    # of which 5 went into the checkpoint: 55 kept, 5 lost. The short one runs 60..160. The long
    # one starts again at 160, is ready at 167 and needs 945 more: 1112.
    # Service 60 + 952 = 1012 s; energy 1012 s x (300 + 80) W.
    # Decisions at 0, 30, 60, 120 (a round: one pending, one running), 160, 1112.
    jobs = [job(0, 1000, checkpoint_s=5, restart_s=7), job(30, 100, restart_s=7)]
    twin = run([pool()], jobs, knobs=ROUNDS)
    assert actions(twin) == [
        (0, "START", 0),
        (60, "PREEMPT", 0),
        (60, "START", 1),
        (160, "START", 0),
    ]
    first, second = twin.jobs
    assert (first.lost_us, first.service_us, first.energy_j) == (5e6, 1012e6, 384_560.0)
    assert (first.end_us, second.end_us) == (to_us(1112), to_us(160))
    assert (first.attempt, first.preemptions, twin.preemptions) == (2, 1, 1)
    assert twin.decisions == 6


def test_a_checkpoint_longer_than_the_slice_keeps_nothing() -> None:
    twin = run([pool()], [job(0, 1000, checkpoint_s=70), job(30, 100)], knobs=ROUNDS, until_s=60)
    assert (twin.jobs[0].done_us, twin.jobs[0].lost_us) == (0.0, 60e6)
    assert twin.jobs[0].status == Status.PENDING


def victims(last: dict[str, Any], third_s: float = 3, **knobs: float) -> list[tuple[str, int]]:
    """Preemptions and starts at 120, when `last` meets a full cluster of two nodes of 2.

    Node 0 has jobs of 2000 and 800 s, node 1 of 1500 and 1400 s, the latter since `third_s`.
    """
    jobs = [job(0, 2000), job(1, 800), job(2, 1500), job(third_s, 1400), last]
    twin = run([pool(2, 2)], jobs, knobs={**ROUNDS, **knobs}, until_s=120)
    return [(kind, index) for at, kind, index in actions(twin) if at == 120]


def test_victims_worst_first_but_only_those_in_the_way() -> None:
    # Worst first: 0 (node 0), 2 (node 1), 3 (node 1 reaches two): 0 is left alone.
    two = job(120, 10, 2)
    assert victims(two) == [("PREEMPT", 2), ("PREEMPT", 3), ("START", 4)]
    # A key of 1400 is not above 10 + 1390, so only 0 and 2 may go, and no node reaches two.
    assert victims(two, margin_s=1390.0) == []
    assert victims(two, margin_s=1389.0) != []
    # Job 3 ran 50 s only: next is 1, and node 0 reaches two.
    assert victims(two, third_s=70) == [("PREEMPT", 0), ("PREEMPT", 1), ("START", 4)]
    # Exactly a round is enough.
    assert victims(two, third_s=60) == [("PREEMPT", 2), ("PREEMPT", 3), ("START", 4)]


def test_victims_of_a_gang_over_nodes() -> None:
    # Three devices need both nodes wholly free: all four go, worst first.
    gone = [("PREEMPT", index) for index in (0, 2, 3, 1)]
    assert victims(job(120, 10, 3)) == [*gone, ("START", 4)]


def test_room_left_over_from_a_larger_victim() -> None:
    # Two devices are wanted, four come free: the second small job starts on the other two.
    jobs = [job(0, 2000, 4), job(120, 10, 2), job(120, 20, 2)]
    twin = run([pool(1, 4)], jobs, knobs=ROUNDS, until_s=120)
    assert actions(twin)[1:] == [(120, "PREEMPT", 0), (120, "START", 1), (120, "START", 2)]
    assert places(twin)[2] == [(0, 0b1100)]


def test_a_fraction_takes_the_place_of_a_fraction() -> None:
    # 200 milli are free and 300 wanted; of the two on the device the longer one goes.
    jobs = [job(0, 900, milli=400), job(0, 1000, milli=400, memory_mib=900)]
    twin = run([pool()], [*jobs, job(120, 10, milli=300)], knobs=ROUNDS, until_s=120)
    assert actions(twin)[2:] == [(120, "PREEMPT", 1), (120, "START", 2)]
    # A fraction that needs more memory than the 100 MiB left evicts for that.
    jobs = [job(0, 900, milli=400), job(0, 1000, milli=100, memory_mib=900)]
    last = job(120, 10, milli=300, memory_mib=200)
    twin = run([pool()], [*jobs, last], knobs=ROUNDS, until_s=120)
    assert actions(twin)[2:] == [(120, "PREEMPT", 1), (120, "START", 2)]


def test_preemption_under_a_power_budget() -> None:
    # Two nodes idle at 100 W, a job adds 280: one runs, two would draw 760 of 700 W. The short
    # job takes the place of the long one: 480 - 280 + 280. A job that adds 520 W may not.
    jobs = [job(0, 1000), job(120, 10)]
    twin = run([pool(2)], jobs, budget_w=700.0, knobs=ROUNDS, until_s=120)
    assert actions(twin)[1:] == [(120, "PREEMPT", 0), (120, "START", 1)]
    assert places(twin)[1] == [(0, 1)]
    hungry = job(120, 10, rates=[(1.0, 1.0, 540.0)])
    twin = run([pool(2)], [jobs[0], hungry], budget_w=700.0, knobs=ROUNDS, until_s=120)
    assert actions(twin)[1:] == []


@pytest.mark.parametrize(("every_s", "kept_s", "end_s"), [(10, 60, 77), (0, 0, 107)])
def test_failure_rolls_back_to_the_last_checkpoint(
    every_s: float, kept_s: float, end_s: float
) -> None:
    # At rate 2 the failure at 37 finds 74 done. Checkpoints every 10 s saved 30 s = 60; 14 lost.
    # Repaired at 50, ready at 57; 40 left at rate 2: 20 s. Without checkpoints 100 left: 50 s.
    jobs = [job(0, 100, restart_s=7, rates=[(2.0, 1.0, 300.0)])]
    twin = run([pool()], jobs, outages=[(37, 50, 0)], checkpoint_every_s=every_s)
    only = twin.jobs[0]
    assert (only.end_us, only.lost_us) == (to_us(end_s), (74 - kept_s) * 1e6)
    assert (only.failures, twin.failures, twin.repairs, only.attempt) == (1, 1, 1, 2)
    assert only.service_us == (37 + end_s - 50) * 1e6
    # The node: 380 W while the job is on it, nothing while it is down; 100 W now.
    assert twin.nodes[0].energy_j == 380 * (37 + end_s - 50)
    assert (twin.power_w, twin.nodes[0].power_w) == (100.0, 100.0)


def test_failure_of_one_node_releases_the_other() -> None:
    # A gang on both nodes fails with node 1 at 10; the small job then gets node 0 at once and
    # the gang waits for it, repaired or not.
    jobs = [job(0, 20, 2), job(5, 30, priority=1.0)]
    twin = run([pool(2)], jobs, outages=[(10, 15, 1)], knobs={"priority_s": 100.0})
    assert [(at, index) for at, _, index in actions(twin)] == [(0, 0), (10, 1), (40, 0)]


# Power -----------------------------------------------------------------------


def test_sleep_splits_the_idle_time() -> None:
    # Busy 0..20 (380 W), idle 20..50: 10 s awake (100 W), 20 s asleep (5 W). The job of 50 waits
    # 3 s for the node to wake and ends at 63: 7600 + 1000 + 100 + 13 x 380 = 13640 J.
    twin = run([pool(wake_s=3)], [job(0, 20), job(50, 10)], knobs={"sleep_s": 10.0})
    node = twin.nodes[0]
    assert (node.energy_j, node.asleep_us, node.busy_us) == (13_640.0, 20e6, 33e6)
    assert twin.jobs[1].end_us == to_us(63)


def test_asleep_from_the_very_instant() -> None:
    twin = run([pool(wake_s=3)], [job(0, 20), job(30, 10)], knobs={"sleep_s": 10.0})
    assert (twin.jobs[1].end_us, twin.nodes[0].asleep_us) == (to_us(43), 0)


@pytest.mark.parametrize(("budget_w", "start_s", "peak_w"), [(759, 10, 480), (760, 0, 760)])
def test_power_budget_and_peak(budget_w: float, start_s: float, peak_w: float) -> None:
    # Two idle nodes draw 200 W, each job adds 300 - 20 = 280 W.
    twin = run([pool(2)], [job(0, 10), job(0, 10)], budget_w=budget_w)
    assert starts(twin)[1] == start_s
    assert twin.peak_power_w == peak_w
    assert twin.power_w == 200.0


def test_cap_slows_and_saves() -> None:
    # Rate 1 / 1.25 = 0.8: 10 s of work take 12.5 s, at 150 W and the host's 80 W: 2875 J.
    twin = run([pool()], [job(0, 10)], knobs={"cap": 0.5})
    assert (twin.jobs[0].end_us, twin.jobs[0].energy_j) == (to_us(12.5), 2875.0)
    assert twin.peak_power_w == 230.0


def test_mark_counts_running_jobs_pro_rata() -> None:
    # 4 of 10 s on 4 devices: 0.4 of 40 reference device-seconds; the node draws
    # 80 + 4 x 20 + 4 x 280 = 1280 W. A second job waits.
    jobs = [job(0, 10, 4), job(0, 10, 1)]
    twin = run([pool(1, 4)], jobs, until_s=0)
    mark = twin.mark(to_us(4))
    assert (mark.time_us, mark.work_us, mark.energy_j) == (to_us(4), 16e6, 5120.0)
    assert (mark.busy_us, mark.finished) == (16e6, 0)
    assert twin.mark().work_us == 0.0  # reading changed nothing
    twin.run()
    assert twin.mark().work_us == 50e6
    assert twin.mark().finished == 2


# Whatever is drawn -----------------------------------------------------------


def finished(problem: Problem) -> Reference:
    twin = Reference(
        build_state(problem.cluster, problem.workload, problem.knobs, problem.effects),
        problem.knobs,
    )
    twin.run()
    return twin


@settings(max_examples=150, deadline=None)
@given(problems())
def test_every_job_ends_and_the_accounts_agree(problem: Problem) -> None:
    twin = finished(problem)
    jobs = twin.jobs
    assert all(job.status in (Status.DONE, Status.TIMEOUT) for job in jobs)
    assert twin.arrivals == twin.ends == len(jobs)
    assert twin.starts == sum(job.attempt for job in jobs)
    failed = sum(job.failures for job in jobs)
    assert twin.starts == twin.ends + twin.preemptions + failed
    assert all(job.submit_us <= job.first_start_us <= job.end_us <= twin.now_us for job in jobs)

    # Device time held by jobs is device time in use on nodes; nothing is held at the end.
    service_us = sum(job.service_us for job in jobs)
    assert sum(node.busy_us for node in twin.nodes) == pytest.approx(service_us)
    assert all(not node.jobs and node.used_milli == 0 for node in twin.nodes)
    up_w = sum(node.power_w for node in twin.nodes)
    assert twin.power_w == pytest.approx(up_w)
    budget_w = problem.cluster.power_budget_w
    assert budget_w == 0 or twin.peak_power_w <= budget_w * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(problems())
def test_stopping_changes_nothing(problem: Problem) -> None:
    at_once = finished(problem)
    state = build_state(problem.cluster, problem.workload, problem.knobs, problem.effects)
    steps = Reference(state, problem.knobs)
    for share in (0.1, 0.5, 0.7):
        until_us = at_once.cluster.start_us + int(
            share * (at_once.now_us - at_once.cluster.start_us)
        )
        steps.run(until_us)
        steps.mark(until_us)
    steps.run()
    assert steps.schedule() == at_once.schedule()
    assert steps.mark() == at_once.mark()


@settings(max_examples=50, deadline=None)
@given(problems())
def test_jobs_wait_for_their_predecessors(problem: Problem) -> None:
    twin = finished(problem)
    first: dict[int, int] = {}
    for time_us, kind, index, rows in twin.schedule():
        if kind == ActionKind.START:
            first.setdefault(index, time_us)
            width = sum(row.mask.bit_count() for row in rows)
            assert width == twin.jobs[index].devices
    pairs = zip(problem.workload.after_job, problem.workload.after_on, strict=True)
    assert all(first[late] >= twin.jobs[early].end_us for late, early in pairs)
