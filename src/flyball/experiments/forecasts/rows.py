"""The rows of `flyball bench forecasts`: one paired comparison each, with its verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flyball.experiments.tuning.rows import mean_95

Row = dict[str, Any]
Note = Callable[[str], None]

PAYS, COSTS, EVEN = "pays", "costs", "no difference"


def comparison(
    case: str,
    arm: str,
    against: str,
    metric: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    relative: bool = True,
    lower_is_better: bool | None = True,
) -> Row:
    """Return the change of a metric, paired by seed, with its 95 % interval.

    Args:
        case: what was run.
        arm, against: what is compared, e.g. `forecast` with `no forecast`.
        metric: name and unit.
        ours, theirs: values by seed.
        relative: the change in percent of theirs; else the difference.
        lower_is_better: of this metric; None = it is neither, and gets no verdict.
    """
    pairs = list(zip(ours, theirs, strict=True))
    moved = [100.0 * (a - b) / b if relative else a - b for a, b in pairs]
    value, low, high = mean_95(moved)
    return {
        "case": case,
        "arm": arm,
        "against": against,
        "metric": metric,
        "unit": "%" if relative else "",
        "value": value,
        "low": low,
        "high": high,
        "n": len(pairs),
        "base": sum(theirs) / len(theirs),
        "verdict": verdict(low, high, len(pairs), lower_is_better),
    }


def verdict(low: float, high: float, pairs: int, lower_is_better: bool | None = True) -> str:
    """Return in words what an interval of a change says; "" if the metric is neither way better."""
    if lower_is_better is None:
        return ""
    if pairs < 2 or low <= 0.0 <= high:
        return EVEN
    return PAYS if (high < 0.0) == lower_is_better else COSTS
