"""`flyball bench tune`: its parts, its bars, and the mixed cluster on a small workload."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flyball.bench.tune import parts, speed
from flyball.cli.main import app
from flyball.core.errors import DataAbsent, UnknownName
from flyball.core.shared_data import shared_data
from flyball.core.workload import Workload
from flyball.experiments.run_file import RunFile
from flyball.experiments.tuning import mixed
from flyball.tune.elastic import Elastic

MODELS = ("bert (batch size 48)", "cifar10 (batch size 512)")


def small(jobs: int = 24) -> Workload:
    """Jobs that keep a mixed cluster busy for an hour or so."""
    rng = np.random.default_rng(1)
    return Workload.of(
        "small",
        np.sort(rng.uniform(0, 1800, jobs)),
        rng.uniform(1000, 4000, jobs),
        rng.choice([1, 2, 4], jobs),
        model=rng.integers(0, 2, jobs),
        models=MODELS,
        device=0,
        device_names=("T4",),
    )


def test_a_part_nobody_knows_is_refused(tmp_path: Path) -> None:
    with RunFile(tmp_path / "runs.jsonl") as runs, pytest.raises(UnknownName, match="mixed"):
        parts.run(lambda _: None, ("mixd",), runs)


@pytest.mark.parametrize("name", parts.PARTS)
def test_every_part_has_rows(name: str) -> None:
    module = import_module(f"flyball.{parts.PARTS[name].module}")
    assert callable(module.rows)


@pytest.mark.parametrize(
    ("metric", "value", "bar", "holds"),
    [
        ("work_pct", 26.0, 25.0, True),
        ("work_pct", 24.0, 25.0, False),
        ("energy_per_work_pct", -31.0, -30.0, True),
        ("energy_per_work_pct", -29.0, -30.0, False),
        ("completion_pct", 0.5, 0.0, False),
        ("round_ms", 80.0, 100.0, True),
        ("device-hours, %", -34.0, -40.0, False),
        ("loss away from undisturbed, %", 0.01, 1.0, True),
        ("node energy saved", 7.6, 7.0, True),
        ("work_pct", 1.0, None, None),
    ],
)
def test_a_bar_has_a_direction(metric: str, value: float, bar: Any, holds: Any) -> None:
    row = dict.fromkeys(("case", "load", "baseline", "low", "high"))
    row |= {"metric": metric, "value": value, "bar": bar}
    assert parts.figure_of(row).holds is holds


def test_rows_are_changes_in_percent_with_their_interval() -> None:
    case = mixed.MixedCase("a", 1.3, work=25.0)
    names = ("work", "energy_per_work", "completion", "most_changes", "mean_changes")
    more = ("worst_fairness", "unfinished")
    base = dict.fromkeys((*names, *more), 10.0)
    pairs = [({**base, "work": 13.0}, base), ({**base, "work": 12.0}, base)]
    rows = {row["metric"]: row for row in mixed.case_rows(case, pairs)}
    assert rows["work_pct"]["value"] == 25.0
    assert rows["work_pct"]["low"] < 25.0 < rows["work_pct"]["high"]
    assert rows["energy_per_work_pct"]["value"] == 0.0
    assert rows["most_changes"]["value"] == 10.0


def test_tuning_saves_energy_on_a_small_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "workload", lambda part, load: small())
    mine, base = mixed.measure(mixed.CASES[0], "newtrace/1")
    assert mine["energy_per_work"] < 0.8 * base["energy_per_work"]
    assert mine["unfinished"] == base["unfinished"] == 0


def test_load_is_what_arrives_over_what_can_be_done() -> None:
    try:
        shared_data("sia_pollux", "workloads.csv.gz")
    except DataAbsent as absent:
        pytest.skip(str(absent))
    once, twice = (mixed.workload("philly/1", load) for load in (0.7, 1.4))
    assert once.submit_us[-1] == pytest.approx(2 * twice.submit_us[-1], rel=1e-6)
    # At load 0.7 the cluster keeps up, at 1.4 it cannot: the span is shorter than the work.
    assert mixed.least_us(once) == pytest.approx(0.7 * once.submit_us[-1], rel=1e-6)


def test_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "REPEATS", 1)
    assert speed.events_per_s((), 300) > 0
    assert speed.events_per_s((Elastic(),), 60) > 0
    spent, active = speed.market_rounds_ms(speed.SIZES["64 GPUs"], 3)
    assert len(spent) == 3 and min(spent) > 0 and active > 0
    assert speed.epochs_per_s(5) > 0
    row = speed.speed_row("x", "round_ms", 2.0, [1.0, 3.0], 100.0)
    assert (row["low"], row["high"]) == (1.0, 3.0)


def test_the_command_prints_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "case": "c", "load": 1.3, "baseline": "easy", "metric": "work_pct",
        "value": 30.0, "low": 28.0, "high": 32.0, "bar": 25.0,
    }  # fmt: skip
    monkeypatch.setattr("flyball.experiments.tuning.caps.rows", lambda progress: [row])
    said = CliRunner().invoke(app, ["bench", "tune", "--only", "caps", "--json"])
    assert json.loads(said.stdout) == {"rows": [row], "not_run": []}
    said = CliRunner().invoke(app, ["bench", "tune", "--only", "caps"])
    assert "yes" in said.stdout
