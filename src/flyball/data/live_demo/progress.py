"""What the programs share: telling how far they are, and keeping their weights."""

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
TOLD = 10
"""Lines that a whole run prints, about."""


def tell(step: int, loss: float, **values: float) -> None:
    """Print where the program stands, and report it."""
    more = "".join(f" {name} {value:.4g}" for name, value in values.items())
    sys.stdout.write(f"step {step} loss {loss:.4f}{more}\n")
    sys.stdout.flush()
    flyball.report(step=step, loss=loss, **values)


def steps_told(first: int, count: int) -> Iterator[tuple[int, bool]]:
    """The steps from `first` to `count`, and whether this is one to tell about.

    Reports the total first: from it and the speed of the steps Flyball knows when the job ends.
    """
    flyball.report(total_steps=count)
    every = max(1, count // TOLD)
    for step in range(first + 1, count + 1):
        yield step, step % every == 0 or step == count


def checkpoint_file() -> Path | None:
    """Where weights are kept, None outside Flyball."""
    folder = os.environ.get("FLYBALL_CHECKPOINT_DIR")
    return Path(folder) / "weights.npz" if folder else None


def save(step: int, weights: dict[str, Floats]) -> None:
    """Keep the weights, whole or not at all: the program may be stopped at any moment."""
    if (path := checkpoint_file()) is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    keep(path, {**weights, "step": np.int64(step)})


def keep(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays into a file that is whole or not there."""
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    os.replace(part, path)


def load(weights: dict[str, Floats]) -> int:
    """Put back what was kept, if anything; the step it was kept at."""
    path = checkpoint_file()
    if path is None or not path.exists():
        return 0
    with np.load(path, allow_pickle=False) as kept:
        for name, value in weights.items():
            value[...] = kept[name]
        step = int(kept["step"])
    sys.stdout.write(f"goes on from step {step}\n")
    return step
