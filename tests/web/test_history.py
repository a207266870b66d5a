"""What ran where: bars of neighbouring devices, and totals."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.control.ask.history_spans import runs_of
from flyball.web.kept_runs import MOST, KeptRuns
from flyball.web.views.decisions import summary


@pytest.mark.parametrize(
    ("mask", "runs"),
    [
        (0, []),
        (1, [(0, 1)]),
        (0b1111, [(0, 4)]),
        (0b1101100, [(2, 2), (5, 2)]),
        (1 << 70, [(70, 1)]),
    ],
)
def test_runs_of_devices(mask: int, runs: list[tuple[int, int]]) -> None:
    assert list(runs_of(mask)) == runs


def test_a_plan_in_a_few_words() -> None:
    start, other, reserve = (
        [0, 1, 0, 3, 1000, 0, 0.0],
        [0, 1, 1, 3, 1000, 0, 0.0],
        [2, 9, 0, 0, 0, 5, 0],
    )
    assert summary([start, other, reserve]) == "start 1, reserve 1"
    assert summary([]) == "no action"


def test_kept_runs_are_numbered_and_bounded(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path)
    assert kept.latest() == []
    for number in range(1, MOST + 4):
        assert kept.add({"policies": "easy"}, {"rows": []}) == number
    assert len(list((tmp_path / "whatif").iterdir())) == MOST
    assert [run["number"] for run in kept.latest()][:2] == [MOST + 3, MOST + 2]
    assert kept.get(1) is None
    assert kept.get(MOST) is not None


def test_a_run_can_be_forgotten(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path)
    first, second = kept.add({}, {}), kept.add({}, {})
    kept.remove(first)
    kept.remove(first)  # it is gone already
    assert [run["number"] for run in kept.latest()] == [second]
    assert kept.add({}, {}) == second + 1
