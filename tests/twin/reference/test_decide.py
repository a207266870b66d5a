"""The reference decides which jobs start and when as documented: cases worked out by hand."""

from __future__ import annotations

import pytest
from tests.twin.reference.cases import (
    MANY,
    actions,
    job,
    places,
    pool,
    run,
    starts,
)

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Order, Place
from flyball.core.units import to_us
from flyball.twin.reference.decide import key_s

# Which job starts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backfill", "last_s", "expected"),
    [
        (Backfill.STRICT, 10, {0: 0, 1: 10, 2: 10}),  # no job passes the second
        (Backfill.SKIP, 20, {0: 0, 1: 10, 2: 0}),  # the third fits next to the first
        (Backfill.EASY, 10, {0: 0, 1: 10, 2: 0}),  # ends at 10, when the head is due: no delay
        (Backfill.EASY, 11, {0: 0, 1: 10, 2: 10}),  # would end at 11
    ],
)
def test_behind_a_blocked_head(
    backfill: Backfill, last_s: float, expected: dict[int, float]
) -> None:
    jobs = [job(0, 10, 3), job(0, 10, 2), job(0, last_s, 1)]
    assert starts(run([pool(1, 4)], jobs, knobs={"backfill": backfill})) == expected


def test_easy_goes_around_the_reserved_node() -> None:
    # Node 0 is free at 10, node 1 at 20: the head's 4 devices are node 0 at 10. One device of
    # node 1 is free, for as long as it likes; a gang of 2 is not so lucky.
    jobs = [job(0, 10, 4), job(0, 20, 3), job(0, 5, 4), job(0, MANY, 2), job(0, MANY, 1)]
    twin = run([pool(2, 4)], jobs, until_s=0, knobs={"backfill": Backfill.EASY})
    assert starts(twin) == {0: 0, 1: 0, 4: 0}
    held = twin.cluster.reservation
    assert held is not None
    assert (held.job, held.pool, held.nodes, held.instant_us) == (2, 0, frozenset({0}), to_us(10))


def test_easy_scans_to_its_depth() -> None:
    # The head is the first of `depth` jobs, so with 2 only the next one is looked at.
    jobs = [job(0, 10, 3), job(0, 10, 4), job(0, 10, 2), job(0, 10, 1)]
    easy = {"backfill": Backfill.EASY}
    assert starts(run([pool(1, 4)], jobs, until_s=0, knobs={**easy, "depth": 3})) == {0: 0, 3: 0}
    assert starts(run([pool(1, 4)], jobs, until_s=0, knobs={**easy, "depth": 2})) == {0: 0}


def test_reservation_of_a_gang_over_nodes() -> None:
    # Nodes of 2 with jobs until 10, 30, 20: three devices need two empty nodes: 0 and 2, at 20.
    jobs = [job(0, 10, 2), job(0, 30, 1), job(0, 20, 2), job(0, 5, 3), job(0, 25, 1)]
    knobs = {"backfill": Backfill.EASY, "place": Place.SPREAD}
    twin = run([pool(3, 2)], jobs, until_s=0, knobs=knobs)
    held = twin.cluster.reservation
    assert held is not None
    assert (held.nodes, held.instant_us) == (frozenset({0, 2}), to_us(20))
    assert places(twin)[4] == [(1, 0b10)]


def test_reservation_is_kept_until_it_has_passed() -> None:
    # Job 0 was to take 10 and takes 30; the head waits for node 0. An arrival at 5 changes
    # nothing. At 12 the instant is past: job 0 is now expected at 20, as is job 1: node 0 again.
    # At 20 job 1 ends and the head starts on node 1.
    jobs = [
        job(0, 30, 4, estimate_s=10),
        job(0, 20, 4),
        *(job(at, 10, 4) for at in (0, 5, 12)),
    ]
    twin = run([pool(2, 4)], jobs, until_s=0, knobs={"backfill": Backfill.EASY})
    first = twin.cluster.reservation
    assert first is not None
    assert (first.nodes, first.instant_us) == (frozenset({0}), to_us(10))
    twin.run(to_us(5))
    assert twin.cluster.reservation is first
    twin.run(to_us(12))
    second = twin.cluster.reservation
    assert second is not None
    assert (second.nodes, second.instant_us) == (frozenset({0}), to_us(20))
    twin.run()
    assert places(twin)[2] == [(1, 0b1111)]
    assert twin.cluster.reservation is None  # dropped when everything started


def test_nothing_is_reserved_when_the_nodes_are_down() -> None:
    # The head needs both nodes and one is down until 50: others go ahead as if there were no head.
    jobs = [job(1, 10, 2), job(1, 100, 1)]
    easy = {"backfill": Backfill.EASY}
    twin = run([pool(2)], [job(0, 1), *jobs], outages=[(0, 50, 1)], until_s=1, knobs=easy)
    assert starts(twin) == {0: 0, 2: 1}
    twin.run()
    assert starts(twin)[1] == 101


