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
    lower_is_better: bool = True,
) -> Row:
    """Return the change of a metric, paired by seed, with its 95 % interval.

    Args:
        case: what was run.
        arm, against: what is compared, e.g. `forecast` with `no forecast`.
        metric: name and unit.
        ours, theirs: values by seed.
        relative: the change in percent of theirs; else the difference.
        lower_is_better: of this metric.
    """
    pairs = list(zip(ours, theirs, strict=True))
    moved = [100.0 * (a - b) / b if relative else a - b for a, b in pairs]
    value, low, high = mean_95(moved)
    better, worse = (high < 0, low > 0) if lower_is_better else (low > 0, high < 0)
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
        "verdict": EVEN if len(pairs) < 2 else PAYS if better else COSTS if worse else EVEN,
    }
