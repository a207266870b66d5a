"""What optimised models gain: inference, training, memory, single layers, with bars.

Each part runs in a process of its own (`models/trial`), so that its memory is free for the next.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from flyball.bench.figure import NO_BAR, Bar, Figure
from flyball.core.errors import FlyballError
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import Note, RunFile

THREADS = 2
"""Threads of the figures with bars."""
PUBLISHED = (
    *("resnet50", "transformer-base", "bert-large", "gpt2-medium"),
    *("vit-large", "unet", "efficientnet-b7", "yolo-v5"),
)
OTHERS = ("efficientnet-b0", "gnn", "lstm", "recommender")
CLAIMED_INFERENCE = (2.2, 3.1)
LEAST_MEAN = 1.35
LEAST_B0 = 2.5
LEAST_TRAINING = {"transformer-base": 1.15, "resnet50": 1.05}
LEAST_MEMORY_SAVED_PCT = 35.0
MEMORY_MODELS = ("transformer-base", "unet")
LAYER_NAMES = (
    *("conv + batch norm + relu", "depthwise + pointwise", "attention + layer norm"),
    *("lstm cells", "softmax + cross-entropy"),
)
TOLERANCE = 1e-4
STEP = "step: "
"""Begins a line of a part's process that names a finished step."""
MODULES = ("torch", "onnx", "onnxscript", "onnxruntime", "openvino")
TIME_LIMIT_S = 90.0
FULL_TIME_LIMIT_S = 900.0


def parts(full: bool, one_thread: bool = False) -> dict[str, BenchPart]:
    """Return all parts by name.

    Args:
        full: with all back ends and all models, at one thread too.
        one_thread: only the inference of all models at one thread.
    """
    at_one_thread = {
        f"inference {model}, 1 thread": _part("inference", model, 1, full)
        for model in (*PUBLISHED, *OTHERS)
    }
    if one_thread:
        return at_one_thread
    table = {"gemm": _part("gemm", "gemm", THREADS, full)}
    for model in (*PUBLISHED, *OTHERS):
        table[f"inference {model}"] = _part("inference", model, THREADS, full)
    for model in LEAST_TRAINING:
        table[f"training {model}"] = _part("training", model, THREADS, full)
    for model in MEMORY_MODELS:
        table[f"memory {model}"] = _part("memory", model, THREADS, full)
    for layer in LAYER_NAMES:
        table[f"layer {layer}"] = _part("layers", layer, THREADS, full)
    return table | at_one_thread if full else table


def _part(kind: str, model: str, threads: int, full: bool) -> BenchPart:
    request = {
        "kind": kind,
        "model": model,
        "threads": threads,
        "full": full,
        "time_limit_s": FULL_TIME_LIMIT_S if full else TIME_LIMIT_S,
    }

    def measure(note: Note) -> Any:
        return in_own_process(request, note)

    return BenchPart(measure, f"{kind} of {model}", MODULES)


class MeasurementFailed(FlyballError):
    """The process of a part ended without a result."""

    exit_code = 1


def in_own_process(request: Mapping[str, Any], note: Note = lambda _text: None) -> Any:
    """Measure one part in a new process and return its result; its steps are noted.

    Raises:
        MeasurementFailed: the process failed; quotes its last line.
    """
    command = [sys.executable, "-m", "flyball.models.trial.one", json.dumps(request)]
    printed: list[str] = []
    last = "no message"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        reader = threading.Thread(target=printed.extend, args=(process.stdout,))
        reader.start()
        try:
            for line in process.stderr:
                if line.startswith(STEP):
                    note(f"  {line.removeprefix(STEP).strip()}")
                elif line.strip():
                    last = line.strip()
        except BaseException:  # Ctrl-C: it must not go on measuring
            process.kill()
            raise
        reader.join()
    if process.returncode or not printed:
        raise MeasurementFailed(
            f"exit code {process.returncode}: {last[:300]}", "run it alone: --only"
        )
    return json.loads(printed[-1])


