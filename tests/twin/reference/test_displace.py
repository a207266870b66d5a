"""The reference makes room for gangs in a round as documented; and drawn workloads end.

Rounds are 10 s long. Nodes idle at 80 + 20 W a device, a busy device adds 280 W.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.reference.cases import (
    MANY,
    SHARES,
    SPREAD,
    Policy,
    actions,
    equal,
    job,
    places,
    pool,
    run,
)
from tests.twin.strategies import effects, node_groups, workloads

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, Span
from flyball.core.units import to_us
from flyball.twin.build import build_state
from flyball.twin.reference.run import Reference


def test_a_gang_displaces_a_smaller_job() -> None:
    # Two nodes of 4 with a job of 2 each. The gang of 4 comes at 5; at 10 all three are chosen
    # (8 devices). Both nodes have 2 free and could be cleared: node 0. Job 0 has done 10 of 100,
    # moves to node 1, is ready at 13 and ends at 103.
    jobs = [job(0, 100, 2, restart_s=3), job(0, 100, 2), job(5, MANY, 4)]
    twin = run([pool(2, 4)], jobs, knobs=SPREAD, targets=equal(3), until_s=10)
    assert actions(twin)[2:] == [(10, "PREEMPT", 0), (10, "START", 2), (10, "START", 0)]
    assert places(twin) == {0: [(1, 0b1100)], 1: [(1, 0b0011)], 2: [(0, 0b1111)]}
    assert twin.jobs[0].end_us == to_us(103)


def test_the_smallest_go_first_and_may_come_back() -> None:
    # Two nodes of 5: jobs 0 (1) and 2 (2) on node 0, job 1 (3) on node 1, so 2 devices free on
    # each. The gang of 4 gets node 0: job 0 goes, 3 free; job 2 goes, 5 free. Largest first,
    # job 2 then takes the 2 devices of node 1 and job 0 the fifth of node 0.
    jobs = [job(1, MANY, 1), job(2, MANY, 3), job(3, MANY, 2), job(4, MANY, 4)]
    twin = run([pool(2, 5)], jobs, knobs=SPREAD, targets=equal(4), until_s=10)
    assert [action[1:] for action in actions(twin)[3:]] == [
        ("PREEMPT", 0),
        ("PREEMPT", 2),
        ("START", 3),
        ("START", 2),
        ("START", 0),
    ]
    assert places(twin) == {
        0: [(0, 0b10000)],
        1: [(1, 0b00111)],
        2: [(1, 0b11000)],
        3: [(0, 0b01111)],
    }


def test_the_displaced_displace() -> None:
    # In the round at 0 job 0 (3) goes to node 0, jobs 1 (2) and 2 (1) to node 1. At 10 the gang
    # of 4 gets node 0; job 0 finds 2 free on node 1 and displaces job 2, which gets the fifth
    # device of node 0.
    jobs = [job(0, MANY, 3), job(0, MANY, 2), job(0, MANY, 1), job(5, MANY, 4)]
    twin = run([pool(2, 5)], jobs, knobs=SPREAD, targets=equal(4), until_s=10)
    assert [action[1:] for action in actions(twin)[3:]] == [
        ("PREEMPT", 0),
        ("START", 3),
        ("PREEMPT", 2),
        ("START", 0),
        ("START", 2),
    ]
    assert places(twin)[0] == [(1, 0b11100)]
    assert places(twin)[2] == [(0, 0b10000)]


def test_a_gang_over_nodes_displaces() -> None:
    # Three nodes of 2, a job of 1 on each. At 10 the gang of 4 has the highest target and is
    # chosen first, then jobs 0 and 1; job 2 is set aside. Node 2 is now free, nodes 0 and 1
    # could be: node 0 is cleared too, and job 0 moves in with job 1.
    jobs = [*(job(0, MANY) for _ in range(3)), job(5, MANY, 4)]
    policy = Policy([[0.5], [0.5], [0.5], [1.0]])
    twin = run([pool(3, 2)], jobs, knobs=SPREAD, targets=policy, until_s=10)
    assert actions(twin)[3:] == [
        (10, "PREEMPT", 2),
        (10, "PREEMPT", 0),
        (10, "START", 3),
        (10, "START", 0),
    ]
    assert places(twin)[3] == [(0, 0b11), (2, 0b11)]
    assert places(twin)[0] == [(1, 0b10)]


def test_fractions_neither_displace_nor_are_displaced() -> None:
    # 600 + 600 + 600 of 2000: all three are chosen, but the third finds no device with 600 left
    # until job 0 ends.
    jobs = [job(0, 15, milli=600), job(0, MANY, milli=600), job(0, MANY, milli=600)]
    twin = run([pool(2)], jobs, knobs=SHARES, targets=equal(3), until_s=20)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1), (15, "START", 2)]
    # A fraction on each of two nodes, and the gang of 2 waits for the end of one.
    jobs = [job(0, 15, milli=600), job(0, MANY, milli=600), job(5, MANY, 2)]
    twin = run([pool(2, 2)], jobs, knobs=SPREAD, targets=equal(3), until_s=20)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1), (15, "START", 2)]
    # A whole device on each of the nodes, and the fraction of 2 devices displaces neither.
    jobs = [job(0, MANY), job(0, MANY), job(5, MANY, 2, milli=500)]
    twin = run([pool(2, 2)], jobs, knobs=SPREAD, targets=equal(3), until_s=10)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1)]


def test_nodes_that_are_down_are_no_room() -> None:
    # Node 2 of three is down and empty; of the others each has a job of 1, and the gang of 2
    # gets node 0. The pool is full then: 1 + 1 + 2 of the 4 devices that are up.
    jobs = [job(0, MANY), job(0, MANY), job(5, MANY, 2)]
    down = [(1.0, MANY, 2)]
    twin = run([pool(3, 2)], jobs, outages=down, knobs=SPREAD, targets=equal(3), until_s=10)
    assert places(twin) == {0: [(1, 0b10)], 1: [(1, 0b01)], 2: [(0, 0b11)]}


def test_jobs_over_several_nodes_stay() -> None:
    # Four nodes of 4: a gang of 5 on node 0 and a device of node 1, a job of 1 on nodes 2 and 3.
    # The gang of 8 needs two nodes: 2 and 3. The jobs that were there go to node 1.
    jobs = [job(0, MANY, 5), job(0, MANY), job(0, MANY), job(5, MANY, 8)]
    twin = run([pool(4, 4)], jobs, knobs=SPREAD, targets=equal(4), until_s=10)
    assert [action[1:] for action in actions(twin)[3:]] == [
        ("PREEMPT", 1),
        ("PREEMPT", 2),
        ("START", 3),
        ("START", 1),
        ("START", 2),
    ]
    assert places(twin)[3] == [(2, 0b1111), (3, 0b1111)]
    assert (places(twin)[1], places(twin)[2]) == ([(1, 0b0010)], [(1, 0b0100)])


def test_jobs_as_large_stay() -> None:
    # Two nodes of 3 with a job of 2 each; a third of 2 is chosen but finds 1 device on each.
    jobs = [job(0, MANY, 2), job(0, MANY, 2), job(5, MANY, 2)]
    twin = run([pool(2, 3)], jobs, knobs=SPREAD, targets=equal(3), until_s=10)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1)]


@pytest.mark.parametrize(("budget_w", "moves"), [(1079, False), (1080, True)])
def test_displacing_keeps_the_budget(budget_w: float, moves: bool) -> None:
    # Two nodes of 2 idle at 240 W, two small jobs draw 800 W. The gang of 2 adds 560 W, job 0
    # gives back 280: 1080 W. Then there is no power left for job 0.
    jobs = [job(0, MANY), job(0, MANY), job(5, MANY, 2)]
    twin = run([pool(2, 2)], jobs, knobs=SPREAD, targets=equal(3), budget_w=budget_w, until_s=10)
    assert actions(twin)[2:] == ([(10, "PREEMPT", 0), (10, "START", 2)] if moves else [])
    assert twin.peak_power_w == (1080 if moves else 800)


def test_a_job_beyond_the_budget_waits() -> None:
    # Two nodes idle at 200 W; one job draws 480 W, two 760 W. Both are chosen in every round,
    # and job 0 is never set aside, so job 1 waits for its end.
    jobs = [job(0, 25), job(0, 10)]
    twin = run([pool(2)], jobs, knobs=SHARES, targets=equal(2), budget_w=700)
    assert actions(twin) == [(0, "START", 0), (25, "START", 1)]


# Whatever is drawn -----------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_job_ends_and_what_was_received_is_what_it_held(data: st.DataObject) -> None:
    groups = tuple(data.draw(st.lists(node_groups(), min_size=1, max_size=3)))
    workload = data.draw(workloads(groups))
    knobs = Knobs(
        order=Order.SHARES,
        preempt=Preempt.ROUNDS,
        backfill=data.draw(st.sampled_from((Backfill.SKIP, Backfill.STRICT))),
        place=data.draw(st.sampled_from([place for place in Place if place != Place.HOLD])),
        span=data.draw(st.sampled_from(Span)),
        round_s=data.draw(st.sampled_from((10.0, 30.0, 60.0))),
        solve_s=data.draw(st.sampled_from((0.0, 25.0, 200.0))),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    received_us = np.zeros(len(workload))

    def targets(now_us: int, active: tuple[int, ...]) -> npt.NDArray[np.float64]:
        assert all(twin.jobs[index].status in (Status.PENDING, Status.RUNNING) for index in active)
        bank()
        return rng.choice((0.0, 0.0, 0.25, 0.5, 1.0), (len(workload), len(groups)))

    def bank() -> None:
        """Keep what jobs received since the last time, which is about to be forgotten."""
        for member in twin.jobs:
            received_us[member.index] += sum(share.received_us for share in member.shares)
            if member.status == Status.RUNNING:
                received_us[member.index] += twin.cluster.slice_us(member)

    state = build_state(Cluster("drawn", groups), workload, knobs, data.draw(effects()))
    twin = Reference(state, knobs, targets)
    twin.run()
    bank()
    assert all(ended.final for ended in twin.jobs)
    assert twin.starts == twin.ends + twin.preemptions + sum(ended.failures for ended in twin.jobs)
    assert not any(node.jobs or node.used_milli for node in twin.nodes)
    for ended in twin.jobs:
        held_us = received_us[ended.index] * ended.devices * ended.milli / 1000
        assert ended.service_us == pytest.approx(held_us)
