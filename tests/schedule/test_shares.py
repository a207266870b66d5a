"""Target shares: each programme against a hand-worked case or a plainer way to the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.finish_time_fair import least_rho
from flyball.schedule.policies.max_min import equal_devices, water_level
from flyball.schedule.policies.max_min_het import equal_speed
from flyball.schedule.policies.max_speed import most_speed
from flyball.schedule.policies.min_makespan import equal_end
from flyball.schedule.shares.demand import Demand, time_alone
from flyball.schedule.shares.groups import MANY, group
from flyball.schedule.shares.programmes import max_min, max_sum
from flyball.schedule.shares.targets import BadTargets, set_targets
from flyball.twin.kernel import advance_to

ALLOCATING = [policy for policy in policy_settings("all", []) if policy.allocator is not None]
CLOSE = 1e-6


def demand(
    asks: list[float], speeds: list[list[float]], capacity: list[float], left_s: float = 1.0
) -> Demand:
    """Active jobs that were all submitted just now and have done nothing."""
    jobs = len(asks)
    return Demand(
        jobs=np.arange(jobs),
        asks=np.array(asks),
        speeds=np.array(speeds),
        capacity=np.array(capacity),
        elapsed_us=np.zeros(jobs),
        done_us=np.zeros(jobs),
        left_us=np.full(jobs, left_s * 1e6),
        total=jobs,
    )


def random_demand(seed: int, jobs: int = 12, pools: int = 3) -> Demand:
    rng = np.random.default_rng(seed)
    speeds = rng.choice((0.0, 0.5, 1.0, 2.0, 4.0), (jobs, pools))
    speeds[~speeds.any(axis=1), 0] = 1.0
    drawn = demand(
        rng.choice((0.25, 1.0, 2.0, 8.0), jobs).tolist(),
        speeds.tolist(),
        rng.choice((2.0, 4.0, 8.0), pools).tolist(),
    )
    drawn.left_us[:] = rng.lognormal(8, 1.5, jobs)
    return drawn


def least_one_by_one(active: Demand, needs: Floats) -> float:
    """The optimum of the max-min programme with variables for every job, built row by row."""
    jobs, pools = active.speeds.shape
    rows, limits = [], []
    for pool in range(pools):
        row = np.zeros((jobs, pools))
        row[:, pool] = active.asks
        rows.append(np.append(row, 0.0))
        limits.append(active.capacity[pool])
    for job in range(jobs):
        once, above = np.zeros((jobs, pools)), np.zeros((jobs, pools))
        once[job] = 1.0
        above[job] = -active.speeds[job]
        rows += [np.append(once, 0.0), np.append(above, needs[job])]
        limits += [1.0, 0.0]
    gains = np.append(np.zeros(jobs * pools), -1.0)
    return -float(linprog(gains, A_ub=np.array(rows), b_ub=limits).fun)


@pytest.mark.parametrize("seed", range(12))
def test_the_programme_of_groups_has_the_optimum_of_all_jobs(seed: int) -> None:
    active = random_demand(seed)
    needs = active.left_us / 1e4
    groups = group(active.asks, active.speeds, needs)
    least, shares = max_min(groups, active.capacity)
    assert least == pytest.approx(least_one_by_one(active, needs), rel=1e-6)
    of_jobs = shares[groups.of_job]
    assert ((active.speeds * of_jobs).sum(axis=1) / needs).min() == pytest.approx(least, rel=1e-6)


def test_many_needs_are_rounded_up_a_little() -> None:
    rng = np.random.default_rng(0)
    needs = rng.lognormal(0, 2, MANY + 1)
    groups = group(np.ones(MANY + 1), np.ones((MANY + 1, 2)), needs)
    ratio = groups.needs[groups.of_job] / needs
    assert ratio.min() >= 1 - 1e-12
    assert ratio.max() <= 1.0101
    assert len(groups.jobs) < MANY


def test_equal_devices_by_hand() -> None:
    # Three jobs of 1, 1 and 8 on 4 devices: level 2 is more than a job of 1 can use, so those
    # run all the time and the job of 8 has 2 of its 8 devices: a quarter of the time.
    shares = equal_devices(demand([1, 1, 8], [[1, 1]] * 3, [3, 1]))
    assert shares.tolist() == [[0.75, 0.25], [0.75, 0.25], [0.1875, 0.0625]]


@pytest.mark.parametrize(
    ("asks", "devices", "level"),
    [([1, 1, 8], 6, 4), ([1, 2], 10, 2), ([8, 8], 8, 4), ([1, 2, 3], 3, 1), ([5], 2, 2)],
)
def test_water_level(asks: list[float], devices: float, level: float) -> None:
    assert water_level(np.array(asks, float), devices) == pytest.approx(level)


@pytest.mark.parametrize("seed", range(6))
def test_equal_devices_in_closed_form_is_the_programmes_optimum(seed: int) -> None:
    active = random_demand(seed)
    active.speeds[:] = 1.0
    shares = equal_devices(active)
    devices = active.asks * shares.sum(axis=1)
    groups = group(active.asks, np.ones_like(active.speeds) * active.asks[:, None])
    assert devices.min() == pytest.approx(max_min(groups, active.capacity)[0], rel=1e-6)


def test_equal_devices_where_a_job_fits_one_pool_only() -> None:
    # Job 0 can use pool 0 alone, job 1 both: one device each in all.
    shares = equal_devices(demand([1, 1], [[1, 0], [1, 1]], [1, 1]))
    assert shares.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_equal_speed_gives_each_job_what_suits_it() -> None:
    # One fast and one slow device. Job 0 is 4 times as fast on the first, job 1 the same on
    # both: job 1 has the slow one. Its speed is that of an even part, 1; so job 0 needs no
    # more than its even part either, (4 + 1) / 2, which is 5/8 of the fast device.
    shares = equal_speed(demand([1, 1], [[4, 1], [1, 1]], [1, 1]))
    assert shares == pytest.approx(np.array([[0.625, 0.0], [0.0, 1.0]]), abs=CLOSE)


def test_equal_end_by_hand() -> None:
    # One device; 3 s and 1 s left: three quarters and one quarter, both end after 4 s.
    active = demand([1, 1], [[1.0], [1.0]], [1.0])
    active.left_us[:] = (3e6, 1e6)
    assert equal_end(active) == pytest.approx(np.array([[0.75], [0.25]]))


def test_most_speed_prefers_narrow_jobs_and_good_matches() -> None:
    # 8 devices: a gang of 8 counts as much as one of the two single jobs, so the singles run
    # all the time and the gang has 6/8 of it.
    shares = most_speed(demand([8, 1, 1], [[2.0]] * 3, [8.0]))
    assert shares == pytest.approx(np.array([[0.75], [1.0], [1.0]]))


def test_max_sum_by_hand() -> None:
    active = demand([1, 1], [[3.0, 1.0], [2.0, 2.0]], [1.0, 1.0])
    groups = group(active.asks, active.speeds)
    shares = max_sum(groups, active.capacity, groups.speeds)[groups.of_job]
    assert (active.speeds * shares).sum() == pytest.approx(5.0)


@pytest.mark.parametrize("seed", range(6))
def test_least_rho_is_the_least(seed: int) -> None:
    active = random_demand(seed)
    active.elapsed_us[:] = np.random.default_rng(seed).uniform(0, 5_000, len(active.jobs))
    alone_us, alone_rate = np.zeros(len(active.jobs)), active.alone_rates()
    total_us = alone_us + active.left_us / alone_rate
    shares = least_rho(active, alone_us, alone_rate)
    speed = (active.speeds * shares).sum(axis=1)
    rho = float(((active.elapsed_us + active.left_us / speed) / total_us).max())
    # For a little less the needs cannot be met.
    spare_us = 0.995 * rho * total_us - active.elapsed_us
    assert (spare_us <= 0).any() or least_one_by_one(active, active.left_us / spare_us) < 1.0


# Every policy that sets shares ------------------------------------------------------


def crowded(policy: PolicySetting, jobs: int = 60, seed: int = 1) -> State:
    """A mixed cluster with more jobs than it can take, at the first round."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(
        "mixed",
        (NodeGroup("v", 2, "V100", 4), NodeGroup("p", 3, "P100", 2), NodeGroup("t", 1, "T4", 8)),
    )
    workload = Workload.of(
        "crowd",
        np.zeros(jobs),
        np.ceil(rng.lognormal(7, 1.5, jobs)),
        rng.choice((1, 1, 2, 4), jobs),
        kind=rng.integers(0, 5, jobs),
        milli=np.where(np.arange(jobs) % 7 == 0, 500, 1000),
    )
    twin = build_twin(cluster, workload, policy, Effects())
    assert advance_to(twin.state, policy.knobs.pack(), 0)
    return twin.state


