"""Measures a set of training steps: real nets, a fresh process for each row.

The table is written row by row and can be resumed; its card records the machine, the date and the
versions. Nothing here imports torch: the worker processes do.
"""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput, Unavailable
from flyball.predict.demand.measure_shapes import Shape, draw_shape

STATED = (
    *("model_type", "parameters", "batch_size", "input_size", "layers", "iterations"),
    *("precision", "optimizer", "regularization", "augmentation", "learning_rate"),
)
"""Columns that a user states, and that an estimate may use."""
MEASURED = ("flops", "step_s", "step_median_s", "wall_s", "memory_mib", "steps")
COLUMNS = (*STATED, *MEASURED)
MEANING = {
    "model_type": "family of the net (measure_nets.py)",
    "parameters": "numbers that are trained",
    "batch_size": "samples of a step; graphs for gcn",
    "input_size": "features, side of the image, tokens, fields or nodes of a sample",
    "layers": "modules with a matrix of weights",
    "iterations": "steps the job is said to run; drawn, only a few were run",
    "precision": "fp32, or bf16 by autocast",
    "optimizer": "as in torch.optim, defaults but for the rate and weight decay",
    "regularization": "none, weight-decay, dropout, or an l1 term of the loss",
    "augmentation": "done to the batch in the step",
    "learning_rate": "of the optimiser",
    "flops": "of a step, by torch.utils.flop_counter (products only: no gather, no optimiser)",
    "step_s": "least time of a step, seconds of the core (one thread, no waiting)",
    "step_median_s": "median of the same",
    "wall_s": "least time of a step by the clock; longer where the core was shared",
    "memory_mib": "highest resident size (VmHWM, reset before the net is built) less that before",
    "steps": "timed, after two that were not",
}
RATIOS = {"tenth": 0.1, "median": 0.5, "nine tenths": 0.9}
WORKER = "flyball.experiments.demand.measure_step"
Done = Callable[[str], None]


def measure(out: Path, rows: int, seed: int, today: str, resume: bool, done: Done) -> int:
    """Measure rows into a table; return the number measured now.

    Args:
        out: the CSV file; its card has the same name with the ending `.json`.
        rows: rows of the whole table.
        seed: seed of the shapes and of torch.
        today: date for the card.
        resume: continue after the rows that are there.
        done: called with the type of each row.

    Raises:
        BadInput: the table exists and is not to be resumed, or has another seed.
        Unavailable: torch is not installed, or a net could not run on this machine.
    """
    first = _first(out, seed, resume)
    _check_torch()
    card = out.with_suffix(".json")
    card.write_text(json.dumps(_card(rows, seed, today), indent=1) + "\n", "utf-8")
    with out.open("a" if first else "w", encoding="utf-8", newline="") as file, _workers() as run:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not first:
            writer.writeheader()
        for index in range(first, rows):
            shape = draw_shape(index, seed)
            writer.writerow(_run(run, shape, index, seed))
            file.flush()
            done(shape.type)
    final_card = {**_card(rows, seed, today), "clock_over_core": _shared(read_rows(out))}
    card.write_text(json.dumps(final_card, indent=1) + "\n", "utf-8")
    return max(0, rows - first)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a measured table.

    Raises:
        BadInput: the file cannot be read, or is another table.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}", "name a table that `demand measure` wrote") from None
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadInput(f"{path} has other columns", "name a table that `demand measure` wrote")
    return rows


def _first(out: Path, seed: int, resume: bool) -> int:
    """Return the index of the first row to measure."""
    if not out.exists():
        return 0
    if not resume:
        raise BadInput(f"{out} already exists", "use --resume to continue it, or another name")
    rows = read_rows(out)
    try:
        card = json.loads(out.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{out} has no card ({out.stem}.json)", "measure it again") from None
    if card.get("seed") != seed:
        raise BadInput(f"{out} was started with seed {card.get('seed')}", "use the same --seed")
    return len(rows)


def _check_torch() -> None:
    try:
        import_module("torch")
    except ImportError:
        raise Unavailable("torch is not installed", "pip install flyball[learn]") from None


@contextmanager
def _workers() -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of fresh processes, forked from a server that has only imported torch."""
    context = get_context("forkserver")
    context.set_forkserver_preload([WORKER])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield pool


def _run(pool: ProcessPoolExecutor, shape: Shape, index: int, seed: int) -> dict[str, Any]:
    measured = import_module(WORKER).measured
    try:
        row: dict[str, Any] = pool.submit(measured, shape, seed + index).result()
    except BrokenProcessPool:
        raise Unavailable(
            f"the process of row {index} ({shape}) died",
            "free some memory, or the CPU lacks what torch needs",
        ) from None
    return row


def _card(rows: int, seed: int, today: str) -> dict[str, Any]:
    """Return the card: where the figures come from."""
    return {
        "what": "training steps of torch models, measured on one thread",
        "rows": rows,
        "seed": seed,
        "date": today,
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), **_versions("torch", "numpy")},
        "script": f"flyball predict demand measure OUT.csv --rows {rows} --seed {seed}",
        "source": "src/flyball/predict/demand/measure*.py",
        "limits": "oneDNN held to AVX512_CORE_BF16 (no AMX) unless ONEDNN_MAX_CPU_ISA says other",
        "columns": MEANING,
    }


def _shared(rows: list[dict[str, str]]) -> dict[str, float]:
    """Return how much longer steps took by the clock than on the core, if it was shared."""
    ratios = sorted(float(row["wall_s"]) / float(row["step_s"]) for row in rows)
    return {name: round(ratios[int(part * len(ratios))], 2) for name, part in RATIOS.items()}


def _cpu() -> str:
    """Return the processor as the kernel names it, with family and model, shown even by VMs."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        name, _colon, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    parts = (fields.get("model name", platform.machine()), fields.get("cpu family"))
    return f"{parts[0]} (family {parts[1]}, model {fields.get('model')})"


def _versions(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions
