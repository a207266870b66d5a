"""Scores how far a job's features are from each class: the table of workload classes as numbers.

Each class has a range for each feature, with a middle and half its width. A feature costs a
class half the square of its distance from the middle, counted in half widths, and nothing
on a side where the range is open. The costs of the known features add up; the class with the
least cost wins, and the confidence is its share of `exp(-cost)` over all classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.workload import Floats, Ints, JobClass

Bools = npt.NDArray[np.bool_]
FEATURES = ("memory", "gang", "need", "parallel", "transfer", "intensity")
"""Columns of a table of features; NaN = not known.

memory: log2 of GiB on each device. gang: log2 of devices. need: of low latency, 0 to 1.
parallel: part of a step that a faster device shortens. transfer: octaves of speed lost when
spread over nodes. intensity: log10 of operations per byte of gradients.
"""
MEMORY, GANG, NEED, PARALLEL, TRANSFER, INTENSITY = range(len(FEATURES))
NOTHING = -1
"""Value in place of a feature if none of them decided."""


class FeatureRange(NamedTuple):
    """Holds the usual range of a class in one feature; `open` is -1 below, 1 above, 0 neither."""

    middle: float
    half: float
    open: int = 0


def _between(low: float, high: float, open: int = 0) -> FeatureRange:
    return FeatureRange((low + high) / 2, (high - low) / 2, open)


def _gib(low: float, high: float, open: int = 0) -> FeatureRange:
    return _between(math.log2(low), math.log2(high), open)


def _flop(low: float, high: float, open: int = 0) -> FeatureRange:
    return _between(math.log10(low), math.log10(high), open)


_ONE_NODE = FeatureRange(math.log2(8), 0.25, -1)
_MANY_NODES = FeatureRange(math.log2(16), 0.25, 1)
_PATIENT, _URGENT = FeatureRange(0.0, 0.35, -1), FeatureRange(1.0, 0.35, 1)
_KEEPS_SPEED, _LOSES_SPEED = _between(0, 1, -1), _between(2, 3, 1)

RANGES: dict[JobClass, tuple[FeatureRange, ...]] = {
    JobClass.COMPUTE_INTENSIVE: (
        _gib(0.5, 2, -1), _ONE_NODE, _PATIENT, _between(0.85, 0.95, 1), _KEEPS_SPEED,
        _flop(2000, 20_000, 1),
    ),
    JobClass.MEMORY_BOUND: (
        _gib(8, 64, 1), _ONE_NODE, _PATIENT, _between(0.30, 0.60, -1), _KEEPS_SPEED,
        _flop(10, 100, -1),
    ),
    JobClass.LATENCY_SENSITIVE: (
        _gib(1, 8, -1), _ONE_NODE, _URGENT, _between(0.40, 0.70), _KEEPS_SPEED,
        _flop(50, 500),
    ),
    JobClass.BANDWIDTH_LIMITED: (
        _gib(2, 16), _MANY_NODES, _PATIENT, _between(0.50, 0.80), _LOSES_SPEED,
        _flop(100, 1000),
    ),
    JobClass.MIXED: (
        _gib(4, 32), _ONE_NODE, _PATIENT, _between(0.60, 0.85), _KEEPS_SPEED,
        _flop(500, 5000),
    ),
}  # fmt: skip
"""Ranges by class, in the order of `FEATURES`. Memory and parallel part are from the table; the
gang range splits above the eight devices of a node; the rest is our reading of the table's
descriptions, placed by the models that were measured."""

ORDER = (
    JobClass.COMPUTE_INTENSIVE,
    JobClass.MIXED,
    JobClass.MEMORY_BOUND,
    JobClass.LATENCY_SENSITIVE,
    JobClass.BANDWIDTH_LIMITED,
)
"""Classes in the order that breaks ties: the first of several equally near ones wins."""

FARTHEST = (2.0, 3.0, 3.0, 3.0, 3.0, 3.0)
"""Half widths beyond which a feature counts no more. Memory least: it is only a hint."""

COMMON = 0.1
"""Extra cost of every class but compute-intensive, the default when nothing is known."""

BLOCK = 1 << 16
"""Rows scored at a time, to bound memory."""

_middle, _half, _open = (
    np.array([[feature[part] for feature in RANGES[kind]] for kind in ORDER], np.float64)
    for part in range(3)
)
_kinds = np.array(ORDER, np.int64)
_start = np.array([0.0] + [COMMON] * (len(ORDER) - 1))


class Scores(NamedTuple):
    """Holds for each job its class, the confidence, and the feature that decided.

    The deciding feature is the one that favours the class most over the next best one. Between
    two equally near ones it is the memory, if stated, else `NOTHING`.
    """

    kind: Ints
    confidence: Floats
    decided_by: Ints


def nearest(features: Floats) -> Scores:
    """Return the nearest class of each row of a table of features."""
    parts = [_score(features[at : at + BLOCK]) for at in range(0, len(features), BLOCK)]
    return Scores(*(np.concatenate(blocks) for blocks in zip(*parts, strict=True)))


def _score(features: Floats) -> Scores:
    rows = np.arange(len(features))
    stated = [at for at in range(len(FEATURES)) if not np.isnan(features[:, at]).all()]
    costs = {at: _costs(features[:, at], at) for at in stated}
    totals = _start + sum(costs.values(), np.zeros((len(features), len(ORDER))))
    best = totals.argmin(axis=1)
    least = totals[rows, best]
    weight = np.exp(least[:, None] - totals).sum(axis=1)
    totals[rows, best] = np.inf
    next_best = totals.argmin(axis=1)
    decided = np.where(np.isnan(features[:, MEMORY]), NOTHING, MEMORY)
    strongest = np.zeros(len(features))
    for at, cost in costs.items():
        in_favour = cost[rows, next_best] - cost[rows, best]
        decided[in_favour > strongest] = at
        strongest = np.maximum(strongest, in_favour)
    return Scores(_kinds[best], 1.0 / weight, decided)


def _costs(values: Floats, feature: int) -> Floats:
    """Return the cost of one feature for each class, a row per job; 0 where it is not known."""
    off = (values[:, None] - _middle[:, feature]) / _half[:, feature]
    for at, side in enumerate(_open[:, feature]):
        if side:  # the open side is free
            off[:, at] = side * np.minimum(off[:, at] * side, 0.0)
    off = np.clip(off, -FARTHEST[feature], FARTHEST[feature])
    off[np.isnan(off)] = 0.0
    return 0.5 * off * off
