"""The experiment on daily load: arms of a seed share their jobs and differ in the outlook."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from flyball.cli.main import run
from flyball.core.cluster import Cluster, NodeGroup
from flyball.experiments.forecasts import daily_load
from flyball.experiments.forecasts.daily_load import CASES, TrueFuture, WithinArrivals
from flyball.predict.load.live_series import devices_at
from flyball.twin.load_forecast import LoadForecast


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of 16 nodes for some hours."""
    nodes = Cluster("16 nodes", (NodeGroup("n", 16, "V100", 8),))
    monkeypatch.setattr(daily_load, "CLUSTER", nodes)
    monkeypatch.setattr(daily_load, "DAYS", 0.2)
    monkeypatch.setattr(daily_load, "LONGEST_S", 3600.0)
    daily_load._days.cache_clear()


def test_the_true_future_is_the_load_that_came() -> None:
    case = CASES[0]
    done = case.run(5, None, case.plain).results
    future = TrueFuture(done)
    twin_state = np.rec.array([(30 * 60 * 10**6,)], dtype=[("now_us", "i8")])

    class State:
        clock = twin_state

    ahead = future(State()).load  # type: ignore[arg-type]
    assert ahead is not None
    at_us = (30 + np.arange(1, 61)) * 60 * 10**6
    load = devices_at(done.submit_us, done.end_us, done.devices * done.milli, at_us)
    assert ahead.mean.tolist() == load.tolist()
    assert (ahead.quantiles == ahead.mean).all()
    last = int(done.submit_us[-1])
    assert WithinArrivals(LoadForecast(), last).fresh()._last_us == last


def test_rows_compare_every_arm_with_the_rule_alone() -> None:
    rows = daily_load.rows(lambda _text: None, 1, [replace(CASES[0], load=0.4)], first=7)
    assert {row["arm"] for row in rows} == {
        "no forecast, same settings", "forecast", "true future"
    }  # fmt: skip
    assert {row["against"] for row in rows} == {"no forecast"}
    assert {row["verdict"] for row in rows} <= {"no difference", ""}, "one seed proves nothing"
    metrics = {row["metric"] for row in rows}
    assert any(metric.startswith("energy per work") for metric in metrics)


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["bench", "forecasts", "--only", "nights"]) == 2
    assert "part" in capsys.readouterr().err
    assert run(["bench", "forecasts", "--help"]) == 0
    assert "  flyball bench forecasts" in capsys.readouterr().out
    monkeypatch.setattr(daily_load, "rows", lambda note, seeds: [ROW | {"n": seeds}])
    assert run(["bench", "forecasts", "--only", "load", "--seeds", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": [ROW | {"n": 2}], "not_run": []}
    assert run(["bench", "forecasts", "--only", "load", "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    assert "-3.00 % (-4.00..-2.00)" in shown and "pays" in shown


ROW = {
    "case": "load: x", "arm": "forecast", "against": "no forecast", "metric": "energy", "unit": "%",
    "value": -3.0, "low": -4.0, "high": -2.0, "n": 2, "base": 0.3, "verdict": "pays",
}  # fmt: skip
