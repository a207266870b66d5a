"""A formula plus a learnt residual."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core.errors import BadInput, DataAbsent, Unavailable, UnknownName
from flyball.core.protocols import Estimator
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.experiments.demand import tasks
from flyball.predict.demand.formulas import VALUE, Row
from flyball.predict.demand.learner import LEVELS, Learner
from flyball.predict.demand.memory import Memory
from flyball.predict.demand.residual import ResidualTreeSettings, Ridge

SMALL = ResidualTreeSettings(rounds=60, leaves=7, least_rows=5, rate=0.1)


class Area:
    """A wrong formula: it takes the area and forgets the colour."""

    names: tuple[str, ...] = ("colour", "log_side")
    coded: tuple[int, ...] = (0,)

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        pass

    def logs(self, rows: Sequence[Row]) -> Floats:
        return 2.0 * self.features(rows)[:, 1]

    def features(self, rows: Sequence[Row]) -> Floats:
        return np.array([[float(str(r["colour"])), np.log(float(str(r["side"])))] for r in rows])

    def as_dict(self) -> dict[str, Any]:
        return {}

    def restore(self, values: Mapping[str, Any]) -> None:
        pass


def squares(count: int, kinks: bool, seed: int = 0) -> list[Row]:
    """Colour 1 takes twice as long; with `kinks` sides above 5 take three times as long."""
    draw = np.random.default_rng(seed)
    rows: list[Row] = []
    for _ in range(count):
        colour, side = int(draw.integers(2)), float(draw.uniform(1, 10))
        value = side**2 * (2.0 if colour else 1.0) * (3.0 if kinks and side > 5 else 1.0)
        rows.append({"colour": colour, "side": side, VALUE: value * draw.lognormal(0, 0.02)})
    return rows


def error(learner: Learner, rows: Sequence[Row]) -> float:
    measured = np.array([float(str(row[VALUE])) for row in rows])
    return float(np.mean(np.abs(learner.predict(rows)[:, 1] / measured - 1.0)))


def test_few_rows_take_ridge_and_many_take_trees() -> None:
    few = Learner(Area(), SMALL)
    few.fit(squares(150, kinks=False))
    assert few.chosen == "ridge"
    assert "trees" not in few.tried
    many = Learner(Area(), SMALL)
    many.fit(squares(600, kinks=True))
    assert many.chosen == "trees"
    assert error(many, squares(200, True, 1)) < 0.06 < many.tried["none"]


def test_contract_and_band() -> None:
    learner = Learner(Area(), SMALL)
    estimator: Estimator = learner
    estimator.fit(squares(600, kinks=False))
    held = squares(400, False, 2)
    quantiles = estimator.predict(held)
    assert quantiles.shape == (400, len(LEVELS))
    measured = np.array([float(str(row[VALUE])) for row in held])
    inside = np.mean((measured >= quantiles[:, 0]) & (measured <= quantiles[:, 2]))
    assert 0.84 <= inside <= 0.96
    assert estimator.predict([]).shape == (0, len(LEVELS))


def test_the_band_of_an_unmeasured_value_is_wider() -> None:
    plain, by_colour = Learner(Area(), SMALL), Learner(Area(), SMALL, fold_by="colour")
    rows = squares(300, kinks=False)
    plain.fit(rows)
    by_colour.fit(rows)

    def width(learner: Learner) -> float:
        quantiles = learner.predict(rows[:1])[0]
        return float(quantiles[2] / quantiles[0])

    assert width(by_colour) > 2.0 > width(plain)


def test_too_few_rows() -> None:
    with pytest.raises(BadInput, match="9 rows"):
        Learner(Area()).fit(squares(9, False))


@pytest.mark.parametrize("count", [100, 400])
def test_files(tmp_path: Path, count: int) -> None:
    learner = Learner(Area(), SMALL)
    learner.fit(squares(count, kinks=True))
    learner.save(tmp_path / "area")
    assert json.loads((tmp_path / "area.json").read_text())["chosen"] == learner.chosen
    assert (tmp_path / "area.txt").exists() == (learner.chosen == "trees")
    held = squares(20, True, 3)
    again = Learner.load(tmp_path / "area", Area())
    np.testing.assert_allclose(again.predict(held), learner.predict(held))


def test_files_that_do_not_serve(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no demand model"):
        Learner.load(tmp_path / "none", Area())
    learner = Learner(Area(), SMALL)
    learner.fit(squares(50, False))
    learner.save(tmp_path / "area")
    with pytest.raises(BadInput, match="another kind"):
        Learner.load(tmp_path / "area", Memory())


def test_ridge_takes_missing_values_as_the_mean() -> None:
    model, table = Ridge((0,)), np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, np.nan]])
    model.fit(table, np.array([1.0, 2.0, 3.0, 2.0]))
    assert np.all(np.isfinite(model.predict(np.array([[np.nan, np.nan], [0.0, 99.0]]))))


def test_methods_and_tasks() -> None:
    with pytest.raises(UnknownName, match="demand task"):
        tasks.task_of("weather")
    task = tasks.Task("t", "t", 0.1, Area, lambda: squares(300, True), SMALL)
    rows = task.rows()
    ours, plain = tasks.evaluate(task, rows), tasks.evaluate(task, rows, "formula")
    assert ours.mape < 0.1 < plain.mape
    assert ours.how == "formula and trees"
    for method in ("ridge", "lightgbm"):
        assert tasks.evaluate(task, rows, method).mape < plain.mape
    with pytest.raises(UnknownName, match="method"):
        tasks.evaluate(task, rows, "oracle")
    try:
        tasks.evaluate(task, rows, "extratrees")
    except Unavailable as error_:
        assert "scikit-learn" in str(error_)


def test_measured_throughput_holds_its_bar() -> None:
    """The smallest of the real tables, whole."""
    try:
        shared_data("gavel")
    except DataAbsent:
        pytest.skip("no shared data")
    task = tasks.TASKS["throughput"]
    assert tasks.evaluate(task, task.rows()).mape <= task.bar
