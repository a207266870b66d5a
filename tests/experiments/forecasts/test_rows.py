"""A comparison says what pays, and does not where the interval includes nothing."""

from __future__ import annotations

import pytest

from flyball.experiments.forecasts.rows import COSTS, EVEN, PAYS, comparison


@pytest.mark.parametrize(
    ("ours", "lower", "verdict"),
    [
        ([0.9, 1.8, 2.7], True, PAYS),
        ([0.9, 1.8, 2.7], False, COSTS),
        ([1.1, 2.2, 3.3], True, COSTS),
        ([0.9, 2.2, 3.0], True, EVEN),
    ],
)
def test_verdicts(ours: list[float], lower: bool, verdict: str) -> None:
    row = comparison("c", "a", "b", "m", ours, [1.0, 2.0, 3.0], lower_is_better=lower)
    assert row["verdict"] == verdict
    assert row["n"] == 3 and row["unit"] == "%" and row["base"] == 2.0


def test_one_seed_proves_nothing() -> None:
    row = comparison("c", "a", "b", "m", [1.0], [2.0], relative=False)
    assert row["verdict"] == EVEN and row["value"] == row["low"] == row["high"] == -1.0
