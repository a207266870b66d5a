"""From a cluster and a workload to a state: what is laid out, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import MAX_POOLS, Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Preempt
from flyball.core.state import SHARED, State, clone
from flyball.core.workload import Workload
from flyball.twin.build import build_state, window_size


def build(*groups: NodeGroup, effects: Effects | None = None, **columns: Any) -> State:
    columns = {"submit_s": [0.0], "duration_s": [10.0], **columns}
    workload = Workload.of("case", **columns)
    return build_state(Cluster("case", groups), workload, Knobs(), effects or Effects())


V100 = NodeGroup("v", 2, "V100", 4)
K80 = NodeGroup("k", 1, "K80", 2)


def test_nodes_are_numbered_pool_by_pool() -> None:
    state = build(V100, K80)
    assert state.nodes.pool.tolist() == [0, 0, 1]
    assert state.nodes.first_device.tolist() == [0, 4, 8]
    assert state.nodes.free.tolist() == [4, 4, 2]
    assert state.nodes.free_mask.tolist() == [0b1111, 0b1111, 0b11]
    assert state.nodes.power_w.tolist() == [4 * (71 + 45)] * 2 + [2 * (35.5 + 22.5)]
    assert state.clock[0].power_w == 2 * 464 + 116
    assert state.pools.first_node.tolist() == [0, 2]


def test_a_node_of_64_devices() -> None:
    state = build(NodeGroup("big", 1, "V100", 64))
    assert int(state.nodes[0].free_mask) == 2**64 - 1


def test_jobs_of_one_kind_share_a_shape() -> None:
    state = build(
        V100, K80, submit_s=[0, 0, 0, 0], duration_s=[1, 2, 3, 4], devices=[1, 4, 1, 1],
        milli=[1000, 1000, 1000, 500], kind=0,
    )  # fmt: skip
    shape = state.jobs.shape_id
    assert shape[0] == shape[2]
    assert len({shape[0], shape[1], shape[3]}) == 3
    pools = state.shapes.pools[shape].tolist()
    assert pools == [0b11, 0b01, 0b11, 0b11]  # four devices are more than the K80 pool has


def test_restart_grows_with_the_gang() -> None:
    state = build(
        V100, submit_s=[0] * 4, duration_s=[1] * 4, devices=[1, 2, 8, 8],
        effects=Effects(restart_s=(1.0, 2.0, 3.0)),
    )  # fmt: skip
    assert state.jobs.restart_us.tolist() == [1e6, 2e6, 2e6, 2e6]
    many = build(NodeGroup("m", 3, "V100", 8), devices=9)
    assert many.jobs.restart_us.tolist() == [60e6]


def test_estimates() -> None:
    # Stated ones are taken, the others are exact; with an error they are drawn from the seed.
    columns: dict[str, Any] = {"submit_s": [0, 0, 0], "duration_s": [10.0, 20.0, 0.0]}
    state = build(V100, estimate_us=[5e6, np.nan, np.nan], **columns)
    assert state.jobs.estimate_us.tolist() == [5e6, 20e6, 1.0]
    drawn = [
        build(V100, **columns, effects=Effects(estimate_sigma=1.0, seed=seed)).jobs.estimate_us
        for seed in (0, 0, 1)
    ]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()


def test_estimates_err_log_normally() -> None:
    columns: dict[str, Any] = {"submit_s": [0] * 4000, "duration_s": [100.0] * 4000}
    state = build(V100, **columns, effects=Effects(estimate_sigma=0.5))
    error = np.log(state.jobs.estimate_us / 100e6)
    assert abs(error.mean()) < 4 * 0.5 / np.sqrt(4000)
    assert error.std() == pytest.approx(0.5, rel=0.05)


def test_successors_end_to_end() -> None:
    state = build(
        V100, submit_s=[0, 0, 0], duration_s=[1, 1, 1],
        after_job=np.array([2, 1, 2]), after_on=np.array([1, 0, 0]),
    )  # fmt: skip
    assert state.links.tolist() == [1, 2, 2]
    assert state.jobs.successors.tolist() == [0, 2, 3]
    assert state.jobs.successor_count.tolist() == [2, 1, 0]
    assert state.jobs.predecessors.tolist() == [0, 1, 2]


def test_bitmaps_begin_with_every_node_free() -> None:
    # One word of the counts that have nodes: only two. Then by count: nodes, summary, words.
    state = build(NodeGroup("wide", 70, "V100", 2))
    assert int(state.bitmaps[0]) == 0b10
    assert state.bitmaps[1:].reshape(3, 4).tolist() == [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [70, 0b11, 2**64 - 1, 2**6 - 1],
    ]


def test_window_is_as_deep_as_the_scan() -> None:
    assert window_size(Knobs(depth=5), 100) == 5
    assert window_size(Knobs(depth=500), 100) == 100


def test_a_clone_shares_what_never_changes_and_copies_the_rest() -> None:
    state = build(V100, K80)
    copy = clone(state)
    for name in State._fields:
        same = np.shares_memory(getattr(copy, name), getattr(state, name))
        assert same == (name in SHARED and getattr(state, name).size > 0), name


# Refusals --------------------------------------------------------------------


def test_empty_workload() -> None:
    with pytest.raises(BadInput, match=r"case has no jobs; nothing can be replayed"):
        build(V100, submit_s=[], duration_s=[])


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (
            {"devices": 9},
            r"case: job j0 asks for 9 GPUs; the largest group of nodes has 8; drop it",
        ),
        (
            {"devices": 5, "milli": 500},
            r"job j0 asks for 5 GPUs; the largest node has 4",
        ),
        (
            {"memory_mib": 17 * 1024},
            r"job j0 needs 17 GiB on a GPU and the largest has 16",
        ),
        (
            {"submit_s": [0, 1, 2], "duration_s": [1, 1, 1], "devices": [1, 9, 10]},
            r"job j1 asks for 9 GPUs; .* \(and 1 more\)",
        ),
    ],
)
def test_a_job_that_fits_nowhere(columns: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        build(V100, K80, **columns)


def test_a_job_that_fits_each_pool_in_one_way_but_none_in_both() -> None:
    # Six devices: the K80 pool has them, but not with 14 GiB; the V100 pool has four.
    with pytest.raises(BadInput, match=r"finds no pool with 6 GPUs of 14 GiB that runs it"):
        build(
            NodeGroup("v", 1, "V100", 4),
            NodeGroup("k", 2, "K80", 4),
            devices=6,
            memory_mib=14 * 1024,
        )


def test_a_model_that_runs_on_none_of_the_types() -> None:
    # Gavel: ResNet-50 with a batch of 128 does not fit a K80.
    with pytest.raises(BadInput, match=r"has a model that runs on none of the device types"):
        build(K80, devices=2, models=("ResNet-50 (batch size 128)",), model=0)


def test_a_job_that_no_budget_admits() -> None:
    # One node of one V100 draws 116 W idle and 332 W busy.
    workload = Workload.of("case", [0.0], [10.0], kind=0)
    groups = (NodeGroup("v", 1, "V100", 1),)
    with pytest.raises(BadInput, match=r"would exceed the power budget of 0.331 kW even alone"):
        build_state(Cluster("case", groups, 331.0), workload, Knobs(), Effects())
    build_state(Cluster("case", groups, 333.0), workload, Knobs(), Effects())


def test_rounds_shorter_than_a_checkpoint() -> None:
    workload = Workload.of("case", [0.0], [10.0])
    knobs = Knobs(preempt=Preempt.ROUNDS, round_s=10.0)
    with pytest.raises(BadInput, match=r"rounds of 10 s are not longer than a checkpoint"):
        build_state(Cluster("case", (V100,)), workload, knobs, Effects(checkpoint_s=10.0))


def test_too_many_pools() -> None:
    most = MAX_POOLS
    with pytest.raises(BadInput, match=rf"case has {most + 1} groups of nodes; use at most {most}"):
        build(*[V100] * (most + 1))
    state = build(*[V100] * most, submit_s=[0.0] * 3, duration_s=[1.0] * 3, devices=[1, 4, 8])
    assert len(state.pools) == most
    assert [int(pools) for pools in state.shapes.pools] == [2**most - 1] * 3


@pytest.mark.parametrize(("count", "devices"), [(0, 4), (1, 0), (1, 65)])
def test_a_group_of_no_nodes_or_too_many_devices(count: int, devices: int) -> None:
    with pytest.raises(BadInput, match=r"group v has .* use 1 to 64 devices a node"):
        build(NodeGroup("v", count, "V100", devices))


@pytest.mark.parametrize("budget_w", [1.0, 300.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0, 5000.0])
def test_budget_is_the_reason_wherever_it_alone_forbids_a_job(budget_w: float) -> None:
    """The small pool would do for the budget, the large one for the devices."""
    groups = (NodeGroup("big", 1, "V100", 8), NodeGroup("small", 1, "T4", 2))
    workload = Workload.of("case", [0.0], [60.0], 8)
    try:
        build_state(Cluster("c", groups, power_budget_w=budget_w), workload, Knobs(), Effects())
    except BadInput as error:
        assert "would exceed the power budget of" in str(error)
        assert budget_w < 3500.0
    else:
        assert budget_w > 2000.0, "eight V100s at work draw more than that"
