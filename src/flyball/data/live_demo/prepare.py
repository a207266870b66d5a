"""The first job of a chain: draws a data set and writes it for the jobs that follow."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from flyball.data.live_demo.mlp import draw
from flyball.data.live_demo.progress import report, training_steps, write


def prepare(out: Path, parts: int) -> None:
    """Write `parts` parts of 4096 rows, cleaned of outliers and scaled, as one file."""
    rng = np.random.default_rng(1)
    drawn = []
    for part, report_due in training_steps(0, parts):
        x, y = draw(rng, 4096)
        spread = np.std(y)
        kept = np.abs(y[:, 0]) < 4 * spread
        drawn.append((x[kept], y[kept]))
        if report_due:
            report(part, float(spread), rows=sum(len(inputs) for inputs, _ in drawn))
    x, y = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
    write(out, {"x": x, "y": y})


def main() -> None:
    """Read the command line and write the file."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("out", type=Path)
    read.add_argument("--parts", type=int, default=16)
    options = read.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    prepare(options.out, options.parts)


if __name__ == "__main__":
    main()
