"""Durations hold on the hardware they were recorded on, and every scaling is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run

SACCT = """JobID|Submit|Start|ElapsedRaw|State|AllocTRES
1|2024-05-01T08:00:00|2024-05-01T08:00:00|7000|COMPLETED|gres/gpu=1
2|2024-05-01T08:00:00|2024-05-01T08:00:00|7000|COMPLETED|gres/gpu=1
"""
ALL_A100 = "nodes: [{name: a, count: 2, device: A100, devices: 4}]\n"
MIXED = """nodes:
  - {name: t, count: 1, device: T4, devices: 4}
  - {name: a, count: 2, device: A100, devices: 4}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    return path


def cluster_file(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def replayed(capsys: Captured, *arguments: object) -> tuple[Any, str]:
    """Return the JSON of a replay under fifo, and its stderr."""
    command = ["replay", *map(str, arguments), "--policy", "fifo", "--json"]
    assert run(command) == 0
    shown = capsys.readouterr()
    return json.loads(shown.out), shown.err


def test_untyped_gpus_ran_on_the_only_type_of_the_cluster(
    capsys: Captured, history: Path, tmp_path: Path
) -> None:
    report, said = replayed(capsys, history, "-c", cluster_file(tmp_path, ALL_A100))
    assert report["results"][0]["completion_s"]["mean"] == 7000
    assert report["trace"]["recorded_on"] == {"A100": 2}
    assert report["trace"]["scaled"] == []
    assert "of their speed" not in said


def test_commonest_type_is_assumed_on_a_mixed_cluster_and_said(
    capsys: Captured, history: Path, tmp_path: Path
) -> None:
    report, said = replayed(capsys, history, "-c", cluster_file(tmp_path, MIXED))
    assert report["trace"]["recorded_on"] == {"A100": 2}
    assert "2 jobs name no device type" in said
    assert "taken as recorded on A100" in said
    assert "8 of 12 devices" in said
    assert "--recorded-on" in said
    assert any("taken as recorded on A100" in text for text in report["notes"])


def test_scaled_durations_are_said_with_count_types_and_factors(
    capsys: Captured, history: Path, tmp_path: Path
) -> None:
    cluster = cluster_file(tmp_path, ALL_A100)
    report, said = replayed(capsys, history, "-c", cluster, "--recorded-on", "T4")
    scaled = report["trace"]["scaled"]
    assert [
        (scaling["recorded_on"], scaling["runs_on"], scaling["jobs"]) for scaling in scaled
    ] == [("T4", "A100", 2)]
    factor = scaled[0]["slowest"]
    assert factor == scaled[0]["fastest"] > 1
    assert report["results"][0]["completion_s"]["mean"] == pytest.approx(7000 / factor, abs=1e-3)
    assert f"2 jobs recorded on T4 run on A100 at {factor:.3g} of their speed" in said
    assert "name no device type" not in said


def test_cluster_file_says_where_its_history_was_recorded(
    capsys: Captured, history: Path, tmp_path: Path
) -> None:
    cluster = cluster_file(tmp_path, MIXED + "recorded_on: T4\n")
    report, said = replayed(capsys, history, "-c", cluster)
    assert report["trace"]["recorded_on"] == {"T4": 2}
    assert "name no device type" not in said
    report, _ = replayed(capsys, history, "-c", cluster, "--recorded-on", "a100")
    assert report["trace"]["recorded_on"] == {"A100": 2}


def test_named_devices_stay_as_named(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,submit_s,duration_s,num_gpus,device\na,0,100,1,V100\nb,0,100,1,\n")
    cluster = cluster_file(tmp_path, ALL_A100)
    report, said = replayed(capsys, path, "-c", cluster)
    assert report["trace"]["recorded_on"] == {"A100": 1, "V100": 1}
    assert "1 job recorded on V100 runs on A100 at" in said


@pytest.mark.parametrize("where", ["option", "file"])
def test_unknown_type_is_refused_with_a_guess(
    capsys: Captured, history: Path, tmp_path: Path, where: str
) -> None:
    text = ALL_A100 if where == "option" else ALL_A100 + "recorded_on: A10O\n"
    more = ["--recorded-on", "A10O"] if where == "option" else []
    cluster = cluster_file(tmp_path, text)
    assert run(["replay", str(history), "-c", str(cluster), *more]) == 2
    said = capsys.readouterr().err
    assert "A10O" in said
    assert "A100" in said


def test_explain_takes_and_says_the_same(capsys: Captured, history: Path, tmp_path: Path) -> None:
    cluster = cluster_file(tmp_path, MIXED)
    command = ["explain", str(history), "-c", str(cluster), "--at", "1h", "--json"]
    assert run(command) == 0
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert "taken as recorded on A100" in shown.err
    assert report["recorded_on"] == {"A100": 2}
    assert run([*command, "--recorded-on", "T4"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["recorded_on"] == {"T4": 2}
    assert "2 jobs recorded on T4 run on A100 at" in shown.err


def test_generated_trace_names_the_device_of_its_durations(
    capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "week.csv"
    assert run(["trace", "generate", "mixed", str(path), "--days", "1"]) == 0
    capsys.readouterr()
    report, said = replayed(capsys, path, "-c", cluster_file(tmp_path, ALL_A100))
    assert list(report["trace"]["recorded_on"]) == ["V100"]
    assert "recorded on V100 run on A100" in said
