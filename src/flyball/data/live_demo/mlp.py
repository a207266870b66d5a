"""Compute-intensive: trains a network with one hidden layer, by large matrix products.

With `--data FILE` it learns from the data that `prepare` wrote, else from data it draws itself;
`--out FILE` saves the weights for `evaluate`. As a task of an array it takes the learning rate of
its index.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from flyball.data.live_demo.progress import Floats, load, report, save, training_steps, write

INPUTS, HIDDEN, BATCH = 256, 512, 512
RATES = (0.03, 0.01, 0.003, 0.001)


def draw(rng: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    """Draw inputs, and compute their targets with a small fixed network."""
    teacher = np.random.default_rng(7).standard_normal((INPUTS, 8), dtype=np.float32)
    x = rng.standard_normal((rows, INPUTS), dtype=np.float32)
    return x, np.tanh(x @ teacher / np.float32(INPUTS**0.5 / 2)).sum(1, keepdims=True)


def gradients(weights: dict[str, Floats], x: Floats, y: Floats) -> tuple[float, dict[str, Floats]]:
    """Return the mean squared error of a batch, and its gradients."""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"])
    error = hidden @ weights["w2"] - y
    back = (error @ weights["w2"].T) * (1 - hidden * hidden)
    scale = np.float32(2 / len(x))
    grads = {
        "w1": x.T @ back * scale,
        "b1": back.sum(0) * scale,
        "w2": hidden.T @ error * scale,
    }
    return float(np.mean(error * error)), grads


def fresh(rng: np.random.Generator) -> dict[str, Floats]:
    """Return initial weights."""
    return {
        "w1": rng.standard_normal((INPUTS, HIDDEN), dtype=np.float32) / np.float32(INPUTS**0.5),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": rng.standard_normal((HIDDEN, 1), dtype=np.float32) / np.float32(HIDDEN**0.5),
    }


def adam(
    weights: dict[str, Floats], moments: dict[str, Floats], grads: dict[str, Floats],
    step: int, rate: float,
) -> None:  # fmt: skip
    """Apply one step of Adam, in place."""
    for name, gradient in grads.items():
        first, second = moments[f"{name}.1"], moments[f"{name}.2"]
        first += np.float32(0.1) * (gradient - first)
        second += np.float32(0.001) * (gradient * gradient - second)
        unbiased = np.float32((1 - 0.999**step) ** 0.5 / (1 - 0.9**step))
        weights[name] -= np.float32(rate) * unbiased * first / (np.sqrt(second) + np.float32(1e-8))


def train(steps: int, rate: float, data: str = "", out: str = "", seed: int = 0) -> float:
    """Train and return the last loss. The weights go to the file `out`, unless that is ""."""
    rng = np.random.default_rng(seed)
    if data:
        with np.load(data, allow_pickle=False) as saved:
            rows, targets = saved["x"], saved["y"]
    else:
        rows, targets = draw(rng, 16_384)
    weights = fresh(rng)
    moments = {f"{n}.{i}": np.zeros_like(w) for n, w in weights.items() for i in (1, 2)}
    everything = {**weights, **moments}
    loss = 0.0
    for step, report_due in training_steps(load(everything), steps):
        chosen = rng.integers(0, len(rows), BATCH)
        loss, grads = gradients(weights, rows[chosen], targets[chosen])
        adam(weights, moments, grads, step, rate)
        if report_due:
            report(step, loss, rate=rate)
            save(step, everything)
    if out:
        write(Path(out), weights)
    return loss


def main() -> None:
    """Read the command line and train."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--steps", type=int, default=900)
    read.add_argument("--data", default="")
    read.add_argument("--out", default="")
    task = int(os.environ.get("FLYBALL_ARRAY_INDEX", "1"))
    read.add_argument("--rate", type=float, default=RATES[task % len(RATES)])
    options = read.parse_args()
    train(options.steps, options.rate, options.data, options.out)


if __name__ == "__main__":
    main()
