"""Latency-sensitive: answers requests one by one, learns from each, and measures the latency.

The requests come at a fixed pace; the figure of merit is the time from request to answer.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from flyball.data.live_demo.progress import load, report, save, training_steps

INPUTS = 256
GAP_S = 0.002
"""Time between two requests."""


def serve(requests: int, rate: float = 0.02, seed: int = 0) -> float:
    """Answer requests with a logistic model that learns from each; return the last loss."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(INPUTS, dtype=np.float32)
    weights = {"w": np.zeros(INPUTS, np.float32)}
    w = weights["w"]
    taken_ms: list[float] = []
    losses: list[float] = []
    loss = 0.0
    for step, report_due in training_steps(load(weights), requests):
        x = rng.standard_normal(INPUTS, dtype=np.float32)
        label = float(truth @ x > 0)
        began = time.perf_counter()
        answer = 1 / (1 + np.exp(-float(np.clip(w @ x, -30, 30))))
        taken_ms.append((time.perf_counter() - began) * 1000)
        losses.append(float(-np.log(max(1e-6, answer if label else 1 - answer))))
        w -= np.float32(rate * (answer - label)) * x
        if report_due:
            loss = float(np.mean(losses))
            p50, p99 = np.percentile(taken_ms, (50, 99))
            report(step, loss, p50_ms=float(p50), p99_ms=float(p99))
            save(step, weights)
            taken_ms, losses = [], []
        time.sleep(GAP_S)
    return loss


def main() -> None:
    """Read the command line and serve."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--requests", type=int, default=1800)
    serve(read.parse_args().requests)


if __name__ == "__main__":
    main()
