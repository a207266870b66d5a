"""What prediction costs is measured, and the bars are where they belong."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from tests.predict.load.cases import daily
from typer.testing import CliRunner

from flyball.bench.predict import cost
from flyball.cli.predict import load
from flyball.experiments.part_runs import BenchPart

app = typer.Typer()
app.command("cost")(load.cost)
app.command("other")(lambda: None)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "venus_jobs", lambda: [daily()])
    monkeypatch.setattr(cost, "names", lambda: ["last", "trees"])
    monkeypatch.setattr(cost, "CLUSTER", 200)


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in rows}


def test_rows_of_time(small: None) -> None:
    notes: list[str] = []
    rows = by_metric(cost.cost_rows(notes.append, (50, 200)))
    assert rows["% of a core, 200 series once a minute"]["bar"] == 5.0
    growth = rows["time of 200 series / of 50"]
    assert growth["bar"] == pytest.approx(200 * 5.298 / (50 * 3.912), rel=1e-3)
    assert rows["CPU s to fit all trees of a series"]["value"] > 0
    assert any("200 series" in note for note in notes)
    assert all(row["target"] == cost.COST for row in rows.values())


def test_the_command(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = cost.cost_rows(lambda _: None, (50, 200))
    monkeypatch.setattr(cost, "PARTS", {"series": BenchPart(lambda _note: rows)})
    result = CliRunner().invoke(app, ["cost", "--json"])
    assert json.loads(result.stdout)["rows"] == rows
    assert "once a minute" in CliRunner().invoke(app, ["cost"]).stdout
