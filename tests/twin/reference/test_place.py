"""The reference places jobs as documented: cases worked out by hand."""

from __future__ import annotations

import pytest
from tests.twin.reference.cases import (
    MANY,
    job,
    places,
    pool,
    run,
    starts,
)

from flyball.core.knobs import Place, Span
from flyball.core.units import to_us

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
        job(0, MANY, milli=300, memory_mib=100),  # next to it: 200 milli and 500 MiB are left
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
