"""The last job of a chain: measures the error of the model of `mlp` on rows that it never saw.

Repeats the measurement on new rows until the mean is accurate.
"""

from __future__ import annotations

import argparse

import numpy as np

from flyball.data.live_demo.mlp import draw, gradients
from flyball.data.live_demo.progress import report, training_steps


def evaluate(weights_file: str, rounds: int) -> float:
    """Return the mean error over `rounds` draws of 4096 rows."""
    with np.load(weights_file, allow_pickle=False) as saved:
        weights = {name: saved[name] for name in saved.files}
    rng = np.random.default_rng(2)
    losses: list[float] = []
    for step, report_due in training_steps(0, rounds):
        losses.append(gradients(weights, *draw(rng, 4096))[0])
        if report_due:
            error = float(np.std(losses) / len(losses) ** 0.5)
            report(step, float(np.mean(losses)), standard_error=error)
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
