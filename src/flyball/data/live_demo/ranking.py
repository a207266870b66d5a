"""Mixed: looks up rows of a table, as a recommender does, and trains a network on top.

With torch installed the network is torch's, else it is the NumPy one of `mlp`.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from flyball.data.live_demo.mlp import BATCH, INPUTS, adam, fresh, gradients
from flyball.data.live_demo.progress import Floats, load, report, save, training_steps

ENTRIES = 100_000


class Clicks:
    """Draws pairs of entries that were seen together, and how much they were liked."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.table = self.rng.standard_normal((ENTRIES, INPUTS // 2), dtype=np.float32)

    def batch(self) -> tuple[Floats, Floats]:
        """Return pairs of rows of the table, and the values to predict."""
        seen = self.rng.integers(0, ENTRIES, (BATCH, 2))
        x = self.table[seen].reshape(BATCH, INPUTS)
        other = x[:, INPUTS // 2 :]
        liked = np.tanh(2 * (x[:, :1] + other[:, :1])) + np.abs(x[:, 1:2] - other[:, 1:2])
        return x, liked.astype(np.float32)


def train(steps: int, rate: float = 0.002, seed: int = 0) -> float:
    """Train with NumPy; return the last loss."""
    clicks = Clicks(seed)
    weights = fresh(clicks.rng)
    moments = {f"{n}.{i}": np.zeros_like(w) for n, w in weights.items() for i in (1, 2)}
    everything = {**weights, **moments}
    loss = 0.0
    for step, report_due in training_steps(load(everything), steps):
        loss, grads = gradients(weights, *clicks.batch())
        adam(weights, moments, grads, step, rate)
        if report_due:
            report(step, loss)
            save(step, everything)
    return loss


def train_torch(steps: int, rate: float = 0.002, seed: int = 0) -> float:
    """Train with torch; return the last loss."""
    torch: Any = import_module("torch")

    torch.manual_seed(seed)
    clicks = Clicks(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)
    )
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    loss = 0.0
    for step, report_due in training_steps(load(weights), steps):
        x, y = (torch.from_numpy(array) for array in clicks.batch())
        optimizer.zero_grad()
        error = torch.nn.functional.mse_loss(net(x), y)
        error.backward()
        optimizer.step()
        if report_due:
            loss = float(error.detach())
            report(step, loss)
            save(step, weights)
    return loss


def main() -> None:
    """Read the command line and train."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--steps", type=int, default=1000)
    steps = read.parse_args().steps
    (train_torch if find_spec("torch") else train)(steps)


if __name__ == "__main__":
    main()
