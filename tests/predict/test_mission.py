"""The whole table: parts are whole, a stopped run goes on, processes measure side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.predict.load.test_backtest import small_targets

from flyball.bench import predict_mission
from flyball.bench.predict_load import measure


def small_parts() -> dict[str, Any]:
    return {name: partial(measure, name, target) for name, target in small_targets().items()}


def test_rows_are_whole_and_a_stopped_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_mission, "PARTS", small_parts())
    said: list[str] = []
    saved: list[dict[str, Any]] = []
    first = predict_mission.run({}, said.append, saved.append, only=["one"])
    assert {row["target"] for row in first["rows"]} == {"one"}
    assert first["parts"] == ["one"]
    assert saved[-1] == first
    assert any("one: fitting" in each for each in said)
    said.clear()
    whole = predict_mission.run(first, said.append)
    assert whole["rows"][: len(first["rows"])] == first["rows"]
    assert not any("one:" in each for each in said)
    for row in whole["rows"]:
        assert {"target", "horizon", "metric", "value", "bar", "baseline", "n"} <= set(row)
        assert (row["bar"] is None) == (row["holds"] is None)
        assert row["n"] > 0
    verdicts = {(row["target"], row["metric"]): row["holds"] for row in whole["rows"]}
    assert verdicts["two", "rMAE"] is True  # the last row: all horizons together
    assert "up to" in whole["rows"][-1]["horizon"]


@pytest.mark.soak
def test_parts_are_measured_in_processes_of_their_own() -> None:
    """Real ones: two parts that need no data but what ships."""
    said: list[str] = []
    names = [name for name in predict_mission.PARTS if name.startswith("utilisation")]
    assert len(names) == 2
    done = [name for name in predict_mission.PARTS if name not in names]
    table = predict_mission.run({"rows": [], "parts": done}, said.append, workers=2)
    assert set(table["parts"]) == set(predict_mission.PARTS)
    assert {row["target"] for row in table["rows"]} == set(names)
    assert any(each.startswith(names[0]) for each in said)