@pytest.mark.parametrize("policy", ALLOCATING, ids=lambda policy: policy.name)
def test_targets_are_shares_that_fit(policy: PolicySetting) -> None:
    state = crowded(policy)
    assert policy.allocator is not None
    before = state.arena.tobytes()
    targets = policy.allocator.targets(state)
    assert state.arena.tobytes() == before  # asking changes nothing
    assert np.array_equal(targets, policy.allocator.targets(state))
    asks = state.jobs.devices * state.jobs.milli / 1000
    assert targets.shape == (60, 3)
    assert (targets >= 0).all()
    assert (targets.sum(axis=1) <= 1 + CLOSE).all()
    assert (asks @ targets <= np.array([8, 6, 8]) + CLOSE).all()
    assert targets.sum() > 0
    # Estimates are all it may see.
    state.jobs.work_us = np.nan
    assert np.array_equal(targets, policy.allocator.targets(state))


@pytest.mark.parametrize("policy", ALLOCATING, ids=lambda policy: policy.name)
def test_nodes_that_are_down_offer_nothing(policy: PolicySetting) -> None:
    state = crowded(policy)
    state.nodes.down[:2] = 1  # both V100 nodes
    assert policy.allocator is not None
    targets = policy.allocator.targets(state)
    assert not targets[:, 0].any()
    assert targets.sum() > 0
    state.nodes.down[:] = 1
    assert not policy.allocator.targets(state).any()


