"""Host cores and host memory as limits: worked by hand, each rule of the page on the twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.twin.twin_cases import ends, make, run, starts

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Preempt, Span
from flyball.core.metrics import summarise, waits_s
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.reference.run import Reference
from flyball.twin.twin import BadPlan, Twin

pytestmark = pytest.mark.nojit


def hosts(nodes: int = 1, devices: int = 2, cpus: int = 8, memory_gib: float = 16.0) -> NodeGroup:
    return NodeGroup("n", nodes, "V100", devices, cpus=cpus, memory_gib=memory_gib)


def rows(twin: Twin, job: int) -> list[tuple[int, int]]:
    """(node, mask) of a running job, in the order of its rows."""
    rows, at = [], int(twin.state.runs[job].first_row)
    while at >= 0:
        row = twin.state.rows[at]
        rows.append((int(row.node), int(row.mask)))
        at = int(row.next)
    return rows


def free(twin: Twin) -> list[tuple[int, int]]:
    nodes = twin.state.nodes
    return list(zip(nodes.free_cpu_milli.tolist(), nodes.free_host_mib.tolist(), strict=True))


def test_a_job_waits_for_cores_and_another_for_memory() -> None:
    twin = run(
        [hosts(devices=4)], [0, 0, 0, 0], [100, 50, 10, 30],
        cpu_milli=[6000, 3000, 2000, 0], host_mib=[1024, 0, 0, 15 * 1024 + 1],
    )  # fmt: skip
    # Devices are free throughout. 8 - 6 cores leave room for the third job, not for the second;
    # the fourth wants a MiB more than the first one left.
    assert starts(twin) == [0, 100, 0, 100]
    assert free(twin) == [(8000, 16 * 1024)]


def test_jobs_that_state_nothing_ask_nothing() -> None:
    assert starts(run([hosts(devices=2, cpus=0, memory_gib=0.0)], [0, 0], [10, 10])) == [0, 0]


def test_a_gang_takes_its_share_on_each_node_rounded_up() -> None:
    gang: dict[str, Any] = {"cpu_milli": 10_000, "host_mib": 100}
    twin = make([hosts(2, 2, 10)], [0], [50], 3, **gang)
    twin.run(0)
    # Two devices on node 0: ceil(2/3 of 10,000) and ceil(2/3 of 100); one on node 1.
    assert rows(twin, 0) == [(0, 0b11), (1, 0b1)]
    assert free(twin) == [(10_000 - 6667, 16 * 1024 - 67), (10_000 - 3334, 16 * 1024 - 34)]
    twin.run()
    assert free(twin) == [(10_000, 16 * 1024)] * 2


def test_an_empty_node_with_a_busy_host_gives_the_remainder() -> None:
    # The first job takes 5 of node 0's 8 cores and no device. A gang of 3 wants 3 cores with
    # each: node 0 can carry one device, node 1 two.
    twin = make([hosts(2)], [0, 0], [90, 50], [0, 3], cpu_milli=[5000, 9000])
    twin.run(0)
    assert rows(twin, 0) == [(0, 0)]
    assert rows(twin, 1) == [(1, 0b11), (0, 0b1)]
    assert free(twin)[0][0] == 0
    # With a core less on node 0 there is room nowhere.
    assert starts(run([hosts(2)], [0, 0], [90, 50], [0, 3], cpu_milli=[5001, 9000])) == [0, 90]


def test_gathering_takes_what_each_host_can_carry() -> None:
    columns: dict[str, Any] = {"cpu_milli": [5000, 4000, 6000]}
    jobs: tuple[Any, ...] = ([hosts(2)], [0, 0, 0], [90, 70, 50], [0, 0, 2])
    twin = make(*jobs, **columns, knobs=Knobs(span=Span.ANY))
    twin.run(0)
    assert rows(twin, 2) == [(0, 0b1), (1, 0b1)]
    assert free(twin) == [(0, 16 * 1024), (1000, 16 * 1024)]
    assert starts(run(*jobs, **columns)) == [0, 0, 70]


def test_fractions_respect_the_host_on_open_and_on_whole_devices() -> None:
    twin = run([hosts(1, 2, 4)], [0, 0, 0], [100, 60, 10], milli=500, cpu_milli=[1000, 3000, 1000])
    assert starts(twin) == [0, 0, 60]


def test_a_reservation_waits_for_the_host() -> None:
    twin = run(
        [hosts(1, 2, 4)], [0, 0, 0, 0], [100, 50, 200, 80],
        cpu_milli=[3000, 2000, 1000, 1000], knobs=Knobs(backfill=Backfill.EASY),
    )  # fmt: skip
    # The second is expected at 100 s, when the first gives its cores back. Until then the node
    # takes jobs that end by then: the fourth, not the third.
    assert starts(twin) == [0, 100, 100, 0]


def test_a_reservation_for_a_job_without_devices() -> None:
    jobs: tuple[Any, ...] = ([hosts(1, 2, 4)], [0, 0, 0], [100, 50, 200], [1, 0, 1])
    twin = run(*jobs, cpu_milli=[3000, 2000, 1000], knobs=Knobs(backfill=Backfill.EASY))
    assert starts(twin) == [0, 100, 100]


def test_a_gang_is_reserved_nodes_that_can_carry_a_full_share() -> None:
    # Both nodes have their devices free; node 0's host is busy until 100 s.
    twin = run(
        [hosts(2)], [0, 1, 2], [100, 50, 150], [0, 4, 1],
        cpu_milli=[6000, 12_000, 0], knobs=Knobs(backfill=Backfill.EASY),
    )  # fmt: skip
    assert starts(twin) == [0, 100, 150]


def test_preemption_makes_room_on_a_host() -> None:
    rounds = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=60.0, margin_s=0.0)
    twin = make([hosts(1, 2, 4)], [0, 10], [1000, 20], cpu_milli=[4000, 2000], knobs=rounds)
    twin.run(60_000_000)
    assert starts(twin) == [0, 60]
    assert twin.state.runs.preemptions.tolist() == [1, 0]
    assert free(twin) == [(2000, 16 * 1024)]
    # A gang larger than a node: the job on node 1's host must give way, though no device is taken.
    twin = make(
        [hosts(2)], [0, 10], [1000, 20], [0, 4], cpu_milli=[6000, 12_000], knobs=rounds
    )  # fmt: skip
    twin.run(60_000_000)
    assert starts(twin) == [0, 60]
    assert rows(twin, 1) == [(0, 0b11), (1, 0b11)]


def test_a_failure_gives_the_host_back() -> None:
    twin = make(
        [hosts(1, 1)], [0], [100], cpu_milli=8000, outages=[(10, 30, 0)],
        effects=Effects(restart_s=(0.0, 0.0, 0.0)),
    )  # fmt: skip
    twin.run(10_000_000)
    assert free(twin) == [(8000, 16 * 1024)]
    twin.run()
    assert ends(twin) == [130]


def test_a_job_on_the_host_alone_keeps_the_node_awake_and_draws_nothing() -> None:
    twin = make([hosts()], [0], [100], 0, cpu_milli=1000, knobs=Knobs(sleep_s=5.0))
    twin.run(0)
    node = twin.state.nodes[0]
    assert node.idle_since_us == -1
    assert node.used_milli == 0
    results = twin.replay()
    assert twin.state.nodes[0].idle_since_us == 100_000_000
    assert results.node_asleep_us.tolist() == [0]
    assert results.energy_j.tolist() == [0]
    # Host, two idle devices: nothing else for 100 s.
    pool = twin.state.pools[0]
    assert results.node_energy_j[0] == pytest.approx(100 * (pool.host_w + 2 * pool.idle_w))


def test_metrics_of_jobs_for_the_host_alone() -> None:
    results = make(
        [hosts()], [0, 0, 5], [100, 30, 10], [0, 1, 0], cpu_milli=[6000, 0, 4000]
    ).replay()
    assert waits_s(results).tolist() == [0, 0, 95]
    summary = summarise(results)
    assert summary.wait_s.mean == pytest.approx(95 / 3)
    assert summary.completion_s.mean == pytest.approx((100 + 30 + 105) / 3)


@pytest.mark.parametrize("policy", ["fifo", "easy", "srtf", "ect", "fgd"])
def test_compiled_and_plain_agree_on_jobs_for_the_host_alone(policy: str) -> None:
    knobs = get_policy(policy).knobs
    twin = make(
        [hosts(2), hosts(1, 4, 6)], [0, 0, 1, 1, 2, 5, 5], [100, 60, 50, 40, 30, 20, 10],
        [0, 2, 0, 3, 0, 1, 4], cpu_milli=[5000, 2000, 6000, 4000, 8000, 500, 3000], knobs=knobs,
    )  # fmt: skip
    plain = Reference(twin.state, knobs)
    plain.run()
    twin.run()
    assert twin.state.runs.first_start_us.tolist() == [job.first_start_us for job in plain.jobs]
    assert twin.state.runs.end_us.tolist() == [job.end_us for job in plain.jobs]


# What is refused -------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "columns", "message"),
    [
        (1, {"cpu_milli": 8001}, r"needs 8\.001 cores and 0 GiB of a node's host, and the largest"),
        (1, {"host_mib": 16 * 1024 + 1}, r"hosts have 8 cores and 16 GiB"),
        # Four devices over two nodes: half of 17 cores on each.
        (4, {"cpu_milli": 17_000}, r"needs 8\.5 cores and 0 GiB of a node's host"),
        (0, {}, r"asks for 0 devices, 0 cores and 0 GiB of a host; drop it"),
        (1, {"cpu_milli": -1}, r"-0\.001 cores"),
    ],
)
def test_what_no_host_can_hold_is_refused(devices: int, columns: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make([hosts(2)], [0], [10], devices, **columns)


def test_a_pool_with_small_hosts_is_not_used() -> None:
    twin = run([hosts(cpus=2), hosts(cpus=4)], [0, 0, 0], [50, 10, 10], cpu_milli=[3000, 3000, 0])
    assert twin.state.runs.pool.tolist()[:2] == [1, 1]
    assert starts(twin) == [0, 50, 0]


def test_a_cluster_with_hosts_too_large_to_count_is_refused() -> None:
    with pytest.raises(BadInput, match="1000000 cores"):
        make([hosts(cpus=1_000_000)], [0], [1])


class Planned:
    """A policy with a plan of its own: (job, node, mask) of each start."""

    def __init__(self, *plan: tuple[int, int, int]) -> None:
        self.plan = plan

    def decide(self, state: State, outlook: Outlook) -> Records:
        plan = records(len(self.plan), ACTION)
        for action, (job, node, mask) in zip(plan, self.plan, strict=True):
            action.kind, action.job, action.node = ActionKind.START, job, node
            action.mask, action.milli = mask, 1000
        return plan


@pytest.mark.parametrize(
    ("plan", "good"),
    [
        ([(0, 0, 0b1)], True),
        ([(0, 0, 0b1), (1, 0, 0b10)], False),
        ([(0, 0, 0b1), (1, 1, 0b10)], True),
        ([(2, 0, 0)], True),
        ([(2, 0, 0), (2, 1, 0)], False),
        ([(2, 0, 0b1)], False),
        ([(3, 0, 0b11), (3, 1, 0b1)], True),
    ],
)
def test_plans_are_held_to_the_hosts(plan: list[tuple[int, int, int]], good: bool) -> None:
    workload = Workload.of(
        "plans", np.zeros(4), np.full(4, 10.0), [1, 1, 0, 3], cpu_milli=[5000, 5000, 1000, 9000]
    )
    twin = Twin(Cluster("two", (hosts(2),)), workload, Knobs())
    if good:
        twin.step(Planned(*plan))
        assert twin.state.clock[0].running == len({job for job, _, _ in plan})
    else:
        with pytest.raises(BadPlan):
            twin.step(Planned(*plan))
