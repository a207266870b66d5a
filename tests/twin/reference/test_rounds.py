"""The reference turns target shares into rounds as documented: cases worked out by hand.

Rounds are 10 s long.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.twin.reference.cases import (
    MANY,
    SHARES,
    STRICT,
    Policy,
    actions,
    deficits_s,
    equal,
    job,
    make_state,
    places,
    pool,
    run,
    starts,
)

from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.units import to_us
from flyball.twin.build import set_visit_order
from flyball.twin.reference.run import Reference

# Which jobs run --------------------------------------------------------------------


@pytest.mark.parametrize("knobs", [SHARES, STRICT])
def test_two_jobs_share_a_device_half_and_half(knobs: dict[str, Any]) -> None:
    # At 0 both have 0.5 / 5: job 0. At 10 it is 0.5 / 15 against 0.5 / 5: job 1. At 20 they are
    # even again: job 0. So they take turns; job 0 ends at 50 (its third turn), job 1 at 60.
    # At 50 job 0 had 30 of its 25 s, job 1 had 20.
    policy = Policy([[0.5], [0.5]])
    twin = run([pool()], [job(0, 30), job(0, 30)], knobs=knobs, targets=policy, until_s=50)
    turns = []
    for at, old, new in ((10, 0, 1), (20, 1, 0), (30, 0, 1), (40, 1, 0)):
        turns += [(at, "PREEMPT", old), (at, "START", new)]
    assert actions(twin) == [(0, "START", 0), *turns, (50, "START", 1)]
    assert deficits_s(twin) == [-5, 5]
    # The run ends at 60 with a decision without active jobs, so the policy is not asked again.
    twin.run()
    assert [ended.end_us for ended in twin.jobs] == [to_us(50), to_us(60)]
    assert policy.asked == [(0, (0, 1)), (50, (1,))]
    assert (twin.now_us, twin.decisions, twin.preemptions) == (to_us(60), 7, 4)


def test_targets_of_three_to_one() -> None:
    # Targets over 5 s + time received: 0.75 / 5 > 0.25 / 5: job 0. At 10 0.75 / 15 = 0.25 / 5:
    # even, and job 0 is the lower. At 20 0.75 / 25 = 0.03 < 0.05: job 1. At 30 0.03 > 0.25 / 15.
    jobs = [job(0, MANY), job(0, MANY)]
    twin = run([pool()], jobs, knobs=SHARES, targets=Policy([[0.75], [0.25]]), until_s=30)
    assert [(at, kind) for at, kind, index in actions(twin) if index == 1] == [
        (20, "START"),
        (30, "PREEMPT"),
    ]


def test_equal_priorities_go_by_deficit() -> None:
    # At 30 job 0 had 20 s and job 1 10 s of the 15 s that each was due; job 2 is new and owed
    # nothing. All priorities are even then, so 1 (5 s), 2 (0 s), 0 (-5 s); then 1 again.
    policy = Policy([[0.5], [0.5], [0.0]], [[1 / 3]] * 3)
    jobs = [job(0, MANY), job(0, MANY), job(25, MANY)]
    twin = run([pool()], jobs, knobs=SHARES, targets=policy, until_s=60)
    assert deficits_s(twin) == [-5, 5, 0]
    assert [action for action in actions(twin) if action[0] >= 30 and action[1] == "START"] == [
        (30, "START", 1),
        (40, "START", 2),
        (50, "START", 0),
        (60, "START", 1),
    ]


def test_room_left_over_is_for_all_jobs_or_for_none() -> None:
    # Two of four devices are left next to job 0, the only one with a target, which ends at 15.
    # Strict leaves them idle, and the next round for job 1 is at 20; by then no
    # active job has a target, so any job may run.
    jobs = [job(0, 15, 2), job(0, 30, 2)]
    twin = run([pool(1, 4)], jobs, knobs=SHARES, targets=Policy([[1.0], [0.0]]))
    assert starts(twin) == {0: 0, 1: 0}
    twin = run([pool(1, 4)], jobs, knobs=STRICT, targets=Policy([[1.0], [0.0]]))
    assert starts(twin) == {0: 0, 1: 20}
    assert twin.decisions == 7  # at 0, 10, 15, 20, 30, 40, 50


@pytest.mark.parametrize("knobs", [SHARES, STRICT])
def test_no_job_has_a_target(knobs: dict[str, Any]) -> None:
    # All priorities are 0 and stay so, all deficits are 0: the lowest jobs that fit, for good.
    # A target in a pool where the job could not run is none.
    nowhere = [(1.0, 1.0, 300.0), (0.0, 0.0, 0.0)]
    jobs = [job(0, MANY, 2, rates=nowhere), job(0, MANY, 2, rates=nowhere), job(0, MANY)]
    policy = Policy([[0.0, 0.7], [0.0, 0.0], [0.0, 0.0]])
    twin = run([pool(1, 3), pool(0)], jobs, knobs=knobs, targets=policy, until_s=20)
    assert actions(twin) == [(0, "START", 0), (0, "START", 2)]


# Which pool ------------------------------------------------------------------


def test_pools_by_their_mean_speed() -> None:
    # Pool 0: (1/4 + 3/3) / 2 = 0.625; pool 1: (2/4 + 3/3) / 2 = 0.75; pool 2: (4/4 + 0) / 2 = 0.5.
    # So with nothing else to go by job 0 runs in pool 1 though it is fastest in pool 2.
    rates = [[(1.0, 1.0, 300.0), (2.0, 1.0, 300.0), (4.0, 1.0, 300.0)]]
    rates.append([(3.0, 1.0, 300.0), (3.0, 1.0, 300.0), (0.0, 0.0, 300.0)])
    jobs = [job(0, MANY, rates=rates[0]), job(5, MANY, rates=rates[1])]
    pools = [pool(), pool(), pool()]
    twin = run(pools, jobs, knobs=SHARES, targets=Policy([[0.0] * 3] * 2), until_s=0)
    assert twin.jobs[0].pool == 1
    # The target is pool 2: targets come before what is left over in a faster pool.
    only_2 = [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    twin = run(pools, jobs, knobs=SHARES, targets=Policy(only_2), until_s=0)
    assert twin.jobs[0].pool == 2
    twin = run(pools, jobs, knobs=STRICT, targets=Policy(only_2), until_s=0)
    assert twin.jobs[0].pool == 2


def test_a_pool_that_does_not_fit_counts_nothing() -> None:
    # Job 0 would be fast in pool 1 but could not run there (its memory, say): pool 0 has
    # (1/1 + 1/2) / 2 = 0.75, pool 1 (0 + 2/2) / 2 = 0.5. So job 1 is left over to pool 0.
    jobs = [job(0, MANY, rates=[(1.0, 1.0, 300.0), (8.0, 1.0, 300.0)])]
    jobs.append(job(0, MANY, rates=[(1.0, 1.0, 300.0), (2.0, 1.0, 300.0)]))
    state = make_state([pool(1, 2), pool()], jobs)
    state.shapes[0].pools = 0b01
    set_visit_order(state.pools, state.rates, state.shapes, state.jobs)
    twin = Reference(state, Knobs(**SHARES), Policy([[0.0, 0.0]] * 2))
    twin.run(0)
    assert [placed.pool for placed in twin.jobs] == [0, 0]


def test_a_move_to_a_faster_pool_costs_a_restart() -> None:
    # Job 0 has the fast pool and ends at 15: 30 at rate 2. Job 1 runs in the slow one. At 20 its
    # target is the fast pool. It has done 20, of which the last 2 went into the checkpoint: 18
    # kept. Ready at 25; 82 left at rate 2 are 41 s more: 66. It was due 10 of its 20 s.
    rates = [(1.0, 1.0, 300.0), (2.0, 2.0, 300.0)]
    jobs = [job(0, 30, rates=rates), job(0, 100, rates=rates, checkpoint_s=2, restart_s=5)]
    policy = Policy([[0.0, 1.0], [0.5, 0.0]], [[0.0, 0.0], [0.0, 1.0]])
    twin = run([pool(), pool()], jobs, knobs=STRICT, targets=policy)
    assert actions(twin) == [
        (0, "START", 0),
        (0, "START", 1),
        (20, "PREEMPT", 1),
        (20, "START", 1),
    ]
    moved = twin.jobs[1]
    assert (moved.end_us, moved.lost_us, moved.service_us) == (to_us(66), 2e6, 66e6)
    assert (moved.attempt, moved.preemptions, moved.pool) == (2, 1, 1)
    assert [share.deficit_us for share in moved.shares] == [-10e6, 0]
    assert policy.asked == [(0, (0, 1)), (20, (1,))]


# When ------------------------------------------------------------------------


def test_between_rounds_in_order_of_submission() -> None:
    # Job 0 has one of 2 devices. Job 1 wants both; job 2, which came after it, starts at 4.
    # At 10 all have the same priority; owed are job 0 (10 of 10 s) 0, job 1 0 and job 2 -6 s. Job 1
    # does not fit next to job 0. At 20 it alone has received nothing.
    jobs = [job(0, MANY), job(3, MANY, 2), job(4, MANY)]
    twin = run([pool(1, 2)], jobs, knobs=SHARES, targets=equal(3), until_s=20)
    assert actions(twin) == [
        (0, "START", 0),
        (4, "START", 2),
        (20, "PREEMPT", 0),
        (20, "PREEMPT", 2),
        (20, "START", 1),
    ]
    assert deficits_s(twin) == [0, 0, -6]
    strict = run([pool(1, 2)], jobs, knobs=STRICT, targets=equal(3), until_s=10)
    assert actions(strict) == [(0, "START", 0), (10, "START", 2)]


def test_priority_counts_between_rounds() -> None:
    jobs = [job(0, 13), job(1, 10), job(2, 10, priority=9.0)]
    policy = Policy([[1.0], [0.0], [0.0]])
    twin = run([pool()], jobs, knobs=SHARES, targets=policy, until_s=13)
    assert actions(twin) == [(0, "START", 0), (13, "START", 2)]


def test_when_the_policy_is_asked() -> None:
    # Only in rounds after a change, and 25 s after the last time at the earliest. Job 1 arrives
    # at 3 but is admitted when job 0 ends, at 32; job 2 comes at 5. At 50 the last time is 20 s
    # ago, and the job set aside at 40 is no change.
    jobs = [job(0, 32), job(3, MANY, after=[0]), job(5, MANY)]
    for solve_s, asked in (
        (25.0, [(0, (0,)), (30, (0, 2)), (60, (1, 2))]),
        (0.0, [(0, (0,)), (10, (0, 2)), (40, (1, 2))]),
        (30.0, [(0, (0,)), (30, (0, 2)), (60, (1, 2))]),
    ):
        policy = equal(3)
        knobs = {**SHARES, "solve_s": solve_s}
        run([pool(2)], jobs, knobs=knobs, targets=policy, until_s=80)
        assert policy.asked == asked


def test_time_before_the_first_question_is_received_too() -> None:
    # The clock starts at 4; the policy is first asked at 10, when job 0 had 6 s that it was
    # not due. So job 1 comes first.
    jobs = [job(4, MANY), job(4, MANY)]
    twin = run([pool()], jobs, knobs=SHARES, targets=equal(2), until_s=10)
    assert actions(twin) == [(4, "START", 0), (10, "PREEMPT", 0), (10, "START", 1)]
    assert deficits_s(twin) == [-6, 0]
    assert twin.jobs[0].shares[0].received_us == 0


def test_a_node_fails_and_comes_back() -> None:
    # Each job should have a node. At 15 node 0 fails and with it the 15 s of job 0. At 20 one
    # device is up: job 0 had 15 and job 1 all of its 20 s, so job 0 is first. At 30 job 1 (0 s
    # received since) is. Job 0 has saved 10; it starts again when node 0 is back, at 32.
    # At 40 job 0 had 10 + 8 of 20 s: 5 + 2; job 1 had 10: 0 + 10. Both continue.
    # Job 0 has 25 left at 32: 57. Job 1 saved 20 and has 15 left at 30: 45.
    policy = equal(2)
    jobs = [job(0, 35), job(0, 35)]
    twin = run([pool(2)], jobs, outages=[(15, 32, 0)], knobs=SHARES, targets=policy)
    assert actions(twin)[2:] == [
        (20, "PREEMPT", 1),
        (20, "START", 0),
        (30, "PREEMPT", 0),
        (30, "START", 1),
        (32, "START", 0),
    ]
    assert places(twin) == {0: [(0, 1)], 1: [(1, 1)]}
    assert [ended.end_us for ended in twin.jobs] == [to_us(57), to_us(45)]
    # At 50, since 40: job 0 had 10 of 10 s, job 1 had 5 of 10 s.
    assert policy.asked == [(0, (0, 1)), (20, (0, 1)), (40, (0, 1)), (50, (0,))]
    assert deficits_s(twin) == [7, 15]
    assert twin.jobs[0].lost_us == 15e6


def test_an_idle_cluster_waits_for_events() -> None:
    # The only node is down from 5 to 47. The round after the failure, at 10, starts no job, and
    # nothing is decided until the repair; the round after that starts the job.
    for knobs, start_s, decisions in ((STRICT, 50, 6), (SHARES, 47, 6)):
        jobs = [job(0, 8)]
        twin = run([pool()], jobs, outages=[(5, 47, 0)], knobs=knobs, targets=equal(1))
        assert actions(twin) == [(0, "START", 0), (start_s, "START", 0)]
        # At 0, 5, 10, 47, 50; and the end, at 58 or 55.
        assert (twin.decisions, twin.now_us) == (decisions, to_us(start_s + 8))


def test_a_run_of_no_time_is_followed_by_another_round() -> None:
    policy = equal(2)
    jobs = [job(0, 0, estimate_s=1e-6), job(0, 5)]
    twin = run([pool()], jobs, knobs=STRICT, targets=policy)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1)]
    assert policy.asked == [(0, (0, 1)), (0, (1,))]
    assert (twin.decisions, twin.now_us) == (3, to_us(5))


# What does not go together ---------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preempt": Preempt.NEVER}, "set preempt=rounds"),
        ({"backfill": Backfill.EASY}, "does not go with this backfill"),
        ({"place": Place.HOLD}, "another place rule"),
        ({"solve_s": -1.0}, "out of range"),
    ],
)
def test_refused_settings(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Knobs(**{**SHARES, **change})


def test_other_orders_still_need_skip() -> None:
    with pytest.raises(BadInput, match="use backfill=skip"):
        Knobs(**{**STRICT, "order": Order.SUBMIT})


def test_settings_reach_the_kernel() -> None:
    knobs = Knobs(**STRICT).with_settings(["solve_s=2.5"])
    assert knobs.pack()[0].solve_us == 2_500_000
    assert knobs.as_dict()["order"] == "shares"


def test_shares_need_a_policy() -> None:
    with pytest.raises(BadInput, match="needs a policy"):
        Reference(make_state([pool()], [job(0, 1)]), Knobs(**SHARES))
