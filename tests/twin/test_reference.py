"""The oracle against cases worked out on paper: one rule of docs/concept/twin.md each.

At the end, what must hold whatever is drawn: nothing lost, nothing counted twice.

Unless a case says otherwise: a node's host draws 80 W, an idle device 20 W, a busy one 300 W,
so a node of one device draws 100 W idle and 380 W busy; times in the cases are seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.twin.strategies import Problem, problems

from flyball.core import state as dtypes
from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, Span
from flyball.core.state import CAP_LEVELS, State, records
from flyball.core.units import to_us
from flyball.twin.build import build_state
from flyball.twin.reference import Reference
from flyball.twin.reference_decide import key_s

MANY = 1e4
"""Longer than any case looks at."""


def pool(nodes: int = 1, capacity: int = 1, **fields: float) -> dict[str, float]:
    usual = {"memory_mib": 1000, "host_w": 80.0, "idle_w": 20.0, "sleep_w": 5.0}
    return {"nodes": nodes, "capacity": capacity, **usual, **fields}


def job(submit_s: float, work_s: float, devices: int = 1, **fields: Any) -> dict[str, Any]:
    """A job; `rates` is (packed, spread, watts) pool by pool, the estimate is exact if not given.

    `after` lists jobs to wait for; a pool with rate 0 is one it could not run on.
    """
    return {"submit_s": submit_s, "work_s": work_s, "devices": devices, **fields}


def make_state(
    pools: list[dict[str, float]],
    jobs: list[dict[str, Any]],
    outages: list[tuple[float, float, int]] | None = None,
    limits: tuple[int, ...] = (),
    budget_w: float = 0.0,
    checkpoint_every_s: float = 0.0,
) -> State:
    """The parts of an initial state that describe the problem; every job has its own profile."""
    made: dict[str, Any] = {
        "pools": records(len(pools), dtypes.POOL),
        "caps": records(len(pools) * CAP_LEVELS, dtypes.CAP),
        "jobs": records(len(jobs), dtypes.JOB),
        "rates": records(len(jobs) * len(pools), dtypes.RATE),
        "shapes": records(len(jobs), dtypes.SHAPE),
        "groups": records(len(limits), dtypes.GROUP),
        "outages": records(len(outages or ()), dtypes.OUTAGE),
        "clock": records(1, dtypes.CLOCK),
    }
    made["caps"].slowdown = made["caps"].power = 1.0
    made["caps"][CAP_LEVELS - 1 :: CAP_LEVELS] = (1.25, 0.5)  # the cap at half the draw
    first = 0
    for index, spec in enumerate(pools):
        row = made["pools"][index]
        row.first_node = first
        first += int(spec["nodes"])
        row.wake_us = to_us(spec.get("wake_s", 0))
        for name in spec.keys() - {"wake_s"}:
            row[name] = spec[name]
    for index, spec in enumerate(jobs):
        _fill_job(made, index, spec, len(pools))
    links: list[int] = []
    for index in range(len(jobs)):
        after = [j for j, spec in enumerate(jobs) if index in spec.get("after", ())]
        made["jobs"][index].successors, made["jobs"][index].successor_count = len(links), len(after)
        links += after
    for row, (down_s, up_s, node) in zip(made["outages"], outages or (), strict=True):
        row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
    made["groups"].limit = limits
    clock = made["clock"][0]
    clock.start_us, clock.budget_w = made["jobs"].submit_us.min(), budget_w
    clock.checkpoint_every_us = to_us(checkpoint_every_s)
    empty = {name: np.zeros(0) for name in State._fields if name not in made}
    return State(**{**empty, **made, "links": np.array(links, np.int32)})


def _fill_job(made: dict[str, Any], index: int, spec: dict[str, Any], pools: int) -> None:
    row = made["jobs"][index]
    row.submit_us, row.work_us = to_us(spec["submit_s"]), spec["work_s"] * 1e6
    row.estimate_us = spec.get("estimate_s", spec["work_s"]) * 1e6
    row.devices, row.milli = spec["devices"], spec.get("milli", 1000)
    row.reference_us = row.work_us * row.devices
    row.memory_mib, row.group = spec.get("memory_mib", 0), spec.get("group", -1)
    row.priority, row.predecessors = spec.get("priority", 0.0), len(spec.get("after", ()))
    for name in ("limit", "restart", "checkpoint"):
        row[f"{name}_us"] = to_us(spec.get(f"{name}_s", 0))
    row.profile = row.shape_id = index
    for at, rate in enumerate(spec.get("rates", [(1.0, 0.5, 300.0)] * pools)):
        made["rates"][index * pools + at] = (*rate, 0)
        made["shapes"][index].pools |= np.uint64((rate[0] > 0) << at)


def run(pools: list[dict[str, float]], jobs: list[dict[str, Any]], **rest: Any) -> Reference:
    """A whole run, or one until `until_s`; `knobs` are its settings."""
    knobs, until_s = rest.pop("knobs", {}), rest.pop("until_s", None)
    twin = Reference(make_state(pools, jobs, **rest), Knobs(**knobs))
    twin.run(None if until_s is None else to_us(until_s))
    return twin


def starts(twin: Reference) -> dict[int, float]:
    """The first start of every job that started, in seconds."""
    return {j.index: j.first_start_us / 1e6 for j in twin.jobs if j.attempt}


def places(twin: Reference) -> dict[int, list[tuple[int, int]]]:
    """(node, mask) of every job's last start."""
    return {
        index: [(row.node, row.mask) for row in rows]
        for _, kind, index, rows in twin.schedule()
        if kind == ActionKind.START
    }