def test_claims_grow_by_what_was_done() -> None:
    (policy,) = policy_settings("finish-time-fair", [])
    state = crowded(policy, jobs=4)
    set_targets(state, np.zeros((4, 3)))
    rates = state.claims.alone_rate.copy()
    state.runs.done_us[:] = 1_000.0
    alone_us, _ = time_alone(state, Demand.of(state))
    assert alone_us == pytest.approx(1_000.0 / rates)


def test_targets_that_are_none_are_refused() -> None:
    (policy,) = policy_settings("max-min", [])
    state = crowded(policy, jobs=4)
    for bad in (np.zeros((3, 3)), np.full((4, 3), -0.1), np.full((4, 3), np.nan)):
        with pytest.raises(BadTargets, match="give 4 rows of 3 shares"):
            set_targets(state, bad)


def test_order_shares_needs_a_policy_that_sets_them() -> None:
    knobs = Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0)
    cluster = Cluster("one", (NodeGroup("v", 1, "V100", 1),))
    workload = Workload.of("one", [0.0], [1.0])
    with pytest.raises(BadInput, match="needs a policy that sets the shares"):
        build_twin(cluster, workload, PolicySetting("mine", knobs), Effects())
    (policy,) = policy_settings("max-min", ["round_s=60"])
    with pytest.raises(BadInput, match="set round_s above 60"):
        build_twin(cluster, workload, policy, Effects())
