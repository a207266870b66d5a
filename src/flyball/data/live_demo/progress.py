"""Shared by the programs: progress reports and checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyball

Floats = NDArray[np.float32]
REPORTS = 10
"""Number of lines that a whole run prints, approximately."""


def report(step: int, loss: float, **values: float) -> None:
    """Print the progress of the program, and report it to Flyball."""
    more = "".join(f" {name} {value:.4g}" for name, value in values.items())
    sys.stdout.write(f"step {step} loss {loss:.4f}{more}\n")
    sys.stdout.flush()
    flyball.report(step=step, loss=loss, **values)


def training_steps(first: int, count: int) -> Iterator[tuple[int, bool]]:
    """Yield the steps after `first` up to `count`, and whether a report is due after each.

    Reports the total first: Flyball predicts the end of the job from it and the speed of the steps.
    """
    flyball.report(total_steps=count)
    every = max(1, count // REPORTS)
    for step in range(first + 1, count + 1):
        yield step, step % every == 0 or step == count


def checkpoint_file() -> Path | None:
    """Return the file for weights, None outside Flyball."""
    folder = os.environ.get("FLYBALL_CHECKPOINT_DIR")
    return Path(folder) / "weights.npz" if folder else None


def save(step: int, weights: dict[str, Floats]) -> None:
    """Save the weights atomically: the program may be stopped at any moment."""
    if (path := checkpoint_file()) is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, {**weights, "step": np.int64(step)})


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays into a file atomically."""
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    os.replace(part, path)


def load(weights: dict[str, Floats]) -> int:
    """Restore the saved weights, if any; return the step at which they were saved, else 0."""
    path = checkpoint_file()
    if path is None or not path.exists():
        return 0
    with np.load(path, allow_pickle=False) as saved:
        for name, value in weights.items():
            value[...] = saved[name]
        step = int(saved["step"])
    sys.stdout.write(f"goes on from step {step}\n")
    return step
