"""Lower bounds: right on paper for small cases, and never beaten by any run."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.twin.strategies import Problem, problems

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.metrics import completions_s
from flyball.core.workload import Workload
from flyball.experiments.compare.bounds import (
    Bounds,
    JobNeeds,
    best_shared,
    demand_of,
    lower_bounds,
    shared_s,
    solo_s,
)
from flyball.experiments.compare.priced_bound import priced_s
from flyball.experiments.scenarios import find_scenarios

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
ONE = Cluster("one", (NodeGroup("a", 1, "V100", 1),))
TWO = Cluster("two", (NodeGroup("a", 1, "V100", 2),))


def bounds_of(cluster: Cluster, *columns: Any, **more: Any) -> Bounds:
    return lower_bounds(cluster, Workload.of("w", *columns, **more), Effects())


def test_one_device_is_solved() -> None:
    # 10 s then 20 s: ends at 10 and 30, which is the best there is.
    bounds = bounds_of(ONE, [0.0, 0.0], [10.0, 20.0])
    assert bounds.solo_s == 15.0
    assert bounds.shared_s == pytest.approx(20.0)
    assert 19.0 < bounds.priced_s <= 20.0
    assert bounds.best_s == bounds.shared_s


def test_a_late_short_job_goes_first() -> None:
    # 100 s from 0; 10 s from 30. Shortest remaining first: ends 40 and 110.
    bounds = bounds_of(ONE, [0.0, 30.0], [100.0, 10.0])
    assert bounds.solo_s == 55.0
    assert bounds.shared_s == pytest.approx(((110 - 0) + (40 - 30)) / 2)
    assert bounds.priced_s <= 60.0


def test_sharing_cannot_beat_running_alone() -> None:
    # Two devices, two jobs of one device each: one machine would be done after 5 and 15 s.
    bounds = bounds_of(TWO, [0.0, 0.0], [10.0, 20.0])
    assert bounds.shared_s == bounds.solo_s == 15.0
    assert bounds.priced_s == pytest.approx(15.0, rel=5e-3)


def test_four_gangs_in_turn() -> None:
    # Each takes both devices for 10 s: ends at 10, 20, 30, 40.
    bounds = bounds_of(TWO, [0.0] * 4, [10.0] * 4, [2] * 4)
    assert bounds.shared_s == pytest.approx(25.0)
    assert bounds.priced_s == pytest.approx(25.0, rel=0.02)


def test_a_predecessor_holds_back() -> None:
    bounds = bounds_of(
        ONE, [0.0, 0.0], [10.0, 20.0], after_job=np.array([1]), after_on=np.array([0])
    )
    assert bounds.solo_s == (10 + 30) / 2


def test_a_limit_cuts_a_job_short() -> None:
    limit_us = np.array([4_000_000, 0])
    assert bounds_of(TWO, [0.0, 0.0], [10.0, 20.0], limit_us=limit_us).solo_s == 12.0


def test_weights_see_that_a_slow_pool_is_slow() -> None:
    # Two pools of one device, the second ten times slower, for eight jobs of 10 s.
    jobs = 8
    need = np.tile([10.0, 100.0], (jobs, 1))
    demand = JobNeeds(np.zeros(jobs), np.zeros(jobs), np.ones(jobs), need, np.ones(2))
    # As if both were fast: ends at 5, 10, ..., 40, and nobody before 10.
    assert shared_s(demand, np.ones(2)) == pytest.approx((10 + np.arange(10, 41, 5).sum()) / 8)
    # In truth 1.1 devices: the k-th ends at k * 10 / 1.1.
    assert shared_s(demand, np.array([1.0, 0.1])) == pytest.approx(
        (10 + (np.arange(2, 9) * 10 / 1.1).sum()) / 8
    )
    weights, best = best_shared(demand)
    assert best >= shared_s(demand, np.array([1.0, 0.1])) - 1e-9
    assert solo_s(demand) == 10.0
    # The optimum gives the slow pool nothing or the last job: ends 10, ..., 80.
    assert best <= priced_s(demand, weights) * 1.05
    assert priced_s(demand, weights) <= 45.0


def test_any_weights_and_any_start_give_a_bound() -> None:
    rng = np.random.default_rng(1)
    scenario = find_scenarios("unequal-speeds")[0]
    workload, effects = scenario.make_workload(3), scenario.make_effects(3)
    demand = demand_of(scenario.make_cluster(), workload, effects)
    reached = min(
        scenario.case(policy, 3).run(0, 0).summary.completion_s.mean
        for policy in policy_settings("srtf,ect", [])
    )
    for _ in range(5):
        weights = rng.lognormal(0.0, 2.0, 3)
        assert shared_s(demand, weights) < reached
        assert priced_s(demand, weights) < reached


@pytest.mark.parametrize("seed", range(10))
def test_one_machine_is_solved_by_the_shortest_remaining_first(seed: int) -> None:
    # On one device `shared` is the optimum itself; `priced` must stay below and come near.
    rng = np.random.default_rng(seed)
    jobs = 40
    need = rng.lognormal(3.0, 1.0, (jobs, 1))
    release = np.sort(rng.uniform(0.0, 0.8 * need.sum(), jobs))
    demand = JobNeeds(release, release, np.ones(jobs), need, np.ones(1))
    optimum = shared_s(demand, np.ones(1))
    assert 0.7 * optimum < priced_s(demand, np.ones(1)) <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_two_unlike_machines_against_every_assignment(seed: int) -> None:
    # Seven jobs that each machine does at its own pace; shortest first on each is then best.
    rng = np.random.default_rng(seed)
    need = rng.lognormal(2.0, 1.0, (7, 2))
    demand = JobNeeds(np.zeros(7), np.zeros(7), np.ones(7), need, np.ones(2))
    best = np.inf
    for choice in itertools.product((0, 1), repeat=7):
        picked = np.array(choice)
        ends = [np.cumsum(np.sort(need[picked == pool, pool])) for pool in (0, 1)]
        best = min(best, float(np.concatenate(ends).mean()))
    weights, shared = best_shared(demand)
    assert shared <= best * (1 + 1e-9)
    assert 0.7 * best < priced_s(demand, weights) <= best * (1 + 1e-9)


@settings(**QUIET, max_examples=150)
@given(problems())
def test_no_run_beats_a_bound(problem: Problem) -> None:
    bounds = lower_bounds(problem.cluster, problem.workload, problem.effects)
    policy = PolicySetting("drawn", problem.knobs)
    twin = build_twin(problem.cluster, problem.workload, policy, problem.effects)
    reached_s = float(np.mean(completions_s(twin.replay())))
    for name, bound_s in bounds.as_dict().items():
        assert bound_s <= reached_s * (1 + 1e-9) + 1e-6, name
    assert 0 <= bounds.solo_s <= bounds.best_s


@pytest.mark.parametrize("scenario", find_scenarios("all"), ids=lambda scenario: scenario.name)
def test_bounds_of_scenarios_mean_something(scenario: Any) -> None:
    """Below the best of three policies, and not by so much that regret says nothing."""
    cluster, workload = scenario.make_cluster(), scenario.make_workload(0)
    best_s = lower_bounds(cluster, workload, scenario.make_effects(0)).best_s
    reached = [
        scenario.case(policy, 0).run(0, 0).summary.completion_s.mean
        for policy in policy_settings("saf,srtf,ect", [])
    ]
    assert 0.3 < best_s / min(reached) < 1.0
