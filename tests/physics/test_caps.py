"""The choice of caps: exact on small cases, and as good as trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flyball.core.records import CAP_LEVELS
from flyball.core.results import Floats
from flyball.physics import catalogue
from flyball.physics.caps import (
    Ladder,
    best_level,
    blend,
    fit_budget,
    host_of,
    node_energy,
    steepened,
)
from flyball.physics.power import cap_factors


def curve(device: str) -> Floats:
    """Time and power factors by level."""
    kind = catalogue.get(device)
    return np.array([cap_factors(kind, 1 - 0.05 * level) for level in range(CAP_LEVELS)]).T


def test_a_host_of_a_quarter_is_a_third_of_the_device() -> None:
    assert host_of(300.0) == pytest.approx(100.0)


def test_node_energy_counts_the_host_for_longer() -> None:
    one = np.ones(1)
    assert node_energy(1.06 * one, 0.8 * one, 300 * one, 100 * one)[0] == pytest.approx(
        1.06 * (240 + 100) / 400
    )


@pytest.mark.parametrize("device", ["V100", "A100", "T4", "P100"])
@pytest.mark.parametrize("slowdown", [0.0, 0.03, 0.06, 0.1, 1.0])
def test_the_exact_search_ends_where_a_descent_along_the_curve_does(
    device: str, slowdown: float
) -> None:
    time, power = curve(device)
    energy = node_energy(time, power, np.array(200.0), np.array(host_of(200.0)))
    level = int(best_level(time[None], energy[None], 1.0 + slowdown)[0])
    at = 0
    while at + 1 < CAP_LEVELS and time[at + 1] <= 1 + slowdown and energy[at + 1] < energy[at]:
        at += 1  # projected: never beyond the limit
    assert level == at


def test_no_cap_is_always_allowed_and_each_job_has_its_own_limit() -> None:
    time, power = curve("V100")
    energy = node_energy(time, power, np.array(250.0), np.array(80.0))
    both = np.stack([time, time]), np.stack([energy, energy])
    assert best_level(*both, np.array([0.5, 1.06])).tolist() == [0, 2]


def ladder(jobs: int, seed: int) -> Ladder:
    rng = np.random.default_rng(seed)
    curves = [curve(name) for name in ("V100", "A100", "P100")]
    mine = [curves[rng.integers(3)][:, ::3] for _ in range(jobs)]
    watts = np.array([rng.uniform(50, 400) * curve[1] for curve in mine])
    return Ladder(watts, np.array([curve[0] for curve in mine]), rng.uniform(0.5, 8.0, jobs))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("part", [0.95, 0.8, 0.65])
def test_a_budget_costs_little_more_than_the_best_of_all_choices(seed: int, part: float) -> None:
    jobs = ladder(5, seed)
    most_w = part * float(jobs.watts[:, 0].sum())
    levels, lost = fit_budget(jobs, np.zeros(5, np.int64), most_w)
    rows = np.arange(5)
    assert jobs.watts[rows, levels].sum() <= most_w
    assert lost == pytest.approx(float((jobs.weight * (1 - 1 / jobs.time[rows, levels])).sum()))
    best = min(
        float((jobs.weight * (1 - 1 / jobs.time[rows, choice])).sum())
        for choice in itertools.product(range(4), repeat=5)
        if jobs.watts[rows, choice].sum() <= most_w
    )
    # The last step may save more than was needed, and no more than the largest step costs.
    steps = jobs.weight[:, None] * -np.diff(1 / jobs.time, axis=1)
    assert best <= lost + 1e-9 <= best + steps.max() + 1e-9


def test_a_budget_that_cannot_be_kept_gets_the_strongest_caps() -> None:
    jobs = ladder(3, 1)
    levels, _ = fit_budget(jobs, np.zeros(3, np.int64), 1.0)
    assert levels.tolist() == [3, 3, 3]
    assert fit_budget(jobs, np.array([1, 0, 2]), 1e9)[0].tolist() == [1, 0, 2]


def test_a_kind_has_its_own_steepness_as_far_as_it_was_seen() -> None:
    shape = np.linspace(0.0, 0.3, 4)
    all_of_them = np.exp(np.stack([0.5 * shape, shape, 1.5 * shape]))
    twice = np.exp(2 * shape)[None]
    assert steepened(np.zeros((0, 4)), all_of_them, 3.0) == pytest.approx(np.exp(shape))
    assert steepened(twice, all_of_them, 1.0) == pytest.approx(np.exp(1.5 * shape))
    assert steepened(twice, all_of_them, 1e-9) == pytest.approx(np.exp(2 * shape))
    assert steepened(1 / twice, all_of_them, 1e-9) == pytest.approx(np.ones(4))  # never faster


def test_few_curves_are_drawn_towards_all() -> None:
    assert blend(np.full((1, 2), 4.0), np.full((9, 2), 1.0), 2.0) == pytest.approx([2.0, 2.0])