def test_keys() -> None:
    # At 25 job 0 has done 25 of 40 against an estimate of 20, so policies take it for 40.
    # Its service is 2 devices x 25 s = 50 device-seconds.
    jobs = [job(0, 40, 2, estimate_s=20, priority=1.0), job(5, 30, 2, milli=500)]

    def keys(order: Order, **settings: float) -> tuple[float, ...]:
        knobs = {"order": order, "priority_s": 100.0, **settings}
        twin = run([pool(1, 2)], jobs, knobs=knobs, until_s=5)
        twin.cluster.now_us = to_us(25)
        return tuple(key_s(twin.cluster, queued) for queued in twin.jobs)

    assert keys(Order.SUBMIT) == (0 - 100, 5)
    assert keys(Order.SUBMIT, ageing=2.0) == (0 - 100, 5 + 2 * 5)
    assert keys(Order.SHORTEST) == (20 - 100, 30)  # done: what was saved when the slice began, 0
    assert keys(Order.AREA) == (20 * 2 - 100, 30)
    assert keys(Order.REMAINING) == (15 - 100, 30)
    assert keys(Order.ATTAINED, attained_s=50.0) == (1e10 - 100, 5)
    assert keys(Order.ATTAINED, attained_s=50.1) == (-100, 5)


# When ------------------------------------------------------------------------


def test_predecessors_then_the_gate_of_the_array() -> None:
    # An array of three, one at a time. Job 1 must wait for job 3 until 5, by which time job 2
    # already waits for its turn.
    array = {"group": 0}
    jobs = [job(0, 10, **array), job(0, 10, after=[3], **array), job(0, 10, **array), job(0, 5)]
    twin = run([pool(1, 4)], jobs, limits=(1,), until_s=0)
    assert [task.status.name for task in twin.jobs] == ["RUNNING", "HELD", "HELD", "RUNNING"]
    twin.run()
    assert starts(twin) == {0: 0, 1: 20, 2: 10, 3: 0}


def test_successors_are_released_before_the_array_admits() -> None:
    # At 10 the successor of job 0 gets in line behind job 2; the array had no other room.
    array = {"group": 0}
    jobs = [job(0, 10, **array), job(0, 10, after=[0], **array), job(0, 10, **array)]
    assert starts(run([pool(1, 4)], jobs, limits=(1,))) == {0: 0, 1: 20, 2: 10}
    alone = run([pool(1, 4)], jobs[:2], limits=(1,))
    assert starts(alone) == {0: 0, 1: 10}


def test_array_limit_counts_pending_tasks() -> None:
    # One device, two tasks at a time: the second is admitted and waits, the third is held.
    twin = run([pool()], [job(0, 10, group=0) for _ in range(3)], limits=(2,), until_s=0)
    assert [task.status.name for task in twin.jobs] == ["RUNNING", "PENDING", "HELD"]


def test_limit_kills_and_successors_go_on() -> None:
    # 10 s of work at rate 2, but 4 s are all it gets; the other limit is its natural end.
    fast = [(2.0, 1.0, 300.0)]
    jobs = [job(0, 10, limit_s=4, rates=fast), job(0, 10, limit_s=5, rates=fast, after=[0])]
    twin = run([pool()], jobs)
    first, second = twin.jobs
    assert (first.status, first.end_us, first.done_us) == (Status.TIMEOUT, to_us(4), 8e6)
    assert (second.status, second.end_us, second.done_us) == (Status.DONE, to_us(9), 10e6)


def test_a_run_of_no_time_ends_in_a_new_pass() -> None:
    # Both at 0: start, (pass) end and start, (pass) end. Three decisions.
    jobs = [job(0, 0, estimate_s=1e-6), job(0, 0, estimate_s=1e-6)]
    twin = run([pool()], jobs)
    assert actions(twin) == [(0, "START", 0), (0, "START", 1)]
    assert (twin.decisions, twin.now_us, twin.ends) == (3, 0, 2)


def test_the_end_is_rounded_up() -> None:
    # 1 microsecond of work at rate 3 is a third of one: ends after 1.
    twin = run([pool()], [job(0, 1e-6, rates=[(3.0, 1.0, 300.0)])])
    assert twin.jobs[0].end_us == 1


def test_run_can_go_on() -> None:
    jobs = [job(3 * i, 10 + i, 1 + i % 4) for i in range(12)]
    at_once = run([pool(2, 4)], jobs)
    steps = run([pool(2, 4)], jobs, until_s=0)
    for second in range(1, 200):
        steps.run(to_us(second))
    assert steps.schedule() == at_once.schedule()
    assert steps.mark(at_once.now_us) == at_once.mark()
