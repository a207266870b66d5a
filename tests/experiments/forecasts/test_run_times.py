"""What quantiles of predicted run times are worth: predictions, late heads, rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from flyball.cli.bench import run_times as command
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.experiments.forecasts import run_times
from flyball.experiments.forecasts.predicted import with_predictions
from flyball.predict.runtime.trees import MIDDLE
from flyball.twin.twin import Twin

NODE = Cluster("one", (NodeGroup("n", 1, "V100", 2),))


def test_predictions_come_from_what_had_ended() -> None:
    """Ada repeats a job of 100 s; the first is unknown, later ones are as those before."""
    work = Workload.of("w", 1000.0 * np.arange(8), 100.0, user=0, users=("ada",), kind=0)
    predicted = with_predictions(NODE, work, Effects(estimate_sigma=1.0))
    assert predicted.quantiles_us is not None
    assert predicted.estimate_us[0] == pytest.approx(3600.0 * US_PER_S)
    np.testing.assert_allclose(predicted.estimate_us[1:], 100.0 * US_PER_S)
    assert (predicted.estimate_us == predicted.quantiles_us[:, MIDDLE]).all()
    busy = replace(work, submit_us=work.submit_us // 1000, duration_us=work.duration_us)
    waits = with_predictions(NODE, replace(busy, devices=busy.devices * 2), Effects())
    assert waits.estimate_us[-1] == pytest.approx(3600.0 * US_PER_S), "nothing had ended by then"


def test_a_head_is_late_if_an_estimate_was_too_short() -> None:
    estimates_s = np.array([50.0, 50.0])
    work = Workload.of(
        "w", [0, 1], [100.0, 50.0], [2, 2], kind=0, estimate_us=estimates_s * US_PER_S
    )
    knobs = Knobs(backfill=Backfill.EASY)
    assert run_times.run_watched(Twin(NODE, work, knobs)) == 1.0
    exact = replace(work, estimate_us=work.duration_us.copy())
    assert run_times.run_watched(Twin(NODE, exact, knobs)) == 0.0


def figures(value: float) -> dict[str, float]:
    return dict.fromkeys(run_times.METRICS, value)


def test_rows_are_changes_against_the_median() -> None:
    cells: dict[Any, Any] = {}
    for level in run_times.LEVELS:
        gain = 0.9 if level == 0.75 else 1.0
        cells["uniform", "stated", "easy", level] = {s: figures(10.0 * gain) for s in (0, 1, 1000)}
    picks = run_times.choose(cells, [1000])
    rows = run_times.rows_of_table(cells, picks, [0, 1])
    chosen = [row for row in rows if row["chosen"]]
    assert {row["level"] for row in chosen} == {0.75}
    assert {row["scenario"] for row in chosen} == {"uniform", "all"}
    assert chosen[0]["completion_mean_s"]["change"] == pytest.approx(-0.1)
    assert chosen[0]["late_heads"]["change"] == pytest.approx(-1.0)


def test_rows_of_the_joint_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: dict[Any, Any] = {}
    for level, gain in zip(run_times.LEVELS, (1.2, 1.0, 0.9, 1.0), strict=True):
        cells["uniform", "stated", "easy", level] = {
            seed: figures(10.0 * gain + seed) for seed in (0, 1, 1000)
        }
    picks = run_times.choose(cells, [1000])
    table = run_times.rows_of_table(cells, picks, [0, 1])
    monkeypatch.setattr(run_times, "run", lambda _seeds: {"rows": table})
    notes: list[str] = []
    rows = run_times.rows(notes.append, 2)
    completion = {
        (row["case"], row["arm"]): row for row in rows if row["metric"] == "mean completion s"
    }
    where = "easy, stated run times, "
    assert set(completion) == {
        (f"{where}all", "level 0.25"),
        (f"{where}all", "level 0.9"),
        (f"{where}all", "level 0.75 (chosen)"),
        (f"{where}uniform", "level 0.75 (chosen)"),
    }
    chosen = completion[f"{where}all", "level 0.75 (chosen)"]
    assert chosen["value"] == pytest.approx(-50.0 * (1 / 10 + 1 / 11))
    assert (chosen["base"], chosen["n"], chosen["verdict"]) == (10.5, 2, "pays")
    assert completion[f"{where}all", "level 0.25"]["verdict"] == "costs"
    assert len(notes) == 1


def test_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_times, "CHOOSING_SEEDS", 1)
    monkeypatch.setattr(run_times, "LEVELS", (0.5, 0.9))
    app = typer.Typer()
    app.command()(command.run_times)
    arguments = ["--seeds", "1", "--scenarios", "uniform", "--jobs", "100"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "Change against level 0.5" in shown
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    report = json.loads(result.stdout)
    plain = [row for row in report["rows"] if row["level"] == 0.5]
    assert all(row["completion_mean_s"]["change"] == 0.0 for row in plain)
    assert {row["policy"] for row in plain} == {*run_times.BACKFILLING, *run_times.ORDERING}
