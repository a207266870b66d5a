"""The switches towards Gavel's simulator, each on a case worked by hand, and the whole mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs, Leftover, Optimum, Order, Preempt, Starts, Types
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.min_makespan import searched_span_s
from flyball.twin.reference.cluster import Cluster as Oracle
from flyball.twin.reference.rounds import pools_in_order
from flyball.twin.twin import Twin

FREE = Effects(restart_s=(0.0, 0.0, 0.0))
ROUND_S = 100.0
BASE = Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=ROUND_S)


@dataclass(frozen=True)
class Given:
    """Sets the same targets every time: a row per job."""

    table: tuple[tuple[float, ...], ...]

    def targets(self, state: State) -> Floats:
        return np.array(self.table)


def twin_of(
    knobs: Knobs,
    submit_s: Sequence[float],
    run_s: Sequence[float],
    targets: Sequence[tuple[float, ...]],
    groups: tuple[NodeGroup, ...] = (NodeGroup("v", 1, "V100", 1),),
) -> Twin:
    workload = Workload.of("case", submit_s, run_s, [1] * len(submit_s))
    policy = PolicySetting("given", knobs, Given(tuple(targets)))
    return build_twin(Cluster("case", groups), workload, policy, FREE)


def starts_s(twin: Twin) -> list[float]:
    twin.run()
    starts: Any = twin.state.runs.first_start_us
    return [float(start) / 1e6 for start in starts]


@pytest.mark.nojit
def test_a_device_that_comes_free_waits_for_the_round_if_starts_are_in_rounds() -> None:
    # One device: the first job ends at 30 s, the next round is at 100 s.
    case = ([0, 0], [30, 30], [(1.0,), (0.5,)])
    assert starts_s(twin_of(BASE, *case)) == [0, 30]
    assert starts_s(twin_of(replace(BASE, starts=Starts.ROUNDS), *case)) == [0, 100]


@pytest.mark.nojit
def test_a_new_job_waits_for_the_next_division_if_starts_are_divided() -> None:
    # Two devices, one of them idle; the job of 150 s arrives after the division at 0 and the next
    # may come at 400 s.
    groups = (NodeGroup("v", 1, "V100", 2),)
    case = ([0, 150], [1000, 30], [(1.0,), (1.0,)], groups)
    knobs = replace(BASE, solve_s=400.0)
    assert starts_s(twin_of(knobs, *case)) == [0, 150]
    assert starts_s(twin_of(replace(knobs, starts=Starts.ROUNDS), *case)) == [0, 200]
    assert starts_s(twin_of(replace(knobs, starts=Starts.DIVIDED), *case)) == [0, 400]


@pytest.mark.nojit
def test_leftovers_go_out_pool_by_pool_or_after_all_targets() -> None:
    # Both jobs have a target on the slow pool only; the fast one is filled first. If leftovers come
    # last, job 0 has its target and job 1 what is left; pool by pool, job 0 takes the fast device.
    groups = (NodeGroup("v", 1, "V100", 1), NodeGroup("k", 1, "K80", 1))
    case = ([0, 0], [1000, 1000], [(0.0, 1.0), (0.0, 0.5)], groups)
    twin = twin_of(BASE, *case)
    twin.run(0)
    assert twin.state.runs.pool.tolist() == [1, 0]
    twin = twin_of(replace(BASE, leftover=Leftover.BY_POOL), *case)
    twin.run(0)
    assert twin.state.runs.pool.tolist() == [0, 1]


def orders(seed: int, rounds: int, pools: int) -> list[tuple[int, ...]]:
    """Return the orders of a few rounds by the oracle, with which the kernel agrees."""
    groups = tuple(NodeGroup(f"n{at}", 1, "V100", 1) for at in range(pools))
    knobs = replace(BASE, types=Types.SHUFFLED, shuffle_seed=seed)
    cluster = Oracle(twin_of(knobs, [0], [1], [(1.0,) * pools], groups).state, knobs)
    out = []
    for number in range(rounds):
        cluster.now_us = number * cluster.round_us
        out.append(tuple(pool.index for pool in pools_in_order(cluster)))
    return out


@pytest.mark.nojit
def test_types_are_shuffled_evenly_and_by_seed() -> None:
    drawn = orders(3, 1200, 3)
    counts = Counter(drawn)
    assert len(counts) == 6  # every order of three pools
    assert all(sorted(order) == [0, 1, 2] for order in counts)
    assert min(counts.values()) > 140  # 200 expected of each, standard deviation 13
    assert max(counts.values()) < 260
    assert orders(3, 50, 3) == drawn[:50]
    assert orders(4, 50, 3) != drawn[:50]


@pytest.mark.nojit
def test_shuffled_types_change_where_a_job_without_preference_runs() -> None:
    groups = (NodeGroup("v", 1, "V100", 1), NodeGroup("k", 1, "K80", 1))
    case = ([0], [100_000], [(0.5, 0.5)], groups)
    visited = set()
    for seed in range(8):
        twin = twin_of(replace(BASE, types=Types.SHUFFLED, shuffle_seed=seed), *case)
        twin.run(0)
        visited.add(int(twin.state.runs.pool[0]))
    assert visited == {0, 1}
    twin = twin_of(BASE, *case)
    twin.run(0)
    assert int(twin.state.runs.pool[0]) == 0


@pytest.mark.nojit
def test_whole_steps_cost_the_part_of_a_step_that_a_slice_cuts() -> None:
    workload = Workload.of(
        "case", [0], [0.0], [1], duration_us=[1e9], model=[0], models=("ResNet-50:128",), kind=0
    )
    cluster = Cluster("case", (NodeGroup("v", 1, "V100", 1), NodeGroup("k", 1, "K80", 1)))
    policy = policy_settings("max-min", [])[0]
    rates = [
        build_twin(cluster, workload, policy, replace(FREE, step_slice_s=slice_s)).state.rates
        for slice_s in (0.0, 360.0)
    ]
    for pool in range(2):
        per_slice = rates[0].packed[pool] * rates[0].steps[pool] * 360.0
        expected = rates[0].packed[pool] * np.floor(per_slice) / per_slice
        assert per_slice % 1 > 1e-3, "the case must cut a step"
        assert rates[1].packed[pool] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("least_s", "span_s"),
    [(50.0, 105.0), (1_000.0, 1_050.0), (64_000.0, 67_200.0), (3e6, 3.15e6)],
)
def test_the_searched_span_is_at_most_a_twentieth_above_the_least(
    least_s: float, span_s: float
) -> None:
    found = searched_span_s(least_s)
    assert max(least_s, 100.0) <= found <= span_s


def test_gavel_mode_sets_every_switch() -> None:
    blind, sighted = policy_settings("max-min@gavel,max-min-het@gavel", [])
    for policy in (blind, sighted):
        knobs = policy.knobs
        assert (knobs.starts, knobs.leftover) == (Starts.DIVIDED, Leftover.BY_POOL)
        assert (knobs.round_s, knobs.solve_s) == (360.0, 1920.0)
        assert getattr(policy.allocator, "optimum") == Optimum.CENTRE  # noqa: B009
    assert (blind.knobs.types, sighted.knobs.types) == (Types.SHUFFLED, Types.FASTEST)
    (changed,) = policy_settings("max-min@gavel", ["starts=any-time", "optimum=corner"])
    assert changed.knobs.starts == Starts.ANY_TIME
    assert getattr(changed.allocator, "optimum") == Optimum.CORNER  # noqa: B009


def test_a_mode_that_does_not_exist_or_does_not_apply_is_refused() -> None:
    with pytest.raises(UnknownName, match="gavl"):
        policy_settings("max-min@gavl", [])
    with pytest.raises(BadInput, match="no Gavel mode"):
        policy_settings("easy@gavel", [])
