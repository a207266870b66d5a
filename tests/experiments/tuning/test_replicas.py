"""The bench of replicas: what it reads, what it compares with, and that it looks at no future."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flyball.core.errors import DataAbsent
from flyball.core.results import Floats
from flyball.core.shared_data import VARIABLE
from flyball.experiments.tuning import replicas
from flyball.experiments.tuning.replicas import (
    ROUND_S,
    WARM_ROUNDS,
    Brought,
    Hpa,
    Week,
    rows,
    serve,
    smallest_fleets,
    upper_rates,
)
from flyball.experiments.tuning.servegen import CASES, ServiceRecord, recorded
from flyball.physics.serving import steady

STEPS = 2016


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service of two weeks with a day in it, small enough for a test."""
    hours = np.arange(STEPS) / 6.0
    rates = 40.0 + 30.0 * np.sin(hours * 2 * np.pi / 24.0)
    record = ServiceRecord(rates, np.full(STEPS, 20.0), steady(400.0, 60.0))
    monkeypatch.setattr(replicas, "recorded", lambda: dict.fromkeys(CASES, record))
    monkeypatch.setattr(replicas, "_carried", lambda name: Week(name, False, 0).queue.carried(64))


def brought(arrived: list[float]) -> Brought:
    seen = np.array(arrived)
    return Brought(0, seen, seen, 0.0 * seen)


@pytest.mark.usefixtures("small")
def test_replicas_follow_the_day_and_keep_the_target() -> None:
    table = rows(cases=["m-large"], seeds=[1])
    assert [set(row) for row in table] == [
        {"case", "load", "baseline", "metric", "value", "low", "high", "bar"}
    ] * len(table)
    by = {(row["load"], row["metric"]): row for row in table if "HPA" not in row["baseline"]}
    saved = by["week 2, lines", "device-hours, %"]
    assert saved["bar"] == -40.0
    assert saved["low"] <= saved["value"] <= saved["high"] < -10.0
    for load in ("week 2, lines", "week 2, steps"):
        assert by[load, replicas.WITHIN]["value"] >= 99.0
    assert any("HPA" in row["baseline"] for row in table)


@pytest.mark.usefixtures("small")
def test_the_smallest_fleet_is_the_smallest() -> None:
    week = Week("m-large", False, 1)
    (count, outcome), again = smallest_fleets([week, week])
    assert again[0] == count
    assert outcome.within >= 0.99
    assert serve([week], [count - 1], None)[0].within < 0.99
    assert outcome.device_h == pytest.approx(count * week.replica.devices * 168)


@pytest.mark.usefixtures("small")
def test_forecasts_do_not_see_what_comes() -> None:
    week = Week("m-large", False, 1)
    seen: Floats = np.full(WARM_ROUNDS + 10_080, 40.0 * ROUND_S)
    other = seen.copy()
    other[5_000:] *= 7.0
    one, two = upper_rates(week, seen), upper_rates(week, other)
    assert one[:5_000].tolist() == two[:5_000].tolist()
    assert two[5_100] > 2 * one[5_100]


@pytest.mark.usefixtures("small")
def test_the_rival_waits_before_it_scales_down() -> None:
    week = Week("m-large", False, 1)
    per_replica = 0.7 * week.queue.each_rps * ROUND_S
    rule = Hpa([week])
    assert rule.order(brought([10 * per_replica]), np.array([4])).tolist() == [10]
    assert rule.order(brought([10.5 * per_replica]), np.array([10])).tolist() == [10]  # near enough
    for _ in range(4):
        assert rule.order(brought([3 * per_replica]), np.array([10])).tolist() == [10]
    assert rule.order(brought([3 * per_replica]), np.array([10])).tolist() == [3]


def test_without_the_data_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    recorded.cache_clear()
    with pytest.raises(DataAbsent, match="servegen_2025") as absent:
        rows()
    assert absent.value.exit_code == 75


def test_the_records_are_those_of_two_weeks() -> None:
    recorded.cache_clear()
    try:
        services = recorded()
    except DataAbsent as absent:
        pytest.skip(f"the records are not on this machine: {absent}")
    assert set(services) == set(CASES)
    for name, (low, high) in {
        "m-large": (196, 583), "m-mid": (1790, 3445), "m-small": (1174, 3880),
    }.items():  # fmt: skip
        record = services[name]
        assert len(record.rates_rps) == len(record.dispersion) == STEPS
        assert record.rates_rps.mean() == pytest.approx(low, rel=0.01)
        assert record.rates_rps.max() == pytest.approx(high, rel=0.01)
        assert (record.dispersion >= 0).all()
    assert services["m-large"].lengths.means == pytest.approx((1023, 162), rel=0.01)
