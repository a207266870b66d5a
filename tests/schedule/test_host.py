"""Host cores and memory, worked out by hand: which jobs wait, start or are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.twin.twin_cases import ends, make, run, starts

from flyball.core.cluster import NodeGroup
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Preempt, Span
from flyball.twin.twin import Twin

pytestmark = pytest.mark.nojit

GIB = 1024
HOST = (16_000, 64 * GIB)
"""Cores in thousandths and MiB of each node here."""


def hosts(nodes: int = 1, devices: int = 4) -> list[NodeGroup]:
    return [NodeGroup("n", nodes, "V100", devices, cpus=16, memory_gib=64.0)]


def free(twin: Twin) -> list[tuple[int, int]]:
    nodes = twin.state.nodes
    return list(zip(nodes.free_cpu_milli.tolist(), nodes.free_host_mib.tolist(), strict=True))


def begun(until_s: float, *args: Any, **rest: Any) -> Twin:
    """A twin that ran up to an instant."""
    twin = make(*args, **rest)
    twin.run(round(until_s * 1e6))
    return twin


def test_a_job_waits_for_cores_though_devices_are_free() -> None:
    # 10 of 16 cores are taken; the second asks for 8, the third for the 6 that are left.
    twin = run(hosts(), [0, 1, 2], [100, 10, 10], cpu_milli=[10_000, 8_000, 6_000])
    assert starts(twin) == [0, 100, 2]
    assert ends(twin) == [100, 110, 12]


def test_a_job_waits_for_memory_though_cores_are_free() -> None:
    twin = run(hosts(), [0, 1], [100, 10], cpu_milli=1_000, host_mib=[40 * GIB, 25 * GIB])
    assert starts(twin) == [0, 100]


def test_what_was_taken_comes_back() -> None:
    jobs: dict[str, Any] = {"cpu_milli": [10_000, 4_000], "host_mib": [40 * GIB, 8 * GIB]}
    assert free(begun(5, hosts(), [0, 1], [10, 20], **jobs)) == [(2_000, 16 * GIB)]
    assert free(begun(15, hosts(), [0, 1], [10, 20], **jobs)) == [(12_000, 56 * GIB)]
    assert free(run(hosts(), [0, 1], [10, 20], **jobs)) == [HOST]


def test_jobs_that_state_nothing_take_nothing() -> None:
    twin = begun(5, hosts(), [0, 1], [10, 10], [2, 1], cpu_milli=[16_000, 0])
    assert starts(twin) == [0, 1]
    assert free(twin) == [(0, 64 * GIB)]


def test_a_fraction_needs_room_on_the_host_too() -> None:
    # The second would share the open device of node 0, but only node 1 has the cores.
    twin = begun(5, hosts(2), [0, 1], [10, 10], milli=500, cpu_milli=[12_000, 5_000])
    assert free(twin) == [(4_000, 64 * GIB), (11_000, 64 * GIB)]


def test_a_gang_takes_its_share_of_each_node() -> None:
    # 6 devices on nodes of 4: 4 and 2. Of 10,001 that is 6,667.3 and 3,333.7, rounded up.
    twin = begun(5, hosts(2), [0], [10], 6, cpu_milli=10_001, host_mib=6 * GIB)
    assert free(twin) == [(16_000 - 6_668, 60 * GIB), (16_000 - 3_334, 62 * GIB)]


def test_a_gang_waits_until_every_one_of_its_nodes_has_the_host() -> None:
    # The first is for the host alone and leaves 6 cores on node 0: the gang needs 8 on each.
    twin = run(hosts(2), [0, 1], [100, 10], [0, 8], cpu_milli=[10_000, 16_000])
    assert starts(twin) == [0, 100]


def test_a_gathered_gang_takes_from_a_node_what_its_host_can_carry() -> None:
    # Each node has 3 devices left, node 0 with 6 cores and node 1 with 9. The gang takes 3 cores a
    # device: node 0 comes first and carries 2 of them, so node 1 gives 2.
    twin = begun(
        5,
        hosts(2),
        *([0, 1, 2, 3], [100, 100, 100, 100], [1, 0, 1, 4]),
        cpu_milli=[0, 10_000, 7_000, 12_000],
        knobs=Knobs(span=Span.ANY),
    )
    assert starts(twin) == [0, 1, 2, 3]
    assert free(twin) == [(0, 64 * GIB), (3_000, 64 * GIB)]
    assert twin.state.nodes.used_milli.tolist() == [3_000, 3_000]


def test_a_job_without_devices_runs_on_the_fullest_host_with_room() -> None:
    # Node 0 has fewer free devices and room for 6 cores, not for 8.
    twin = begun(5, hosts(2), [0, 1, 2], [10, 10, 10], [2, 0, 0], cpu_milli=[10_000, 6_000, 8_000])
    assert starts(twin) == [0, 1, 2]
    assert free(twin) == [(0, 64 * GIB), (8_000, 64 * GIB)]
    assert twin.state.nodes.used_milli.tolist() == [2_000, 0]


def test_a_job_without_devices_draws_nothing_and_ends() -> None:
    alone = run(hosts(), [0], [10], 0, cpu_milli=4_000)
    assert ends(alone) == [10]
    assert alone.state.runs.energy_j.tolist() == [0.0]
    assert alone.state.runs.service_us.tolist() == [0.0]


def test_a_reservation_waits_for_the_host() -> None:
    # The head needs 12 cores, free at 100. A job of 50 s with the last 6 delays no other, one
    # of 200 s would be: it waits though devices and cores are there.
    twin = run(
        hosts(),
        *([0, 1, 2, 3], [100, 10, 200, 50]),
        cpu_milli=[10_000, 12_000, 6_000, 6_000],
        knobs=Knobs(backfill=Backfill.EASY),
    )
    assert starts(twin) == [0, 100, 110, 3]


def test_a_victim_gives_its_host_back() -> None:
    # Two devices are free: what the short job takes from the long one, in the first round that
    # finds it ready for long enough, are its cores.
    knobs = Knobs(order=Order.SHORTEST, preempt=Preempt.ROUNDS, round_s=60.0)
    twin = run(hosts(), [0, 1], [10_000, 50], [2, 2], cpu_milli=[10_000, 8_000], knobs=knobs)
    assert starts(twin) == [0, 60]
    assert twin.state.runs.preemptions.tolist() == [1, 0]
    assert free(twin) == [HOST]


@pytest.mark.parametrize(
    ("devices", "demand", "message"),
    [
        (1, {"cpu_milli": 17_000}, "needs 17 cores and 0 GiB of a node's host, and the largest"),
        (0, {"host_mib": 65 * GIB}, "needs 0 cores and 65 GiB of a node's host, and the largest"),
        # 8 devices are two nodes of 4, each with half of it.
        (8, {"cpu_milli": 33_000}, "needs 16.5 cores and 0 GiB of a node's host, and the largest"),
    ],
)
def test_a_job_no_host_could_hold_is_refused_with_numbers(
    devices: int, demand: dict[str, int], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        run(hosts(2), [0], [10], devices, **demand)
    assert message in str(caught.value)
    assert "hosts have 16 cores and 64 GiB" in str(caught.value)


def test_a_gang_that_fits_by_shares_is_not_refused() -> None:
    assert ends(run(hosts(2), [0], [10], 8, cpu_milli=32_000))[0] >= 10


def test_a_job_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="asks for 0 devices, 0 cores and 0 GiB of a host"):
        run(hosts(), [0], [10], 0)
