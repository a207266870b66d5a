"""The last of a chain: how good is what `mlp` learned, on rows that it never saw?

Repeats the measurement on fresh rows until the mean is known well.
"""

from __future__ import annotations

import argparse

import numpy as np

from flyball.data.live_demo.mlp import draw, gradients
from flyball.data.live_demo.progress import steps_told, tell


def evaluate(weights_file: str, rounds: int) -> float:
    """The mean error over `rounds` draws of 4096 rows."""
    with np.load(weights_file, allow_pickle=False) as kept:
        weights = {name: kept[name] for name in kept.files}
    rng = np.random.default_rng(2)
    losses: list[float] = []
    for step, told in steps_told(0, rounds):
        losses.append(gradients(weights, *draw(rng, 4096))[0])
        if told:
            error = float(np.std(losses) / len(losses) ** 0.5)
            tell(step, float(np.mean(losses)), standard_error=error)
    return float(np.mean(losses))


def main() -> None:
    """Read the command line and evaluate."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("weights")
    read.add_argument("--rounds", type=int, default=60)
    options = read.parse_args()
    evaluate(options.weights, options.rounds)


if __name__ == "__main__":
    main()
