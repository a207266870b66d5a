"""Memory-bound: factors of users and items, looked up at random in tables far beyond the cache.

The ratings come from hidden factors, so that there is a structure to learn.
"""

from __future__ import annotations

import argparse

import numpy as np

from flyball.data.live_demo.progress import load, report, save, training_steps

FACTORS, BATCH = 16, 32_768


def train(steps: int, entries: int, rate: float = 0.3, seed: int = 0) -> float:
    """Learn the factors of `entries` users and a thousand items; return the last loss."""
    rng = np.random.default_rng(seed)
    groups = rng.standard_normal((64, FACTORS), dtype=np.float32)
    hidden_items = rng.standard_normal((1000, FACTORS), dtype=np.float32) / np.float32(FACTORS**0.5)
    users = np.full((entries, FACTORS), 0.1, np.float32)
    weights = {"users": users, "items": hidden_items * np.float32(0.5)}
    items = weights["items"]
    loss = 0.0
    for step, report_due in training_steps(load(weights), steps):
        u = rng.integers(0, entries, BATCH)
        i = rng.integers(0, len(items), BATCH)
        # Users of the same group like the same items; few groups, so that every step helps.
        rating = np.einsum("ij,ij->i", groups[u % len(groups)], hidden_items[i])
        error = np.einsum("ij,ij->i", users[u], items[i]) - rating
        loss = float(np.mean(error * error))
        pull = np.float32(rate) * np.clip(error, -3, 3)[:, None]
        moved = pull * items[i]
        np.subtract.at(items, i, np.float32(0.1) * pull * users[u])
        users[u] -= moved
        if report_due:
            report(step, loss, table_mib=users.nbytes / 2**20)
            save(step, weights)
    return loss


def main() -> None:
    """Read the command line and train."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--steps", type=int, default=400)
    read.add_argument("--entries", type=int, default=500_000)
    options = read.parse_args()
    train(options.steps, options.entries)


if __name__ == "__main__":
    main()
