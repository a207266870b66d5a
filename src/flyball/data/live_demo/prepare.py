"""The first of a chain: draws a data set and writes it for those that come after."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from flyball.data.live_demo.mlp import draw
from flyball.data.live_demo.progress import keep, steps_told, tell


def prepare(out: Path, parts: int) -> None:
    """Write `parts` parts of 4096 rows, cleaned of outliers and scaled, as one file."""
    rng = np.random.default_rng(1)
    drawn = []
    for part, told in steps_told(0, parts):
        x, y = draw(rng, 4096)
        spread = np.std(y)
        kept = np.abs(y[:, 0]) < 4 * spread
        drawn.append((x[kept], y[kept]))
        if told:
            tell(part, float(spread), rows=sum(len(each) for each, _ in drawn))
    x, y = (np.concatenate(each) for each in zip(*drawn, strict=True))
    keep(out, {"x": x, "y": y})


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
