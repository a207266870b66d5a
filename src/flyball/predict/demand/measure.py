"""A measured set of one's own: real nets, real steps, one fresh process for each row.

The table is written row by row and may be taken up again; its card says on what machine, when
and with what it was made. Nothing here imports torch: the processes do.
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
from flyball.predict.demand.measure_shapes import Shape, drawn

STATED = (
    *("model_type", "parameters", "batch_size", "input_size", "layers", "iterations"),
    *("precision", "optimizer", "regularization", "augmentation", "learning_rate"),
)
"""What a user states: the columns an estimate may use."""
FOUND = ("flops", "step_s", "step_median_s", "wall_s", "memory_mib", "steps")
COLUMNS = (*STATED, *FOUND)
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
    """Measure rows into a table; the number measured now.

    Args:
        out: the CSV; its card is beside it, with the ending `.json`.
        rows: of the whole table.
        seed: of the shapes and of torch.
        today: date for the card.
        resume: go on after the rows that are there.
        done: called with the type of each row.

    Raises:
        BadInput: the table is there and is not to be taken up, or is of another seed.
        Unavailable: no torch here, or a net could not be run on this machine.
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
            shape = drawn(index, seed)
            writer.writerow(_run(run, shape, index, seed))
            file.flush()
            done(shape.type)
    found = {**_card(rows, seed, today), "clock_over_core": _shared(read_rows(out))}
    card.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return max(0, rows - first)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a measured table.

    Raises:
        BadInput: it cannot be read, or is another table.
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
    """The row to begin with."""
    if not out.exists():
        return 0
    if not resume:
        raise BadInput(f"{out} is already there", "use --resume to go on with it, or another name")
    rows = read_rows(out)
    try:
        card = json.loads(out.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{out} has no card beside it", "measure it anew") from None
    if card.get("seed") != seed:
        raise BadInput(f"{out} was begun with seed {card.get('seed')}", "use the same --seed")
    return len(rows)


def _check_torch() -> None:
    try:
        import_module("torch")
    except ImportError:
        raise Unavailable("no torch here", "pip install flyball[learn]") from None


@contextmanager
def _workers() -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, forked from a small server that has loaded torch and run nothing."""
    context = get_context("forkserver")
    context.set_forkserver_preload([WORKER])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield pool


def _run(pool: ProcessPoolExecutor, shape: Shape, index: int, seed: int) -> dict[str, Any]:
    measured = import_module(WORKER).measured
    try:
        found: dict[str, Any] = pool.submit(measured, shape, seed + index).result()
    except BrokenProcessPool:
        raise Unavailable(
            f"the process of row {index} ({shape}) died",
            "free some memory, or the CPU lacks what torch asks of it",
        ) from None
    return found


def _card(rows: int, seed: int, today: str) -> dict[str, Any]:
    """Where the figures come from."""
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
    """How much longer steps took by the clock than on the core: was the machine shared?"""
    ratios = sorted(float(row["wall_s"]) / float(row["step_s"]) for row in rows)
    return {name: round(ratios[int(part * len(ratios))], 2) for name, part in RATIOS.items()}


def _cpu() -> str:
    """The processor as the kernel names it, with family and model: virtual ones hide the rest."""
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        name, _colon, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    parts = (found.get("model name", platform.machine()), found.get("cpu family"))
    return f"{parts[0]} (family {parts[1]}, model {found.get('model')})"


def _versions(*names: str) -> dict[str, str]:
    made = {}
    for name in names:
        try:
            made[name] = version(name)
        except PackageNotFoundError:
            made[name] = ""
    return made
