"""`flyball replay --costs`: set-up times and slowdowns by application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.cli.main import run

TRACE = """name,submit_s,application,num_replicas,batch_size
a,0,cifar10,1,128
b,0,bert,1,12
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE, encoding="utf-8")
    return path


def completion_s(trace: Path, capsys: pytest.CaptureFixture[str], *options: str) -> float:
    """Return the mean completion of two jobs that start at once on a cluster of their base type."""
    command = ["replay", str(trace), "-c", "pollux-16x4", "-p", "easy", "--json"]
    assert run([*command, *options]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    return float(result["completion_s"]["mean"])


def test_an_application_pays_what_the_simulator_charges(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free_s = completion_s(trace, capsys)
    assert completion_s(trace, capsys, "--costs", "pollux") == pytest.approx(free_s + 30)
    by_sia_s = completion_s(trace, capsys, "--costs", "sia")
    # cifar10 takes 50 s and 1.8 times as long, bert 120 s and 1.2 times as long.
    assert (50 + 120) / 2 + 1.2 * free_s < by_sia_s < (50 + 120) / 2 + 1.8 * free_s


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--costs", "sia", "--restart-s", "5"], "do not go together"),
        (["--costs", "polux"], "pollux"),
    ],
)
def test_costs_that_cannot_be_are_refused(
    trace: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(trace), "-c", "pollux-16x4", *options]) == 2
    assert message in capsys.readouterr().err
