"""A gang: two processes learn the same model, each from half of every batch.

Each writes its gradient into memory that both see; after a barrier both take the mean, so that
their weights stay the same without being sent.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import sys
from multiprocessing.synchronize import Barrier

import numpy as np

from flyball.data.live_demo.mlp import BATCH, adam, draw, fresh, gradients
from flyball.data.live_demo.progress import Floats, load, save, steps_told, tell

WAIT_S = 60.0
"""A member that waits longer than this for the others has lost them."""


def member(rank: int, size: int, steps: int, shared: Floats, barrier: Barrier) -> float:
    """Learn as one of `size`; the last loss, of all."""
    weights = fresh(np.random.default_rng(0))
    moments = {f"{n}.{i}": np.zeros_like(w) for n, w in weights.items() for i in (1, 2)}
    everything = {**weights, **moments}
    rng = np.random.default_rng(100 + rank)
    rows, targets = draw(rng, 8192)
    loss = 0.0
    for step, told in steps_told(load(everything), steps):
        chosen = rng.integers(0, len(rows), BATCH)
        own_loss, found = gradients(weights, rows[chosen], targets[chosen])
        shared[rank] = np.concatenate([[own_loss], *(each.ravel() for each in found.values())])
        barrier.wait(WAIT_S)
        mean = shared.mean(0)
        barrier.wait(WAIT_S)  # nobody writes the next one before all have read this one
        loss, at = float(mean[0]), 1
        for name, each in found.items():
            found[name] = mean[at : at + each.size].reshape(each.shape)
            at += each.size
        adam(weights, moments, found, step, 0.01)
        if told and rank == 0:
            tell(step, loss, members=size)
            save(step, everything)
    return loss


def train(steps: int, size: int) -> int:
    """Start the others and be the first; the exit code."""
    room = 1 + sum(each.size for each in fresh(np.random.default_rng(0)).values())
    context = mp.get_context("fork")
    memory = context.RawArray("f", size * room)
    shared = np.frombuffer(memory, np.float32).reshape(size, room)
    barrier = context.Barrier(size)
    others = [
        context.Process(target=member, args=(rank, size, steps, shared, barrier), daemon=True)
        for rank in range(1, size)
    ]
    for each in others:
        each.start()
    member(0, size, steps, shared, barrier)
    for each in others:
        each.join(WAIT_S)
    return max(abs(each.exitcode or 0) for each in others) if others else 0


def main() -> None:
    """Read the command line and learn."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--steps", type=int, default=800)
    read.add_argument("--members", type=int, default=2)
    options = read.parse_args()
    sys.exit(train(options.steps, options.members))


if __name__ == "__main__":
    main()
