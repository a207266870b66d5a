"""What prediction costs is measured, and the bars are where they belong."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from tests.predict.load.cases import daily
from typer.testing import CliRunner

from flyball.bench import predict_cost
from flyball.bench.part_runs import Part
from flyball.cli import predict_load

app = typer.Typer()
app.command("cost")(predict_load.cost)
app.command("other")(lambda: None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_cost, "venus_jobs", lambda: [daily()])
    monkeypatch.setattr(predict_cost, "names", lambda: ["last", "trees"])
    monkeypatch.setattr(predict_cost, "CLUSTER", 200)


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in rows}


def test_rows_of_time(small: None) -> None:
    said: list[str] = []
    rows = by_metric(predict_cost.cost_rows(said.append, (50, 200)))
    assert rows["% of a core, 200 series once a minute"]["bar"] == 5.0
    growth = rows["time of 200 series / of 50"]
    assert growth["bar"] == pytest.approx(200 * 5.298 / (50 * 3.912), rel=1e-3)
    assert rows["CPU s to fit all trees of a series"]["value"] > 0
    assert any("200 series" in each for each in said)
    assert all(row["target"] == predict_cost.COST for row in rows.values())


def test_the_command(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = predict_cost.cost_rows(lambda _: None, (50, 200))
    monkeypatch.setattr(predict_cost, "PARTS", {"series": Part(lambda _note: rows)})
    result = CliRunner().invoke(app, ["cost", "--json"])
    assert json.loads(result.stdout)["rows"] == rows
    assert "once a minute" in CliRunner().invoke(app, ["cost"]).stdout
