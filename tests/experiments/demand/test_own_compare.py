"""The measured set that ships, the models learnt from it, and their rivals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from flyball.bench.predict import jobs as bench
from flyball.cli.predict import jobs
from flyball.core.errors import Unavailable, UnknownName
from flyball.experiments.demand import own_compare, rivals
from flyball.predict.demand import own_model
from flyball.predict.demand.describe import one
from flyball.predict.demand.formulas import VALUE
from flyball.predict.demand.measure_shapes import TYPES
from flyball.predict.demand.own_steps import TARGETS, OwnFormula, learner, own_rows

RUNNER = CliRunner()
FEW = tuple(row for row in own_rows() if row["model_type"] in ("mlp", "gru", "resnet"))
"""For commands: how many types there are changes nothing but the time they take."""
KNOWN = {
    "model_type": "MLP",
    "parameters": 1e5,
    "batch_size": 64,
    "input_size": 64,
    "layers": 4,
    "optimizer": "adam",
}


def test_the_set_that_ships() -> None:
    rows = own_rows()
    assert len(rows) >= 517
    assert {row["model_type"] for row in rows} == set(TYPES)
    assert {row["precision"] for row in rows} == {"fp32", "bf16"}
    steps = np.array([float(str(row["step_s"])) for row in rows])
    assert steps.max() / steps.min() > 1000.0
    card = json.loads(
        Path(bench.__file__).parents[2].joinpath("data/measured_steps.json").read_text()
    )
    assert card["rows"] == len(rows)


@pytest.mark.parametrize("target", list(TARGETS))
def test_ours_holds_its_bar(target: str) -> None:
    """On splits that the figures are not made of."""
    rows = own_rows()
    parts = [
        own_compare.estimate(rows, own_compare.at_random(rows, seed), "flyball + flops", target)
        for seed in (7, 8)
    ]
    errors = own_compare.figures(own_compare.joined(parts))
    assert errors.r2 >= bench.OWN_BAR
    assert 0.8 <= errors.coverage <= 0.97
    assert errors.rows == 2 * round(0.3 * len(rows))


def test_the_formula_recovers_the_costs_of_a_step() -> None:
    """Times made of 0.2 s for 10 GFLOP, 3 s for a GB of optimiser, and 2 ms."""
    rows = [dict(row) for row in own_rows() if row["model_type"] in ("mlp", "transformer")]
    for row in rows:
        states = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1}.get(str(row["optimizer"]), 2)
        extra = states + (row["regularization"] == "l1")
        work, numbers = float(str(row["flops"])), float(str(row["parameters"]))
        row[VALUE] = 0.2 * work * 1e-10 + 3.0 * numbers * 4e-9 * extra + 2e-3
    formula = OwnFormula("step", counted=True)
    logs = np.log([float(str(row[VALUE])) for row in rows])
    formula.fit(rows, logs)
    assert np.sqrt(np.mean((formula.logs(rows) - logs) ** 2)) < 0.02
    again = OwnFormula("step", counted=True)
    again.restore(json.loads(json.dumps(formula.as_dict())))
    np.testing.assert_allclose(again.features(rows), formula.features(rows))


def test_an_unmeasured_type_has_the_costs_of_all() -> None:
    rows = [{**row, VALUE: row["step_s"]} for row in own_rows() if row["model_type"] != "gru"]
    own = learner("step", fold_by="model_type")
    own.fit(rows)
    unseen = [row for row in own_rows() if row["model_type"] == "gru"][:20]
    quantiles = own.predict(unseen)
    assert np.all(np.isfinite(quantiles))
    assert np.all(quantiles[:, 0] < quantiles[:, 2])


def test_figures_by_hand() -> None:
    point, actual = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 3.0])
    inside = np.array([True, False, True])
    errors = own_compare.figures(own_compare.Estimated(point, actual, inside))
    assert errors.mse == pytest.approx(1 / 3)
    assert errors.mae == pytest.approx(1 / 3)
    assert errors.mape == pytest.approx((1 - np.exp(-1)) / 3)
    assert errors.r2 == pytest.approx(1 - (1 / 3) / np.var(actual))
    assert errors.coverage == pytest.approx(2 / 3)


def test_names() -> None:
    with pytest.raises(UnknownName, match="method"):
        own_compare.check("oracle", "step")
    with pytest.raises(UnknownName, match="target"):
        own_compare.check("flyball", "weather")


@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_rivals_learn(name: str) -> None:
    pytest.importorskip({"extratrees": "sklearn"}.get(name, name))
    draw = np.random.default_rng(0)
    table = np.column_stack([draw.uniform(0, 1, (240, 2)), draw.integers(0, 3, 240)])
    logs = 3.0 * table[:, 0] + np.array([0.0, 1.0, -1.0])[table[:, 2].astype(int)]
    errors = []
    for tuned in (False, True):
        predicted = rivals.rival_logs(name, table[:180], logs[:180], table[180:], (2,), tuned)
        errors.append(float(np.mean((predicted - logs[180:]) ** 2)))
    assert max(errors) < 0.2 * np.var(logs)


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr(rivals, "import_module", absent)
    monkeypatch.setattr(own_compare, "import_module", absent)
    with pytest.raises(Unavailable, match=r"flyball\[learn\]"):
        own_compare.net_module()
    report = bench.own_compare(["step"], (1,), ("catboost", own_compare.NET))
    assert [sorted(row) for row in report["random"]] == [
        ["absent", "coverage", "method", "task"]
    ] * 2
    assert report["unseen_type"] == []
    assert report["best"] == {"own-step": {}}


def test_one_core_takes_what_was_learnt() -> None:
    demand = one(KNOWN, "CPU1")
    assert "learnt from steps measured" in demand.step_s.basis
    assert "another core may differ" in demand.step_s.basis
    assert demand.step_s.low < demand.step_s.value < demand.step_s.high
    assert 1e-4 < demand.step_s.value < 0.1
    assert 0.5 < demand.memory_mib.value < 100.0
    graph = one({**KNOWN, "model_type": "gcn", "parameters": 1e4, "batch_size": 4}, "CPU1")
    assert "learnt" in graph.step_s.basis
    assert graph.remarks == ()
    for device, change in (
        ("A100", {}),
        ("CPU1", {"parameters": 1e12}),
        ("CPU1", {"batch_size": ""}),
        ("CPU1", {"model_type": "soup"}),
        ("CPU64", {}),
    ):
        assert "learnt" not in one({**KNOWN, **change}, device).step_s.basis
    assert "learnt" not in one(KNOWN, "CPU1", 2).step_s.basis


def test_shipped_models_are_those_of_the_shipped_set() -> None:
    """Fitted anew they say the same, but for the last digits of another processor."""
    for target in TARGETS:
        own = learner(target)
        own.fit([{**row, VALUE: row[TARGETS[target]]} for row in own_rows()])
        fresh = own.predict(own_rows()[:40])
        shipped = own_model._model(target).predict(own_rows()[:40])
        np.testing.assert_allclose(shipped, fresh, rtol=0.02)


@pytest.fixture
def app() -> typer.Typer:
    group = typer.Typer()
    group.add_typer(jobs.demand, name="demand")
    return group


def test_compare_command(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "own_rows", lambda: FEW)
    asked = ["demand", "compare", "--task", "own-memory", "--splits", "2", "--method", "lightgbm"]
    asked += ["--method", "flyball"]
    report = json.loads(RUNNER.invoke(app, [*asked, "--json"], catch_exceptions=False).stdout)
    ours = {row["method"]: row for row in report["own"]["random"]}
    assert ours["flyball"]["r2"] > ours["lightgbm"]["r2"]
    assert ours["flyball"]["r2_interval"] >= 0.0
    assert ours["lightgbm"]["coverage"] is None
    assert set(report["own"]["unseen_type"][0]["mape_by_type"]) == {"mlp", "gru", "resnet"}
    assert report["own"]["best"]["own-memory"]["stated columns"] == "flyball"
    with pytest.raises(UnknownName, match="method"):
        RUNNER.invoke(app, [*asked, "--method", "oracle"], catch_exceptions=False)
    with pytest.raises(UnknownName, match="demand task"):
        RUNNER.invoke(app, [*asked, "--task", "weather"], catch_exceptions=False)


def test_compare_command_for_people(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "own_rows", lambda: FEW)
    asked = ["demand", "compare", "--task", "own-memory", "--splits", "1", "--method", "lightgbm"]
    shown = RUNNER.invoke(app, asked, catch_exceptions=False).stdout
    assert "0.855" in shown
    assert "own-memory, stated columns: best is lightgbm." in shown


def test_fit_command(app: typer.Typer, tmp_path: Path) -> None:
    asked = ["demand", "fit", str(tmp_path), "--task", "own-memory", "--json"]
    report = json.loads(RUNNER.invoke(app, asked, catch_exceptions=False).stdout)
    assert report["own-memory"]["rows"] == len(own_rows())
    assert (tmp_path / "own-memory.json").exists()


def test_rows_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "OWN_TARGETS", {"memory": "peak memory"})
    monkeypatch.setattr(bench, "own_rows", lambda: FEW)
    rows = bench.own_rows_of_table(seeds=(7,))
    assert [row["bar"] for row in rows] == [bench.OWN_BAR, None]
    assert rows[0]["holds"] == (rows[0]["value"] >= bench.OWN_BAR)
    assert rows[0]["value"] > rows[0]["baseline"]
    assert rows[1]["n"] == len(FEW)
