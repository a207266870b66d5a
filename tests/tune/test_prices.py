"""Prices in closed form, and options by guesses and what was learned."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tune.plan_drafts import NO_PLAN, jobs, twin

from flyball.core.effects import Effects
from flyball.tune.options import Options
from flyball.tune.plan_draft import PlanDraft
from flyball.tune.prices import prices


def options_of(number: list[int], rows: list[tuple[int, int, int, float]]) -> Options:
    """`number` jobs of each kind; rows of (kind, pool, count, value)."""
    kind, pool, count = (np.array([row[at] for row in rows]) for at in range(3))
    value = np.array([row[3] for row in rows])
    of_job = np.repeat(np.arange(len(number)), number)
    begin = np.searchsorted(kind, np.arange(len(number) + 1))
    ones = np.ones(len(rows))
    return Options(
        np.arange(len(of_job)), of_job, begin, kind, pool, count, ones, value, ones, np.ones(2)
    )


@pytest.mark.parametrize(
    ("waiting", "fast", "slow"),
    [(10, 2.0, 1.0), (5, 1.0, 0.0), (3, 0.0, 0.0)],
    ids=["all devices taken", "one job left on the slow pool", "devices left over"],
)
def test_one_device_each_on_two_pools(waiting: int, fast: float, slow: float) -> None:
    options = options_of([waiting], [(0, 0, 1, 2.0), (0, 1, 1, 1.0)])
    price = prices(options, options.value, np.array([4.0, 4.0]))
    assert price == pytest.approx([fast, slow], abs=1e-9)


def test_the_price_is_what_the_marginal_device_adds() -> None:
    # Two jobs on five devices: the fifth lets one of them grow from two to three.
    rows = [(0, 0, 1, 1.0), (0, 0, 2, 1.8), (0, 0, 3, 2.4)]
    options = options_of([2], rows)
    assert prices(options, options.value, np.array([5.0])) == pytest.approx([0.6])
    assert prices(options, options.value, np.array([3.0])) == pytest.approx([0.8])


def test_nothing_to_price() -> None:
    options = options_of([], [])
    assert prices(options, options.value, np.array([4.0, 4.0])).tolist() == [0.0, 0.0]


def test_options_follow_guesses_and_what_was_learned() -> None:
    state = twin(jobs([4, 8], model=0), effects=Effects(speed_error=0.3)).state
    blind = state._replace(points=state.guesses)
    active = PlanDraft(state, NO_PLAN).active
    first = Options.of(state, active, 0.0)
    assert first.value.tolist() == Options.of(blind, active, 0.0).value.tolist()
    state.learned[0] = 0.5  # the first job was half as fast as thought in the first pool
    learned = Options.of(state, active, 0.0)
    mine = (learned.kind == first.of_job[0]) & (learned.pool == 0)
    assert learned.rate[mine] == pytest.approx(0.5 * first.rate[mine])
    assert learned.rate[~mine].tolist() == first.rate[~mine].tolist()


def test_eta_ends_growth_and_rigid_jobs_have_one_size() -> None:
    state = twin(jobs([4, 4], most=np.array([-1, 0]), model=0)).state
    active = PlanDraft(state, NO_PLAN).active
    free, bound, none = (Options.of(state, active, eta) for eta in (0.0, 0.7, 1.1))
    elastic, rigid = free.of_job.tolist()
    assert free.count[free.kind == elastic].max() == 12, "all T4 there are"
    assert bound.count[bound.kind == elastic].max() == 6, "two more add too little"
    assert set(none.count[none.kind == elastic].tolist()) == {1}
    assert set(none.count[none.kind == rigid].tolist()) == {4}
    for pool in (0, 1):
        mine = np.flatnonzero((bound.kind == elastic) & (bound.pool == pool))
        sizes, speeds = bound.count[mine], bound.rate[mine]
        slopes = np.diff(speeds) / np.diff(sizes)
        assert (slopes >= 0.7 * speeds[0] / sizes[0] * (1 - 1e-12)).all()


def test_the_option_a_job_has() -> None:
    options = options_of([1, 1], [(0, 0, 1, 1.0), (0, 0, 2, 1.5), (1, 1, 4, 2.0)])
    kind, pool, count = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1]), np.array([2, 4, 4, 2])
    assert options.at(kind, pool, count).tolist() == [1, 2, -1, -1]


def test_values_are_reference_work_a_second() -> None:
    state = twin(jobs([4], model=0)).state
    options = Options.of(state, PlanDraft(state, NO_PLAN).active, 0.0)
    as_asked = (options.pool == 0) & (options.count == 4)
    worth = float(state.jobs.reference_us[0] / state.jobs.estimate_us[0])
    assert options.rate[as_asked] == [1.0], "on the device and at the size it asked for"
    assert options.value[as_asked] == pytest.approx([worth])
    assert options.watts[as_asked] == pytest.approx(
        [4 * float(state.rates.watts[0]) + float(state.pools.host_w[0])]
    )