def run(
    table: Mapping[str, BenchPart],
    note: Note,
    only: Sequence[str],
    runs: RunFile,
    full: bool,
    done: Note = lambda _part: None,
) -> Outcome:
    """Measure the parts named, or all; finished ones are kept in the file."""
    return run_parts(table, only, note, runs, {"full": full}, done=done)


# Rows ---------------------------------------------------------------------------------


def rows_of(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all figures, those with bars first within their kind."""
    inference = {
        part.removeprefix("inference "): result
        for part, result in results.items()
        if part.startswith("inference ") and not part.endswith("1 thread")
    }
    rates: Mapping[str, float] = results.get("gemm", {}).get("gflops", {})
    peak = max(rates.values(), default=None)
    rows = [
        _row(f"matrix product, float32: {kernel}", rate, unit="GFLOP/s")
        for kernel, rate in rates.items()
    ]
    rows += _inference_rows(inference, peak)
    for part, result in results.items():
        if part.endswith("1 thread"):
            model = part.removeprefix("inference ")
            rows.append(_row(f"inference {model}", result["speedup"], unit="x", **_span(result)))
        elif part.startswith("training "):
            rows.append(_training_row(result))
        elif part.startswith("memory "):
            rows += _memory_rows(result)
        elif part.startswith("layer "):
            rows += _layer_rows(result)
    return rows


def _inference_rows(results: Mapping[str, Any], peak: float | None) -> list[dict[str, Any]]:
    rows = []
    published = [results[model]["speedup"] for model in PUBLISHED if model in results]
    if len(published) == len(PUBLISHED):
        mean = math.exp(sum(map(math.log, published)) / len(published))
        rows.append(
            _row(
                "inference, geometric mean of the eight",
                mean,
                Bar.at_least(LEAST_MEAN),
                "x",
                claimed=list(CLAIMED_INFERENCE),
            )
        )
    for model, result in results.items():
        bar = Bar.at_least(LEAST_B0) if model == "efficientnet-b0" else NO_BAR
        extra = {
            "choice": result["choice"],
            "error": _chosen(result)["error"],
            "eager_s": result["eager_s"],
            "candidates": {
                one["name"]: one["reason"] or _measured(one) for one in result["candidates"]
            },
            "other_load_cores": result["other_load_cores"],
        }
        if model in PUBLISHED:
            extra["claimed"] = list(CLAIMED_INFERENCE)
        if peak and result["eager_s"]:
            flop = result["stages"][0]["cost"]["flop"]
            extra["eager_gflops"] = flop / result["eager_s"] / 1e9
            extra["gemm_peak_allows"] = peak * 1e9 * result["eager_s"] / flop
        rows.append(
            _row(f"inference {model}", result["speedup"], bar, "x", **_span(result), **extra)
        )
    rows += [_passes_row(model, result) for model, result in results.items() if result["stages"]]
    if results:
        slower = sum(_is_slower(result) for result in results.values())
        rows.append(_row("models slower than eager beyond the interval", slower, Bar.at_most(0)))
        wrong = sum(not _is_best(result) for result in results.values())
        rows.append(_row("models whose choice is not among the fastest", wrong, Bar.at_most(0)))
        worst = max(_chosen(result)["error"] for result in results.values())
        rows.append(_row("largest error of a choice", worst, Bar.at_most(TOLERANCE)))
    return rows


def _measured(candidate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: candidate[name] for name in ("status", "error", "ratio", "low", "high")}


def _passes_row(model: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the passes alone change, run by the eager executor, with every stage."""
    alone: dict[str, Any] = next(
        (one for one in result["candidates"] if one["name"] == "passes"), {}
    )
    stages = [
        {
            "stage": stage["name"],
            "changes": stage["changes"],
            "operations": stage["cost"]["operations"],
            "peak_bytes": stage["cost"]["peak_bytes"],
        }
        for stage in result["stages"]
    ]
    portable = [
        row for row, stage in zip(stages, result["stages"], strict=True) if stage["is_portable"]
    ]
    before, after = portable[0], portable[-1]
    return _row(
        f"own passes {model}: operations",
        after["operations"],
        operations=[before["operations"], after["operations"]],
        peak_bytes=[before["peak_bytes"], stages[-1]["peak_bytes"]],
        ratio=[alone.get(name) for name in ("ratio", "low", "high")],
        stages=stages,
    )


def _chosen(result: Mapping[str, Any]) -> dict[str, Any]:
    return next(one for one in result["candidates"] if one["name"] == result["choice"])


def _is_slower(result: Mapping[str, Any]) -> bool:
    high = _chosen(result)["high"]
    return high is not None and high < 1.0


def _is_best(result: Mapping[str, Any]) -> bool:
    """Return whether no equal candidate's interval lies above that of the choice."""
    chosen = _chosen(result)
    equal = [one for one in result["candidates"] if one["status"] == "equal" and one["low"]]
    return all(one["low"] <= chosen["high"] for one in equal)


def _span(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"low": result["low"], "high": result["high"]}


def _training_row(result: Mapping[str, Any]) -> dict[str, Any]:
    model = result["model"]
    chosen = _chosen(result)
    return _row(
        f"training step {model}",
        result["speedup"],
        Bar.at_least(LEAST_TRAINING[model]),
        "x",
        low=chosen["low"],
        high=chosen["high"],
        choice=result["choice"],
        error=chosen["error"],
        candidates={one["name"]: one["ratio"] for one in result["candidates"]},
    )


def _memory_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    model = result["model"]
    saved = 100 * (1 - result["saved_bytes"] / result["plain_bytes"])
    return [
        _row(
            f"training memory saved {model}",
            saved,
            Bar.at_least(LEAST_MEMORY_SAVED_PCT),
            "%",
            peak_bytes=[result["plain_bytes"], result["saved_bytes"]],
        ),
        _row(
            f"time cost of that {model}",
            result["cost_pct"],
            unit="%",
            low=result["cost_low_pct"],
            high=result["cost_high_pct"],
        ),
        _row(f"gradient error of that {model}", result["gradient_error"], Bar.at_most(TOLERANCE)),
    ]


def _layer_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    claimed = result["claimed_pct"]
    names = ("compute_pct", "memory_pct", "latency_pct", "energy_modelled_pct")
    labels = ("arithmetic, counted", "traffic, counted", "latency", "energy, modelled")
    rows = []
    for label, name, claim in zip(labels, names, claimed, strict=True):
        low, high = (
            (result["latency_low_pct"], result["latency_high_pct"])
            if name == "latency_pct"
            else (None, None)
        )
        row = _row(f"{result['layer']}: {label}", result[name], unit="%", low=low, high=high)
        rows.append({**row, "claimed": claim})
    return rows


def _row(
    name: str,
    value: float,
    bar: Bar = NO_BAR,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    **extra: Any,
) -> dict[str, Any]:
    holds = bar.holds(value)
    span = {"low": low, "high": high}
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "bar": bar.as_json(),
        "holds": holds,
        **span,
        **extra,
    }


def figures(rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return the rows as figures; what was published is a label."""
    from flyball.bench.figure import figure_of

    return [figure_of(row, "name", (_note_of(row),)) for row in rows]


def _note_of(row: Mapping[str, Any]) -> str:
    """Return what stands beside a figure: the choice, the published claim, what the peak allows."""
    words = [str(row["choice"])] if "choice" in row else []
    if "operations" in row:
        megabytes = (f"{size / 1e6:.4g}" for size in row["peak_bytes"])
        words.append(f"from {row['operations'][0]}; peak MB {' to '.join(megabytes)}")
    if "claimed" in row:
        claimed = row["claimed"]
        several = isinstance(claimed, list)
        words.append(
            f"published {' to '.join(map(str, claimed))}" if several else f"published {claimed}"
        )
    if "gemm_peak_allows" in row:
        words.append(f"GEMM peak allows {row['gemm_peak_allows']:.2f}")
    return ", ".join(words)