def actions(twin: Reference) -> list[tuple[float, str, int]]:
    return [(time_us / 1e6, kind.name, index) for time_us, kind, index, _ in twin.schedule()]


# Where -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "third"), [(Place.BEST_FIT, (0, 0b1000)), (Place.SPREAD, (1, 0b100))]
)
def test_node_by_the_place_rule(place: Place, third: tuple[int, int]) -> None:
    # Two nodes of 4. The first takes 3 of node 0 (tie: lowest), the second no longer fits there.
    # Then node 0 has 1 whole free device, node 1 has 2: best fit wants the 1, spread the 2.
    jobs = [job(0, 10, 3), job(0, 10, 2), job(0, 10, 1)]
    twin = run([pool(2, 4)], jobs, knobs={"place": place})
    assert places(twin) == {0: [(0, 0b111)], 1: [(1, 0b11)], 2: [third]}


def test_large_gang_takes_empty_nodes_and_best_fit_for_the_rest() -> None:
    # 6 = one empty node of 4 (node 1, the lowest) and 2 more: node 0 has just 2 left, node 2 four.
    twin = run([pool(3, 4)], [job(0, MANY, 2), job(0, 10, 6)])
    assert places(twin)[1] == [(1, 0b1111), (0, 0b1100)]
    assert twin.jobs[1].nodes == 2
    assert twin.jobs[1].end_us == to_us(10)  # two nodes are the fewest: no penalty


def test_gather_most_free_first_at_the_spread_rate() -> None:
    # Whole free: 1, 1, 2. Three devices: both of node 2, then one of node 0 (tie with node 1).
    # Over two nodes instead of one the rate is 0.5, so 10 s of work take 20 s.
    jobs = [job(0, MANY, 3), job(1, MANY, 3), job(2, MANY, 2), job(3, 10, 3)]
    spread = {"place": Place.SPREAD}
    pools = [pool(3, 4)]
    waits = run(pools, jobs, until_s=100, knobs=spread)
    assert places(waits) == {0: [(0, 7)], 1: [(1, 7)], 2: [(2, 3)]}
    twin = run(pools, jobs, until_s=100, knobs={**spread, "span": Span.ANY})
    assert places(twin)[3] == [(2, 0b1100), (0, 0b1000)]
    assert twin.jobs[3].end_us == to_us(3 + 20)


def test_gathered_on_the_fewest_nodes_is_packed() -> None:
    # 5 devices on nodes of 4 with 3 free each: no empty node, but 3 + 2 is two nodes all the same.
    jobs = [job(0, MANY, 1), job(0, MANY, 1), job(1, 10, 5)]
    twin = run([pool(2, 4)], jobs, until_s=20, knobs={"span": Span.ANY, "place": Place.SPREAD})
    assert places(twin)[2] == [(0, 0b1110), (1, 0b0110)]
    assert twin.jobs[2].end_us == to_us(1 + 10)


