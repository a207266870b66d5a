"""The whole table: parts are whole, a stopped run goes on, processes measure side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.predict.load.test_backtest import small_targets

from flyball.bench.predict import mission
from flyball.bench.predict.load import measure
from flyball.experiments import part_runs
from flyball.experiments.part_runs import BenchPart
from flyball.experiments.run_file import RunFile


def small_parts() -> dict[str, BenchPart]:
    return {
        name: BenchPart(partial(measure, name, target)) for name, target in small_targets().items()
    }


def test_rows_are_whole_and_a_stopped_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mission, "PARTS", small_parts())
    notes: list[str] = []
    with RunFile(tmp_path / "runs.jsonl") as runs:
        first = mission.run(notes.append, runs, only=["one"])
    assert {row["target"] for row in first.rows} == {"one"}
    assert any("one: fitting" in note for note in notes)
    notes.clear()
    with RunFile(tmp_path / "runs.jsonl") as runs:
        table = mission.run(notes.append, runs)
    assert table.results["one"] == first.results["one"]
    assert not any("one:" in note for note in notes)
    for row in table.rows:
        assert {"target", "horizon", "metric", "value", "bar", "baseline", "n"} <= set(row)
        assert (row["bar"] is None) == (row["holds"] is None)
        assert row["n"] > 0
    verdicts = {(row["target"], row["metric"]): row["holds"] for row in table.rows}
    assert verdicts["two", "rMAE"] is True  # the last row: all horizons together
    assert "up to" in table.rows[-1]["horizon"]


def test_parts_that_need_torch_are_left_out_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others are measured; on a base install `utilisation` used to end the whole table."""
    monkeypatch.setattr(part_runs, "find_spec", lambda name: None)
    nets = [name for name, part in mission.PARTS.items() if part.modules]
    assert nets == ["utilisation, bursty", "utilisation, iterative"]
    parts = {**{name: mission.PARTS[name] for name in nets}, **small_parts()}
    monkeypatch.setattr(mission, "PARTS", parts)
    notes: list[str] = []
    with RunFile(tmp_path / "runs.jsonl") as runs:
        outcome = mission.run(notes.append, runs)
    assert list(outcome.results) == ["one", "two"]
    assert [part.part for part in outcome.not_run] == nets
    assert "pip install 'flyball[learn]'" in notes[0], "said before anything is measured"
    assert outcome.exit_code == 0


@pytest.mark.soak
def test_parts_are_measured_in_processes_of_their_own(tmp_path: Path) -> None:
    """Real ones: two parts that need no data but what ships."""
    pytest.importorskip("torch")
    notes: list[str] = []
    names = [name for name in mission.PARTS if name.startswith("utilisation")]
    assert len(names) == 2
    with RunFile(tmp_path / "runs.jsonl") as runs:
        outcome = mission.run(notes.append, runs, names, workers=2)
    assert list(outcome.results) == names
    assert {row["target"] for row in outcome.rows} == set(names)
    assert any(note.startswith(names[0]) for note in notes)
