"""`--skip-unfit` leaves out what fits nowhere, with a count and reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.cli.main import run

TRACE = """job,submit_s,duration_s,num_gpus,memory_gib
a,0,600,1,
b,10,600,64,
c,20,600,48,
d,30,600,1,400
e,40,600,2,
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "jobs.csv").write_text(TRACE)
    (tmp_path / "mine.yaml").write_text("nodes: [{name: n, count: 2, device: V100, devices: 8}]")
    return [str(tmp_path / "jobs.csv"), "--cluster", str(tmp_path / "mine.yaml")]


def test_without_the_option_the_error_names_it(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", *files, "--policy", "fifo"]) == 2
    assert "(and 2 more)" in (said := capsys.readouterr().err)
    assert "--skip-unfit" in said


def test_replay_leaves_out_what_fits_nowhere(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", *files, "--policy", "fifo", "--skip-unfit", "--json"]) == 0
    printed = capsys.readouterr()
    said = (
        "left out 3 of 5 jobs that fit nowhere on this cluster: 2 x more GPUs than the largest "
        "group of nodes has; 1 x more memory than a GPU has"
    )
    assert f"note: {said}" in printed.err
    assert said in json.dumps(json.loads(printed.out))


def test_explain_leaves_out_what_fits_nowhere(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *files, "--policy", "fifo", "--at", "15", "--skip-unfit", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert sum(report["left_out"].values()) == 3


def test_nothing_left(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(
        "power_budget_kw: 0.001\nnodes: [{name: n, count: 2, device: V100, devices: 8}]"
    )
    assert run(["replay", *files, "--policy", "fifo", "--skip-unfit"]) == 2
    said = capsys.readouterr().err
    assert "2 x beyond the power budget even alone; " in said
    assert "; none is left; choose a larger cluster or budget" in said
