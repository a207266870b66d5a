"""The mission's table of learners: each column defined, each figure from runs that were made.

| column | definition |
|---|---|
| time to converge | processor time until validation was within 1 point (%) of the best it reached |
| sample efficiency | part of the best validation gain reached after a quarter of the epochs |
| spread over seeds | standard deviation over seeds of the gain on the held-out set, in points |
| largest cluster run | devices of the largest instance that it governed |
| gain | mean change of the objective from the incumbent on the held-out set, over seeds |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from csv import DictReader
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.experiments.learning.arms import INCUMBENT, arms_named
from flyball.experiments.learning.compare import PLAIN, Compared
from flyball.experiments.learning.instances import problem_of
from flyball.learn.training.folder import CURVE, TIMES, read_curve

WITHIN = 0.01
EARLY = 0.25


def mission_rows(compared: Compared, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each kind of learner that was trained."""
    largest = max(
        (problem.cluster.device_count for problem in compared.plan.problems),
        default=0,
    ) or max(problem_of(one, 1.0).cluster.device_count for one in compared.plan.instances)
    out = []
    base, everything = compared.arm(INCUMBENT), compared.groups()[PLAIN]
    for kind in kinds:
        arms = arms_named(compared.plan.arms, kind)
        curves = [curve for arm in arms if (curve := _curve(Path(arm.path))) is not None]
        gains = [
            100.0 * math.expm1(float(np.mean(compared.changes(at, base, everything, "objective"))))
            for at, arm in enumerate(compared.plan.arms)
            if arm.kind == kind and compared.changes(at, base, everything, "objective")
        ]
        if not gains:
            continue
        out.append({
            "kind": kind,
            "seeds": len(gains),
            "converged_cpu_s": _mean([_converged_s(*curve) for curve in curves]),
            "trained_cpu_s": _mean([float(curve[1][-1]) for curve in curves]),
            "sample_efficiency": _mean([_efficiency(*curve) for curve in curves]),
            "spread": float(np.std(gains, ddof=1)) if len(gains) > 1 else None,
            "largest_devices": largest,
            "gain": float(np.mean(gains)),
        })  # fmt: skip
    return out


def _curve(path: Path) -> tuple[Floats, Floats, Floats] | None:
    """Return the validation scores of a run, and the processor time and epochs until each."""
    if not (path / CURVE).exists():
        return None
    with (path / TIMES).open(encoding="utf-8", newline="") as file:
        seconds = [float(row["cpu_s"]) for row in DictReader(file)]
    points = [
        (row["validation"], second, row["epochs"])
        for row, second in zip(read_curve(path), seconds, strict=True)
        if "validation" in row
    ]
    if not points:
        return None
    scores, times, epochs = (np.array(column) for column in zip(*points, strict=True))
    return scores, times, epochs


def _converged_s(scores: Floats, seconds: Floats, _epochs: Floats) -> float:
    return float(seconds[np.flatnonzero(scores <= scores.min() + WITHIN)[0]])


def _efficiency(scores: Floats, _seconds: Floats, epochs: Floats) -> float | None:
    """Return the part of the best gain reached after a quarter of the epochs; None = no gain."""
    if scores.min() >= 0.0:
        return None
    early = scores[epochs <= max(EARLY * epochs[-1], epochs[0])]
    return float(max(0.0, min(1.0, early.min() / scores.min())))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
