"""Shapes of the measured nets, drawn so that work and memory spread over decades.

A shape has more than a description does (how wide, which of two variants): the description is what
a user would state, and an estimate has to do without the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

TYPES = ("mlp", "resnet", "mobilenet", "lstm", "gru", "transformer", "recommendation", "gcn")
PRECISIONS = ("fp32", "bf16")
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw")
REGULARIZATIONS = ("none", "weight-decay", "dropout", "l1")
AUGMENTATIONS = ("none", "noise", "mask", "mixup")
CLASSES = 10
VOCABULARY = 1000
"""Number of distinct tokens of the sequence models."""
WORK = (1e6, 1.2e10)
"""Range of the target number of multiplications and additions of a step."""
MOST_NUMBERS = 1.2e8
"""Maximum number of activations, parameters and optimiser values of a measured net."""
CANDIDATES = 40
"""Number of shapes drawn for each row; the one nearest to the target work is used."""


@dataclass(frozen=True)
class Shape:
    """Holds the shape of a net and how it is trained.

    Attributes:
        type: one of `TYPES`.
        width: channels, units or columns of an embedding.
        layers: number of repeated layers with weights.
        batch: samples of a step.
        size: size of the input: features, side of the image, length, fields or nodes.
        variant: 0 or 1: a difference within the type that descriptions do not mention.
        table: rows of each embedding of a recommendation net.
    """

    type: str
    width: int
    layers: int
    batch: int
    size: int
    variant: int = 0
    table: int = 1
    precision: str = "fp32"
    optimizer: str = "sgd"
    regularization: str = "none"
    augmentation: str = "none"
    learning_rate: float = 1e-3
    iterations: int = 1000


RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "mlp": {"width": (32, 2048), "layers": (2, 12), "batch": (8, 1024), "size": (16, 1024)},
    "resnet": {"width": (8, 64), "layers": (1, 4), "batch": (2, 64), "size": (16, 96)},
    "mobilenet": {"width": (8, 48), "layers": (1, 4), "batch": (2, 64), "size": (16, 96)},
    "lstm": {"width": (16, 512), "layers": (1, 4), "batch": (2, 64), "size": (8, 128)},
    "gru": {"width": (16, 512), "layers": (1, 4), "batch": (2, 64), "size": (8, 128)},
    "transformer": {"width": (32, 512), "layers": (1, 8), "batch": (1, 32), "size": (16, 256)},
    "recommendation": {"width": (8, 64), "layers": (2, 6), "batch": (32, 4096), "size": (4, 32)},
    "gcn": {"width": (16, 256), "layers": (2, 6), "batch": (1, 16), "size": (32, 1024)},
}
MULTIPLES = {"width": 8, "size": 8}
SMALLEST: dict[str, Any] = {"width": 32, "layers": 2, "batch": 2, "size": 16}
"""Shape of the warm-up, which runs every kernel once and needs little memory."""


def draw_shape(index: int, seed: int) -> Shape:
    """Return the shape of one row, which depends on `index` and `seed` only.

    Types alternate, so that any first part of the rows is a fair sample of them.
    """
    draw = np.random.default_rng([seed, index])
    kind = TYPES[index % len(TYPES)]
    target = math.exp(draw.uniform(*np.log(WORK)))
    tries = [_candidate(kind, draw) for _ in range(CANDIDATES)]
    fitting = [shape for shape in tries if numbers_of(shape) <= MOST_NUMBERS]
    return min(fitting or tries, key=lambda shape: abs(math.log(work_of(shape) / target)))


def smallest(shape: Shape) -> Shape:
    """Return a tiny net of the same type, trained in the same way."""
    return replace(shape, table=8, **SMALLEST)


def _candidate(kind: str, draw: np.random.Generator) -> Shape:
    sizes = {
        name: _between(low, high, MULTIPLES.get(name, 1), draw)
        for name, (low, high) in RANGES[kind].items()
    }
    table = _between(100, 200_000, 1, draw) if kind == "recommendation" else 1
    return Shape(
        type=kind,
        variant=int(draw.integers(2)),
        table=table,
        precision=str(draw.choice(PRECISIONS, p=(0.65, 0.35))),
        optimizer=str(draw.choice(OPTIMIZERS)),
        regularization=str(draw.choice(REGULARIZATIONS)),
        augmentation=str(draw.choice(AUGMENTATIONS)),
        learning_rate=float(f"{10 ** draw.uniform(-5, -2):.2g}"),
        iterations=int(float(f"{10 ** draw.uniform(2, 5):.2g}")),
        **sizes,
    )


def _between(low: float, high: float, multiple: int, draw: np.random.Generator) -> int:
    """Draw a value with a uniform logarithm, rounded to a multiple."""
    value = math.exp(draw.uniform(math.log(low), math.log(high)))
    return max(multiple, round(value / multiple) * multiple)


def work_of(shape: Shape) -> float:
    """Return the rough operations of a step, used only to spread the rows."""
    w, n, d, s = float(shape.width), float(shape.batch), float(shape.layers), float(shape.size)
    once = {
        "mlp": lambda: w * w * d + w * s,
        "resnet": lambda: 3 * d * 18 * w * w * s * s,
        "mobilenet": lambda: 3 * d * 12 * w * w * s * s / 4,
        "lstm": lambda: s * (8 * w * w * d + w * VOCABULARY),
        "gru": lambda: s * (6 * w * w * d + w * VOCABULARY),
        "transformer": lambda: s * (10 * w * w * d + 2 * s * w * d + w * VOCABULARY),
        "recommendation": lambda: s * w * 64 + d * 64 * 64 + shape.table * s * w / n,
        "gcn": lambda: s * (w * w * d + 8 * w * d),
    }[shape.type]()
    return 6.0 * n * once


def numbers_of(shape: Shape) -> float:
    """Return the rough number of values held in a step, to skip nets too large to measure."""
    w, n, d, s = float(shape.width), float(shape.batch), float(shape.layers), float(shape.size)
    return {
        "mlp": lambda: 3 * n * w * d + 4 * w * w * d,
        "resnet": lambda: n * 12 * d * w * s * s,
        "mobilenet": lambda: n * 18 * d * w * s * s,
        "lstm": lambda: n * s * (12 * w * d + 4 * VOCABULARY) + 40 * w * w * d,
        "gru": lambda: n * s * (12 * w * d + 4 * VOCABULARY) + 30 * w * w * d,
        "transformer": lambda: n * s * (20 * w * d + s * d * w / 16 + 4 * VOCABULARY),
        "recommendation": lambda: 4 * shape.table * s * w + 4 * n * s * w,
        "gcn": lambda: n * s * w * d * 20,
    }[shape.type]()
