"""place = fgd and place = random: choices worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.twin.twin_cases import group, make

from flyball.core.cluster import NodeGroup
from flyball.core.knobs import Knobs, Place
from flyball.core.workload import Mix
from flyball.schedule.place_fgd import level_of
from flyball.twin.twin import Twin

pytestmark = pytest.mark.nojit

LONG_S = 1e6


def mix(*kinds: tuple[int, int, int], cpu_milli: int = 0) -> Mix:
    """Usual jobs: (devices, milli, how many), each with the same demand on hosts."""
    devices, milli, count = (np.array(column, np.int64) for column in zip(*kinds, strict=True))
    return Mix(devices, milli, np.full_like(devices, cpu_milli), np.zeros_like(devices), count)


def placed(groups: list[NodeGroup], place: Place, milli: list[int], **columns: Any) -> Twin:
    """Jobs that arrive second by second and stay, after the last arrival."""
    count, devices = len(milli), columns.pop("devices", 1)
    submit_s = [float(at) for at in range(count)]
    twin = make(
        groups,
        submit_s,
        [LONG_S] * count,
        devices,
        milli=milli,
        knobs=Knobs(place=place),
        **columns,
    )
    twin.run(count * 1_000_000)
    assert int(twin.state.clock[0].starts) == count
    return twin


def free_milli(twin: Twin) -> list[list[int]]:
    """What is free on each device, node by node; the record of a whole free device says nothing."""
    capacity = int(twin.state.pools[0].capacity)
    begun = twin.state.devices.free_milli.reshape(-1, capacity).tolist()
    return [
        [1000 if int(mask) >> at & 1 else left for at, left in enumerate(row)]
        for mask, row in zip(twin.state.nodes.free_mask, begun, strict=True)
    ]


def test_a_fraction_goes_where_it_leaves_no_useless_remainder() -> None:
    # The usual job takes 300. 500 goes to node 0. 300 would leave 200 there, which is of no use,
    # and leaves 700 on node 1. 400 would leave 100 on node 0 and leaves 300 on node 1.
    milli, usual = [500, 300, 400], mix((1, 300, 10))
    assert free_milli(placed([group(2)], Place.FGD, milli, mix=usual)) == [[500], [300]]
    assert free_milli(placed([group(2)], Place.BEST_FIT, milli, mix=usual)) == [[200], [600]]


def test_the_same_choice_between_devices_of_a_node() -> None:
    usual = mix((1, 300, 10))
    assert free_milli(placed([group(1, 2)], Place.FGD, [500, 300, 400], mix=usual)) == [[500, 300]]
    # One more of 300 fills device 1; on device 0 it would leave 200.
    more = placed([group(1, 2)], Place.FGD, [500, 300, 400, 300], mix=usual)
    assert free_milli(more) == [[500, 0]]


def test_a_remainder_of_no_use_is_filled_first() -> None:
    # The usual job takes a whole device: once one is begun, the rest of it is of no use.
    usual = mix((1, 1000, 10))
    assert free_milli(placed([group(2)], Place.FGD, [600, 300], mix=usual)) == [[100], [1000]]


def test_equal_levels_go_to_the_node_with_least_to_spare() -> None:
    # A remainder of 400 or more is of use to jobs of 100: no choice adds anything.
    usual = mix((1, 100, 10))
    assert free_milli(placed([group(3)], Place.FGD, [500, 100], mix=usual)) == [
        *([400], [1000], [1000])
    ]


def test_cores_are_taken_where_they_strand_no_device() -> None:
    # The usual job needs a device and 8 cores. Node 0 has no device left to strand.
    groups = [NodeGroup("n", 2, "V100", 1, cpus=16, memory_gib=64.0)]
    jobs: dict[str, Any] = {"devices": [1, 0], "cpu_milli": [0, 10_000]}
    usual = mix((1, 1000, 10), cpu_milli=8_000)
    twin = placed(groups, Place.FGD, [1000, 1000], mix=usual, **jobs)
    assert twin.state.nodes.free_cpu_milli.tolist() == [6_000, 16_000]
    spread = placed(groups, Place.SPREAD, [1000, 1000], mix=usual, **jobs)
    assert spread.state.nodes.free_cpu_milli.tolist() == [16_000, 6_000]


def test_usual_jobs_are_the_most_popular_kinds() -> None:
    # 90 and 6 of 100 are more than 95 %; the kinds come in order of their share of a device.
    usual = mix((1, 1000, 90), (2, 500, 6), (1, 200, 4), (0, 1000, 500))
    kinds = placed([group()], Place.FGD, [100], mix=usual).state.usual
    assert kinds.milli.tolist() == [500, 1000]
    assert kinds["count"].tolist() == [6, 90]
    assert kinds.covered.tolist() == [6, 96]


def test_without_a_mix_the_usual_jobs_are_those_of_the_workload() -> None:
    kinds = placed([group(4)], Place.FGD, [500, 300, 500]).state.usual
    assert kinds.milli.tolist() == [300, 500]
    assert kinds["count"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("growth", "level"),
    [
        (0, 49),  # 100 / (1 + 1) = 50 passes 50 borders of 99
        (2_000, 54),  # 0.2 devices for each of 10 jobs: 100 / (1 + e^0.2) = 45.02
        (-2_000, 45),  # 54.98
        (100_000, 99),
        (-100_000, 0),
    ],
)
def test_an_increase_has_a_level(growth: int, level: int) -> None:
    usual = placed([group()], Place.FGD, [100], mix=mix((1, 300, 10))).state.usual
    plain = getattr(level_of, "py_func", level_of)  # only compiled code may call the compiled one
    assert plain(usual, growth) == level


# Random ----------------------------------------------------------------------


def mixed(value: int) -> int:
    for _ in range(2):
        value &= 2**32 - 1
        value = (value ^ value >> 16) * 0x45D9F3B % 2**32
    return value ^ value >> 16


def test_random_takes_the_lowest_number_among_the_nodes_with_room() -> None:
    nodes = 8
    twin = make([group(nodes)], [0.0] * nodes, [LONG_S] * nodes, knobs=Knobs(place=Place.RANDOM))
    twin.run(0)
    expected, left = [], set(range(nodes))
    for start in range(nodes):
        expected.append(min(left, key=lambda node: mixed(mixed(start) + node)))
        left.remove(expected[-1])
    rows = twin.state.rows
    got = {int(row.job): at for at, first in _rows(twin) for row in [rows[first]]}
    assert [got[job] for job in range(nodes)] == expected
    assert expected != sorted(expected)


def _rows(twin: Twin) -> list[tuple[int, int]]:
    """Each node with its only row."""
    return list(enumerate(twin.state.nodes.first_row.tolist()))


def test_random_is_the_same_in_two_runs_and_spreads() -> None:
    milli = [500] * 100
    one, again = (placed([group(50, 4)], Place.RANDOM, milli) for _ in range(2))
    assert free_milli(one) == free_milli(again)
    used = one.state.nodes.used_milli
    assert (used > 0).sum() > 35  # of 50 with two jobs each on average; best-fit uses 13
    packed = placed([group(50, 4)], Place.BEST_FIT, milli).state.nodes.used_milli
    assert (packed > 0).sum() == 13
    # Its devices are drawn as well: not only the first of each node.
    in_use = np.array(free_milli(one)) < 1000
    assert in_use.any(axis=0).all()
