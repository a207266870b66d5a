"""Start-time forecasts of the live demonstration, judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flyball.bench.starts import StartOutcome, figures, outcomes_of, pinball, run
from flyball.core.errors import Unavailable


def test_pinball_loss_weighs_late_and_early_by_the_level() -> None:
    forecast, actual = np.array([10.0, 10.0]), np.array([20.0, 5.0])
    assert pinball(forecast, actual, 0.5) == pytest.approx((5.0 + 2.5) / 2)
    assert pinball(forecast, actual, 0.9) == pytest.approx((9.0 + 0.5) / 2)


def test_figures_compare_with_reservations_alone() -> None:
    waits = [*range(10, 100, 10)]
    outcomes = [StartOutcome(0, "j", wait, 1.2 * wait, 0.3 * wait, wait) for wait in waits]
    outcomes.append(StartOutcome(1, "late", 1.0, 2.0, 3.0, 50.0))
    result = figures(outcomes)
    kept, at_50, at_90 = result["bars"]
    assert (kept["value"], kept["holds"]) == (90.0, True)
    assert result["p50_kept_percent"] == 90.0
    assert result["reserved_kept_percent"] == 0.0
    assert at_50["holds"]
    assert at_90["holds"]
    assert at_90["value"] < at_90["baseline"]


def test_nothing_waited_is_an_error_with_a_remedy() -> None:
    with pytest.raises(Unavailable, match="no job had to wait; use a larger --scale"):
        figures([])


def test_jobs_that_started_at_once_are_left_out() -> None:
    job: dict[str, Any] = {"name": "a", "submit_time": 100.0, "start_time": 130.0}
    answer = {
        "run": 0,
        "jobs": [{**job, "id": 1}, {**job, "id": 2}],
        "forecasts": {"2": {"p50_s": 20.0, "p90_s": 40.0, "asked_s": 1.0}},
        "reserved_s": {1: 0.0, 2: 15.0},
    }
    assert outcomes_of(answer) == [StartOutcome(0, "a", 21.0, 41.0, 15.0, 30.0)]


def test_a_real_run_is_judged() -> None:
    notes: list[str] = []
    result = run(notes.append, 1, 0.02)
    assert notes == ["run 1 of 1"]
    assert result["jobs"] >= 2, "the chain waits, however many cores there are"
    for outcome in result["outcomes"]:
        assert 0 < outcome["p50_s"] <= outcome["p90_s"]
        assert 0 <= outcome["wait_s"] < 3600
        assert outcome["reserved_s"] >= 0
