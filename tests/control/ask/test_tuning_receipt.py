"""Tuning in a receipt: sizes over time, measured speeds, caps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.live_cases import spec_of

from flyball.control.ask.tuning_receipt import tuning_receipt
from flyball.core.job_facts import steps_per_s
from flyball.core.jobs import Job

BEGAN_S = 1_000.0
STEPS = ([1000.0, 1005.0, 1010.0, 1011.0, 1015.0, 1020.0], [0.0, 50.0, 100.0, 104.0, 120.0, 140.0])


def resized(time: float, before: int, after: int) -> dict[str, Any]:
    return {"time": time, "what": "resized", "before": before, "after": after, "gain": 0.5}


def tuned(*log: dict[str, Any], **values: Any) -> Job:
    about = {"sequence": len(log), "orders": {}, "log": list(log), "devices": 1}
    spec = spec_of(cpus=2, least=1, most=4)
    return Job(1, spec, 1, first_start_us=int(BEGAN_S * 1e6), values={"tuned": about, **values})


def test_nothing_was_done() -> None:
    assert tuning_receipt(Job(1, spec_of(), 1), 2_000.0, STEPS) is None


def test_sizes_and_measured_gain() -> None:
    tuning = tuning_receipt(tuned(resized(1010.5, 2, 1)), 1020.0, STEPS)
    assert tuning is not None
    first, second = tuning["sizes"]
    assert (first["devices"], first["seconds"], first["steps_per_s"]) == (2, 10.5, 10.0)
    assert (second["devices"], second["seconds"], second["steps_per_s"]) == (1, 9.5, 4.0)
    assert tuning["log"][0]["measured"] == pytest.approx(-0.6)
    assert tuning["log"][0]["gain"] == 0.5


def test_without_reports_there_is_no_speed() -> None:
    tuning = tuning_receipt(tuned(resized(1010.0, 2, 1)), 1020.0, ((), ()))
    assert tuning is not None
    assert [size["steps_per_s"] for size in tuning["sizes"]] == [None, None]
    assert "measured" not in tuning["log"][0]


def test_a_size_given_before_the_start_is_the_first() -> None:
    tuning = tuning_receipt(tuned(resized(900.0, 2, 1)), 1020.0, STEPS)
    assert tuning is not None
    assert [(size["devices"], size["seconds"]) for size in tuning["sizes"]] == [(1, 20.0)]


def test_a_cap_is_reported_as_it_was_enforced() -> None:
    values = {"cap_by": "pauses", "capped_s": 10.0, "capped_core_s": 20.0, "capped_cpu_s": 9.8}
    tuning = tuning_receipt(tuned({"time": 1.0, "what": "capped"}, **values), 1020.0, STEPS)
    assert tuning is not None
    assert (tuning["cap_by"], tuning["capped_s"]) == ("pauses", 10.0)
    assert tuning["capped_share"] == pytest.approx(0.49)


@pytest.mark.parametrize("span", [(0.0, 999.0), (1000.0, 1000.5), (1019.5, 1020.5)])
def test_too_little_is_no_speed(span: tuple[float, float]) -> None:
    assert steps_per_s(STEPS, *span) is None


def test_steps_that_go_back_are_no_speed() -> None:
    """An attempt was restarted within the span."""
    assert steps_per_s(([1.0, 5.0], [100.0, 20.0]), 0.0, 10.0) is None
