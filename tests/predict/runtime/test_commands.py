"""The commands over run time and demand, called as the command line calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from flyball.cli.predict import jobs
from flyball.core.errors import BadInput

RUNNER = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    group = typer.Typer()
    group.command("runtime")(jobs.runtime)
    group.add_typer(jobs.demand, name="demand")
    return group


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten days, a job every half hour; what a tenant runs takes about as long each time."""
    draw, lines = np.random.default_rng(0), ["job,submit_s,duration_s,num_gpus,tenant"]
    for at in range(480):
        tenant = int(draw.integers(3))
        run_s = 60 * 10**tenant * draw.lognormal(0, 0.3)
        lines.append(f"j{at},{1800 * at},{run_s:.0f},1,t{tenant}")
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_backtest(app: typer.Typer, trace: Path) -> None:
    arguments = ["runtime", str(trace), "--backtest", "--test-days", "3"]
    result = RUNNER.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    report = json.loads(result.stdout)
    assert report["jobs"] == 144
    values = {row["metric"]: row for row in report["rows"]}
    assert values["spearman"]["holds"]
    assert values["spearman"]["value"] > 0.85
    assert list(report["pinball"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    half_error = report["figures"]["flyball"]["mean_abs_log_error"] / 2
    assert report["pinball"]["0.5"] == pytest.approx(half_error)
    shown = RUNNER.invoke(app, arguments, catch_exceptions=False).stdout
    assert "Pinball loss" in shown
    assert "run times of 144 jobs" in shown
    assert "0.88 to 0.92" in shown


def test_save(app: typer.Typer, trace: Path, tmp_path: Path) -> None:
    arguments = ["runtime", str(trace), "--save", str(tmp_path / "model")]
    assert "480 jobs" in RUNNER.invoke(app, arguments, catch_exceptions=False).stdout
    assert (tmp_path / "model" / "runtime.json").exists()


def test_nothing_to_do(app: typer.Typer, trace: Path) -> None:
    with pytest.raises(BadInput, match="--backtest"):
        RUNNER.invoke(app, ["runtime", str(trace)], catch_exceptions=False)


def test_one(app: typer.Typer) -> None:
    arguments = ["demand", "one", "--device", "T4", "--set", "model_type=soup"]
    shown = RUNNER.invoke(app, arguments, catch_exceptions=False).stdout
    assert "'soup' is not known" in shown
    demand = json.loads(RUNNER.invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert demand["step_s"]["low"] < demand["step_s"]["value"] < demand["step_s"]["high"]
    with pytest.raises(BadInput, match="field=value"):
        RUNNER.invoke(app, [*arguments, "--set", "colour=red"], catch_exceptions=False)
