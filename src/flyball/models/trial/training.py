"""Training steps of the zoo: speed of the measured variants, memory of recomputation."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from flyball.models.measure import interleaved
from flyball.models.result import EAGER
from flyball.models.training.search import optimize_training, peak_memory
from flyball.models.training.step import QUICK, VARIANTS, Step, gradient_error, gradients
from flyball.models.zoo.registry import MEMORY, TRAINED, build

LEARNING_RATE = 1e-4
MEMORY_ROUNDS = 6


def task(model: str, **sizes: int) -> tuple[Step, tuple[Tensor, ...]]:
    """Return a training step of a model of the zoo, and a batch with random targets."""
    module, example = build(model, **sizes)
    module.train()
    with torch.no_grad():
        output = module(*example)
    classes = output.shape[1] if output.dim() != 3 else output.shape[2]
    shape = output.shape[:-1] if output.dim() in (2, 3) else (output.shape[0], *output.shape[2:])
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(0, classes, tuple(shape), generator=generator)
    optimizer: torch.optim.Optimizer
    if model == "transformer-base":
        optimizer = torch.optim.AdamW(module.parameters(), LEARNING_RATE)
    else:
        optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, momentum=0.9)
    return Step(module, optimizer, loss), (*example, targets)


def loss(module: nn.Module, *batch: Tensor) -> Tensor:
    """Return the cross-entropy of a model's classes; the last tensor of a batch has the targets."""
    *inputs, targets = batch
    scores = module(*inputs)
    if scores.dim() == 3:
        scores, targets = scores.flatten(0, 1), targets.flatten()
    return nn.functional.cross_entropy(scores, targets)


def measure(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return the speed of a training step's variants."""
    torch.set_num_threads(threads)
    step, batch = task(model, **TRAINED[model])
    result = optimize_training(
        step.module,
        step.optimizer,
        step.loss,
        batch,
        variants=tuple(VARIANTS) if full else QUICK,
        time_limit_s=time_limit_s,
        clock=time.process_time if threads == 1 else time.perf_counter,
    )
    return {"model": model, "threads": threads, **result.as_dict()}


def measure_memory(model: str, threads: int) -> dict[str, Any]:
    """Return peak memory and time of a step with and without recomputation, and the gradients."""
    torch.set_num_threads(threads)
    step, batch = task(model, **MEMORY[model])
    plain = step.copy()
    expected = gradients(step, batch)
    result = optimize_training(
        step.module, step.optimizer, step.loss, batch, variants=(), activation_budget_bytes=0
    )
    saved = result.step
    error = gradient_error(expected, gradients(saved, batch))
    plain_bytes, saved_bytes = peak_memory(plain, batch), peak_memory(saved, batch)
    times = interleaved(
        {EAGER: lambda *inputs: (plain(*inputs),), "saved": lambda *inputs: (saved(*inputs),)},
        EAGER,
        batch,
        MEMORY_ROUNDS,
        math.inf,
        clock=time.process_time if threads == 1 else time.perf_counter,
        grad=True,
    )["saved"]
    fixed = sum(one.numel() * one.element_size() for one in step.module.parameters())
    return {
        "model": model,
        "threads": threads,
        "plain_bytes": plain_bytes,
        "saved_bytes": saved_bytes,
        "weights_bytes": fixed,
        "cost_pct": 100 * (1 / times.ratio - 1),
        "cost_low_pct": 100 * (1 / times.high - 1),
        "cost_high_pct": 100 * (1 / times.low - 1),
        "gradient_error": error,
        "recomputed": len(result.recomputed),
    }
