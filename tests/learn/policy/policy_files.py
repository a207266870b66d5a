"""Tensors of small policies, for tests."""

from __future__ import annotations

import numpy as np

from flyball.learn.env.spaces import BOUND, RESIDUALS, SIZE, STRATEGIES, Vector
from flyball.learn.policy.forward import HALF, PATTERN_SHAPE

Tensors = dict[str, Vector]


def common() -> Tensors:
    """Return the tensors that every policy has, with the widest training range."""
    return {
        "norm.mean": np.zeros(SIZE, np.float32),
        "norm.scale": np.ones(SIZE, np.float32),
        "range.low": np.full(SIZE, -BOUND, np.float32),
        "range.high": np.full(SIZE, BOUND, np.float32),
    }


def heads(rng: np.random.Generator, inputs: int, by_strategy: bool) -> Tensors:
    rows = len(RESIDUALS) * (len(STRATEGIES) if by_strategy else 1)
    sizes = {"value": 1, "advantage": len(STRATEGIES), "mean": rows}
    return {
        name: part
        for head, size in sizes.items()
        for name, part in layer(rng, head, size, inputs).items()
    }


def layer(rng: np.random.Generator, name: str, rows: int, inputs: int) -> Tensors:
    weight = rng.normal(0.0, inputs**-0.5, (rows, inputs))
    bias = rng.normal(0.0, 0.1, rows)
    return {f"{name}.weight": weight.astype(np.float32), f"{name}.bias": bias.astype(np.float32)}


def mlp(hidden: tuple[int, ...] = (12, 8), seed: int = 0) -> Tensors:
    """Return a multi-layer perceptron; no hidden layer = linear."""
    rng = np.random.default_rng(seed)
    tensors, last = common(), SIZE
    for at, size in enumerate(hidden):
        tensors |= layer(rng, f"hidden{at}", size, last)
        last = size
    return tensors | heads(rng, last, False)


def conv_lstm(
    seed: int = 0, channels: tuple[int, int] = (4, 6), embed: int = 10, size: int = 7
) -> Tensors:
    """Return convolutions, an LSTM and heads."""
    rng = np.random.default_rng(seed)
    tensors = common()
    inputs = PATTERN_SHAPE[0]
    for at, count in enumerate(channels, 1):
        weight = rng.normal(0.0, 0.3, (count, inputs, 3, 3)).astype(np.float32)
        tensors |= {f"conv{at}.weight": weight, f"conv{at}.bias": np.full(count, 0.1, np.float32)}
        inputs = count
    joined = inputs * HALF[0] * HALF[1] + SIZE - int(np.prod(PATTERN_SHAPE))
    tensors |= layer(rng, "embed", embed, joined)
    gates = layer(rng, "ih", 4 * size, embed) | layer(rng, "hh", 4 * size, size)
    tensors |= {
        f"lstm.{name.split('.')[1]}_{name.split('.')[0]}": part for name, part in gates.items()
    }
    return tensors | heads(rng, size, True)


def always(strategy: int = 0, **residuals: float) -> dict[str, Vector]:
    """Return a policy that always takes the same action."""
    tensors = mlp(())
    for name in ("value", "advantage", "mean"):
        tensors[f"{name}.weight"][:] = 0.0
        tensors[f"{name}.bias"][:] = 0.0
    tensors["advantage.bias"][strategy] = 1.0
    for name, value in residuals.items():
        at = [residual.name for residual in RESIDUALS].index(name)
        tensors["mean.bias"][at] = np.arctanh(value)
    return tensors
