"""Rows of `flyball bench models`: bars, verdicts and what is counted from the parts' results."""

from __future__ import annotations

from typing import Any

import pytest

from flyball.bench.models import (
    PUBLISHED,
    MeasurementFailed,
    figures,
    in_own_process,
    parts,
    rows_of,
)


def result(model: str, ratio: float, **changes: Any) -> dict[str, Any]:
    """Return a part's result: eager, and a back end that is this many times as fast."""
    cost = {"flop": 2e9, "peak_bytes": 10, "operations": 9}
    eager = {
        "name": "eager",
        "status": "equal",
        "error": 0.0,
        "ratio": 1.0,
        "low": 1.0,
        "high": 1.0,
        "reason": "",
    }
    fast = {
        "name": "onnxruntime",
        "status": "equal",
        "error": 1e-6,
        "ratio": ratio,
        "low": 0.9 * ratio,
        "high": 1.1 * ratio,
        "reason": "",
    }
    values = {
        "model": model,
        "choice": "onnxruntime",
        "speedup": ratio,
        "low": 0.9 * ratio,
        "high": 1.1 * ratio,
        "eager_s": 0.1,
        "candidates": [eager, fast],
        "stages": [{"name": "exported", "changes": 0, "cost": cost, "is_portable": True}],
        "operations_before": 9,
        "operations_after": 7,
        "other_load_cores": 0.0,
    }
    return values | changes


def rows_by_name(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of results by name."""
    return {row["name"]: row for row in rows_of(results)}


def test_the_geometric_mean_is_over_all_eight_models() -> None:
    results = {f"inference {model}": result(model, 1.5) for model in PUBLISHED}
    rows = rows_by_name(results)
    mean = rows["inference, geometric mean of the eight"]
    assert mean["value"] == pytest.approx(1.5)
    assert mean["bar"] == 1.35
    assert mean["holds"] is True
    del results["inference unet"]
    assert "inference, geometric mean of the eight" not in rows_by_name(results)


def test_what_the_matrix_peak_allows_follows_from_eagers_rate() -> None:
    rows = rows_by_name(
        {"gemm": {"gflops": {"eager": 30.0, "onednn": 50.0}}, "inference unet": result("unet", 1.4)}
    )
    assert rows["inference unet"]["eager_gflops"] == pytest.approx(20.0)
    assert rows["inference unet"]["gemm_peak_allows"] == pytest.approx(2.5)


def test_the_passes_alone_have_a_row_with_every_stage() -> None:
    row = rows_by_name({"inference unet": result("unet", 1.4)})["own passes unet: operations"]
    assert row["value"] == 9
    assert row["stages"] == [{"stage": "exported", "changes": 0, "operations": 9, "peak_bytes": 10}]


def test_a_part_notes_its_steps_and_fails_with_the_last_line() -> None:
    request = {"kind": "inference", "model": "recommender", "threads": 1, "time_limit_s": 0.001}
    steps: list[str] = []
    assert in_own_process(request, steps.append)["choice"] == "eager"
    assert "  recommender: graph" in steps
    with pytest.raises(MeasurementFailed, match="nonsense"):
        in_own_process({**request, "model": "nonsense"})


def test_a_choice_that_another_beats_clearly_is_counted() -> None:
    better = {
        "name": "openvino",
        "status": "equal",
        "error": 1e-6,
        "ratio": 3.0,
        "low": 2.9,
        "high": 3.1,
        "reason": "",
    }
    good = result("unet", 1.5)
    wrong = {**good, "candidates": [*good["candidates"], better]}
    name = "models whose choice is not among the fastest"
    assert rows_by_name({"inference unet": good})[name]["holds"] is True
    assert rows_by_name({"inference unet": wrong})[name]["value"] == 1


def test_memory_and_training_rows_are_judged() -> None:
    memory = {
        "model": "unet",
        "plain_bytes": 100,
        "saved_bytes": 60,
        "cost_pct": 30.0,
        "cost_low_pct": 25.0,
        "cost_high_pct": 35.0,
        "gradient_error": 0.0,
    }
    rows = rows_by_name({"memory unet": memory, "training resnet50": result("resnet50", 1.02)})
    assert rows["training memory saved unet"]["value"] == pytest.approx(40.0)
    assert rows["training memory saved unet"]["holds"] is True
    assert rows["time cost of that unet"]["value"] == 30.0
    assert rows["time cost of that unet"]["low"] == 25.0
    assert rows["training step resnet50"]["holds"] is False


def test_every_row_becomes_a_figure_and_every_part_names_what_it_needs() -> None:
    rows = rows_of({"inference efficientnet-b0": result("efficientnet-b0", 2.6)})
    assert len(figures(rows)) == len(rows)
    assert all("onnxruntime" in part.modules for part in parts(full=True).values())
    assert set(parts(full=False)) < set(parts(full=True))
    alone = parts(full=False, one_thread=True)
    assert set(alone) == set(parts(full=True)) - set(parts(full=False)) and alone