def test_fractions_share_the_fullest_device_that_takes_them() -> None:
    jobs = [
        job(0, MANY, milli=500, memory_mib=400),  # nothing open: device 0 of node 0
        job(0, MANY, milli=300, memory_mib=100),  # beside it: 200 milli and 500 MiB are left
        job(0, MANY, milli=300),  # no room there: a whole free device, node 0 has fewest
        job(0, MANY, milli=200, memory_mib=600),  # device 0 has 200 milli but 500 MiB: device 1
        job(0, MANY, milli=200),  # device 0 has 200 free, device 1 has 500: the smaller
        job(0, MANY, 2, milli=100),  # node 0 has one eligible device only: node 1, both
        job(0, MANY, 2, milli=500),  # node 1: its two open devices (900 each)
    ]
    twin = run([pool(2, 2)], jobs, until_s=0)
    assert places(twin) == {
        0: [(0, 1)],
        1: [(0, 1)],
        2: [(0, 2)],
        3: [(0, 2)],
        4: [(0, 1)],
        5: [(1, 3)],
        6: [(1, 3)],
    }
    devices = [(d.free_milli, d.free_mib) for node in twin.nodes for d in node.devices]
    assert devices == [(0, 500), (500, 400), (400, 1000), (400, 1000)]


def test_fractional_gang_takes_the_node_with_least_to_spare() -> None:
    jobs = [
        job(0, MANY, milli=500),  # node 0, device 0
        job(0, MANY, 2, milli=300),  # node 0 too: 500 is open, 1500 in all
        job(0, MANY, 2, milli=600),  # node 0 has 200 and 700: node 1, both whole
        job(0, MANY, 2, milli=200),  # node 0: 200 + 700 = 900; node 1: 400 + 400 = 800
    ]
    twin = run([pool(2, 2)], jobs, until_s=0)
    assert places(twin) == {0: [(0, 1)], 1: [(0, 3)], 2: [(1, 3)], 3: [(1, 3)]}


@pytest.mark.parametrize(
    ("place", "node"), [(Place.BEST_FIT, 1), (Place.PACK, 0), (Place.SPREAD, 0)]
)
def test_pool_by_the_place_rule(place: Place, node: int) -> None:
    # Pool 0: 8 devices, 4 in use; pool 1: 4 devices, 1 in use. For 2 devices:
    # left over 2 against 1; in use 4 against 1; free 4 against 3.
    here, not_here = (1.0, 0.5, 300.0), (0.0, 0.0, 0.0)
    jobs = [
        job(0, MANY, 4, rates=[here, not_here]),
        job(0, MANY, 1, rates=[not_here, here]),
        job(1, 10, 2),
    ]
    twin = run([pool(1, 8), pool(1, 4)], jobs, until_s=1, knobs={"place": place})
    assert places(twin)[2][0][0] == node


@pytest.mark.parametrize(
    ("place", "nodes"), [(Place.BEST_FIT, [1, 2]), (Place.PACK, [0]), (Place.SPREAD, [1, 2])]
)
def test_gang_over_nodes_against_one_node(place: Place, nodes: list[int]) -> None:
    # 4 devices on one node of 8, or on two nodes of 2: the latter counts 0 (pack: a tie),
    # for spread more than any node's free devices.
    twin = run([pool(1, 8), pool(2, 2)], [job(0, 10, 4)], knobs={"place": place})
    assert [node for node, _ in places(twin)[0]] == nodes


def test_fastest_and_efficient() -> None:
    # Pool 0 does 1 at 100 W, pool 1 does 2 at 300 W; hosts of 80 W over 4 devices.
    # Efficient: (100 + 20) / 1 = 120 against (300 + 20) / 2 = 160.
    # With a host of 400 W in pool 0: (100 + 100) / 1 = 200 against 160.
    jobs = [job(0, 10, rates=[(1.0, 1.0, 100.0), (2.0, 2.0, 300.0)])]
    lean, fat = pool(1, 4), pool(1, 4, host_w=400.0)
    assert places(run([lean, lean], jobs, knobs={"place": Place.FASTEST}))[0][0][0] == 1
    assert places(run([lean, lean], jobs, knobs={"place": Place.EFFICIENT}))[0][0][0] == 0
    assert places(run([fat, lean], jobs, knobs={"place": Place.EFFICIENT}))[0][0][0] == 1


