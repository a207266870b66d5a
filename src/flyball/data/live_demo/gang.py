"""A gang: two processes train the same model, each on half of every batch.

Each writes its gradient into shared memory; after a barrier both take the mean, so that their
weights stay equal without being sent.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import sys
from multiprocessing.synchronize import Barrier

import numpy as np

from flyball.data.live_demo.mlp import BATCH, adam, draw, fresh, gradients
from flyball.data.live_demo.progress import Floats, load, report, save, training_steps

WAIT_S = 60.0
"""Timeout of a member that waits for the others."""


def member(rank: int, size: int, steps: int, shared: Floats, barrier: Barrier) -> float:
    """Train as one of `size` members; return the last mean loss of all."""
    weights = fresh(np.random.default_rng(0))
    moments = {f"{n}.{i}": np.zeros_like(w) for n, w in weights.items() for i in (1, 2)}
    everything = {**weights, **moments}
    rng = np.random.default_rng(100 + rank)
    rows, targets = draw(rng, 8192)
    loss = 0.0
    for step, report_due in training_steps(load(everything), steps):
        chosen = rng.integers(0, len(rows), BATCH)
        member_loss, grads = gradients(weights, rows[chosen], targets[chosen])
        shared[rank] = np.concatenate([[member_loss], *(grad.ravel() for grad in grads.values())])
        barrier.wait(WAIT_S)
        mean = shared.mean(0)
        barrier.wait(WAIT_S)  # no member writes the next one before all have read this one
        loss, at = float(mean[0]), 1
        for name, grad in grads.items():
            grads[name] = mean[at : at + grad.size].reshape(grad.shape)
            at += grad.size
        adam(weights, moments, grads, step, 0.01)
        if report_due and rank == 0:
            report(step, loss, members=size)
            save(step, everything)
    return loss


def train(steps: int, size: int) -> int:
    """Start the other members and run as the first; return the exit code."""
    room = 1 + sum(weight.size for weight in fresh(np.random.default_rng(0)).values())
    context = mp.get_context("fork")
    memory = context.RawArray("f", size * room)
    shared = np.frombuffer(memory, np.float32).reshape(size, room)
    barrier = context.Barrier(size)
    others = [
        context.Process(target=member, args=(rank, size, steps, shared, barrier), daemon=True)
        for rank in range(1, size)
    ]
    for process in others:
        process.start()
    member(0, size, steps, shared, barrier)
    for process in others:
        process.join(WAIT_S)
    return max((abs(process.exitcode or 0) for process in others), default=0)


def main() -> None:
    """Read the command line and train."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--steps", type=int, default=800)
    read.add_argument("--members", type=int, default=2)
    options = read.parse_args()
    sys.exit(train(options.steps, options.members))


if __name__ == "__main__":
    main()