@pytest.mark.parametrize(("hold_s", "start_s", "node"), [(60, 0, 0), (50, 0, 0), (40, 80, 1)])
def test_hold_waits_for_the_pool_that_is_worth_it(hold_s: float, start_s: float, node: int) -> None:
    # 100 s of work: 100 s in pool 0, 50 s in pool 1, which is busy until 80.
    fast_only = [(0.0, 0.0, 0.0), (2.0, 2.0, 300.0)]
    jobs = [job(0, 160, rates=fast_only), job(0, 100, rates=[(1.0, 1.0, 300.0), fast_only[1]])]
    twin = run([pool(), pool()], jobs, knobs={"place": Place.HOLD, "hold_s": hold_s})
    assert starts(twin) == {0: 0, 1: start_s}
    assert places(twin)[1] == [(node, 1)]


def test_hold_scans_to_its_depth() -> None:
    # The second waits for the fast pool until 10; the third would fit pool 0 at once, but only the
    # first in the queue is looked at: at 2 and at 10 that is the second, at 20 the third itself.
    fast, both = [(0.0, 0.0, 0.0), (2.0, 2.0, 300.0)], [(1.0, 1.0, 300.0)] * 2
    jobs = [job(0, 20, rates=fast), job(1, 20, rates=fast), job(2, 10, rates=both)]
    hold = {"place": Place.HOLD}
    assert starts(run([pool(), pool()], jobs, knobs=hold))[2] == 2
    assert starts(run([pool(), pool()], jobs, knobs={**hold, "depth": 1}))[2] == 20


# Who -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backfill", "last_s", "expected"),
    [
        (Backfill.STRICT, 10, {0: 0, 1: 10, 2: 10}),  # nobody passes the second
        (Backfill.SKIP, 20, {0: 0, 1: 10, 2: 0}),  # the third fits beside the first
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
        return tuple(key_s(twin.cluster, each) for each in twin.jobs)

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
    assert [each.status.name for each in twin.jobs] == ["RUNNING", "HELD", "HELD", "RUNNING"]
    twin.run()
    assert starts(twin) == {0: 0, 1: 20, 2: 10, 3: 0}


def test_successors_are_told_before_the_array_admits() -> None:
    # At 10 the successor of job 0 gets in line behind job 2; the array had no other room.
    array = {"group": 0}
    jobs = [job(0, 10, **array), job(0, 10, after=[0], **array), job(0, 10, **array)]
    assert starts(run([pool(1, 4)], jobs, limits=(1,))) == {0: 0, 1: 20, 2: 10}
    alone = run([pool(1, 4)], jobs[:2], limits=(1,))
    assert starts(alone) == {0: 0, 1: 10}


def test_array_limit_counts_pending_tasks() -> None:
    # One device, two tasks at a time: the second is admitted and waits, the third is held.
    twin = run([pool()], [job(0, 10, group=0) for _ in range(3)], limits=(2,), until_s=0)
    assert [each.status.name for each in twin.jobs] == ["RUNNING", "PENDING", "HELD"]


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
    whole = run([pool(2, 4)], jobs)
    steps = run([pool(2, 4)], jobs, until_s=0)
    for second in range(1, 200):
        steps.run(to_us(second))
    assert steps.schedule() == whole.schedule()
    assert steps.mark(whole.now_us) == whole.mark()


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
    whole = finished(problem)
    state = build_state(problem.cluster, problem.workload, problem.knobs, problem.effects)
    steps = Reference(state, problem.knobs)
    for share in (0.1, 0.5, 0.7):
        until_us = whole.cluster.start_us + int(share * (whole.now_us - whole.cluster.start_us))
        steps.run(until_us)
        steps.mark(until_us)
    steps.run()
    assert steps.schedule() == whole.schedule()
    assert steps.mark() == whole.mark()


@settings(max_examples=50, deadline=None)
@given(problems())
def test_jobs_wait_for_their_predecessors(problem: Problem) -> None:
    twin = finished(problem)
    first: dict[int, int] = {}
    for time_us, kind, job, rows in twin.schedule():
        if kind == ActionKind.START:
            first.setdefault(job, time_us)
            width = sum(row.mask.bit_count() for row in rows)
            assert width == twin.jobs[job].devices
    pairs = zip(problem.workload.after_job, problem.workload.after_on, strict=True)
    assert all(first[late] >= twin.jobs[early].end_us for late, early in pairs)
