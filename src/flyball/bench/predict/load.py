"""The load rows of the prediction table: measured on recorded series, each against its bar.

Every target is a panel of series with a test slice at its end. Models are fitted and chosen on the
data before each origin; docs/concept/prediction.md describes how the settings were chosen.
"""

from __future__ import annotations

import math

import numpy as np

from flyball.bench.predict.targets import (
    MAE,
    PINBALL,
    TARGETS,
    Note,
    Row,
    Target,
    days,
    parts,
    row_of,
)
from flyball.core.units import S_PER_HOUR, S_PER_MIN
from flyball.predict.backtest import (
    Result,
    accuracy,
    backtest,
    best_naive,
    coverage,
    interval,
    least_cover,
    mae,
    origins_of,
    pinball,
    ratio,
    rmae,
)
from flyball.predict.load.features import Window
from flyball.predict.series import Series

__all__ = ["PINBALL", "TARGETS", "Target", "days", "measure", "parts"]

POOLED = (88.0, 92.0)
"""Range for the coverage of all series together, in percent."""
EACH = (80.0, 97.0)
"""Range for the coverage of a single series, in percent."""
ROLLING_S = 1.0
"""Width of the rolling mean in the smoothed variant."""
LEARNT = ("linear", "trees", "tree-changes", "parts", "lstm", "transformer")


def measure(name: str, target: Target, note: Note) -> list[Row]:
    """Measure all rows of one target."""
    panel = target.panel()
    step_s = panel[0].step_s
    leads = [panel[0].steps(horizon_s) for horizon_s in target.horizons_s]
    where = target.where(panel[0])
    results = backtest(panel, leads, where, target.chosen, lambda text: note(f"{name}: {text}"))
    rows: list[Row] = []
    for index, lead in enumerate(leads):
        at = {"target": name, "horizon": _ahead_text(lead * step_s)}
        rows += [{**at, **row} for row in _rows(results[lead], target, index)]
    if target.path is not None:
        series = [[results[lead][index] for lead in leads] for index in range(len(panel))]
        value = float(np.mean([rmae(results) for results in series]))
        count = sum(int(origins_of(results).sum()) for results in series)
        row = row_of("rMAE", value, target.path, "best naive of each series", count)
        horizon = f"up to {_ahead_text(leads[-1] * step_s)}, all together"
        rows.append({"target": name, "horizon": horizon, **row})
    if target.overlap:
        at = {"target": name, "horizon": _ahead_text(leads[0] * step_s)}
        rows += [{**at, **row} for row in _overlap_rows(panel[0], where.test)]
    return rows


def _ahead_text(seconds: float) -> str:
    """Return `10 min`, `1 h`, `24 h`."""
    if seconds >= S_PER_HOUR:
        return f"{seconds / S_PER_HOUR:g} h"
    return f"{seconds / S_PER_MIN:g} min" if seconds >= S_PER_MIN else f"{seconds:g} s"


def _rows(results: list[Result], target: Target, index: int) -> list[Row]:
    naive, error = best_naive(results)
    count = int(origins_of(results).sum())
    value = float(np.mean([rmae([result]) for result in results])) if target.each else rmae(results)
    rows = [
        row_of("rMAE", value, _bar(target, "rMAE", index), f"{naive}: MAE {error:.4g}", count),
    ]
    if MAE in target.bars:
        actual = np.concatenate([result.actual for result in results])
        forecast = np.concatenate([result.walk.median for result in results])
        bar = _bar(target, MAE, index)
        rows.append(row_of(MAE, mae(actual, forecast), bar, f"{naive}: MAE {error:.4g}", count))
    if "accuracy %" in target.bars:
        bar = _bar(target, "accuracy %", index)
        rows.append(row_of("accuracy %", accuracy(results), bar, "", count, most=False))
    if PINBALL in target.bars:
        rows.append(_pinball_row(results, _bar(target, PINBALL, index), count))
    rows += _band_rows(results, count)
    return [*rows, *_nature_rows(results, count), *_alone_rows(results, target, count)]


def _alone_rows(results: list[Result], target: Target, count: int) -> list[Row]:
    """Return rows of each learnt forecaster alone, and how often it was the one chosen."""
    rows = []
    for name in LEARNT:
        if name not in results[0].alone:
            continue
        alone = [rmae([result], result.alone[name]) for result in results]
        value = float(np.mean(alone)) if target.each else _pooled(results, name)
        used = np.concatenate([result.walk.used for result in results])
        part = 100.0 * float(np.mean(used == results[0].walk.names.index(name)))
        rows.append(row_of(f"rMAE, {name} alone", value, None, f"speaks {part:.0f} %", count))
    return rows


def _pooled(results: list[Result], name: str) -> float:
    return rmae(results, np.concatenate([result.alone[name] for result in results]))


def _overlap_rows(series: Series, test: int) -> list[Row]:
    """Return the "accuracy" of a rolling mean whose next value shares all but a step with the last.

    This forecasts nothing: the last rolling mean is taken for the next, and 19 of the 20 values
    in it are the same. The other row is the same "forecast" of values that share nothing.
    """
    width = series.steps(ROLLING_S)
    origins = np.arange(test, len(series) - 1)
    rolled = Window(series.filled).mean(np.arange(len(series)), width)
    rows = []
    for name, values in ((f"mean of {width}, overlapping", rolled), ("raw", series.filled)):
        now, then = values[origins], values[origins + 1]
        value = 100.0 * (1.0 - float(np.abs(then - now).sum() / np.abs(then).sum()))
        text = f"accuracy % of the last value: {name}"
        rows.append(row_of(text, value, None, "shown for what it is", len(origins)))
    return rows


def _pinball_row(results: list[Result], bar: float | None, count: int) -> Row:
    actual = np.concatenate([result.actual for result in results])
    last = np.concatenate([result.alone["last"] for result in results])
    ours = pinball(actual, np.concatenate([result.walk.quantiles for result in results]))
    # A point as every quantile loses half of its absolute error.
    theirs = 0.5 * mae(actual, last)
    baseline = f"last: pinball {theirs:.4g}"
    return row_of(PINBALL, ratio(ours, theirs), bar, baseline, count)


def _band_rows(results: list[Result], count: int) -> list[Row]:
    actual = np.concatenate([result.actual for result in results])
    quantiles = np.concatenate([result.walk.quantiles for result in results])
    last = np.concatenate([result.walk.bands[:, 0] for result in results])
    low, high = quantiles[:, 0], quantiles[:, -1]
    covered = {r.name: _coverage(r) for r in results if np.ptp(r.known) > 0}
    least = min(covered, key=lambda name: covered[name])
    most = max(covered, key=lambda name: covered[name])
    score, theirs = interval(actual, low, high), interval(actual, last[:, 0], last[:, 1])
    still = len(results) - len(covered)
    constant = f"; {still} constant left out" if still else ""
    return [
        row_of("90 % band: coverage %", coverage(actual, low, high), POOLED, "", count),
        row_of("90 % band: the least it can cover %", least_cover(results), None, "", count),
        row_of("90 % band: least covered series %", covered[least], EACH, least + constant, count),
        row_of("90 % band: most covered series %", covered[most], EACH, most + constant, count),
        row_of(
            "90 % band: interval score / last value's",
            *(ratio(score, theirs), 1.0, f"last, conformal: {theirs:.4g}", count),
        ),
    ]


def _coverage(result: Result) -> float:
    return coverage(result.actual, result.walk.quantiles[:, 0], result.walk.quantiles[:, -1])


def _nature_rows(results: list[Result], count: int) -> list[Row]:
    """Return rows that explain the others: sums of forecasts, and how often nothing changes.

    The median of arrivals is by nature below their mean. A series that is unchanged in more than
    90 % of cases cannot have a band that covers 90 %: the last value alone covers more.
    """
    total = float(np.nansum(np.concatenate([result.actual for result in results])))
    pairs = [(result.walk, np.isfinite(result.actual)) for result in results]
    sums = {
        "mean": sum(float(walk.mean[finite].sum()) for walk, finite in pairs),
        "median": sum(float(walk.median[finite].sum()) for walk, finite in pairs),
    }
    rows = [
        row_of(f"{name} forecast / actual", ratio(value, total), None, "", count)
        for name, value in sums.items()
    ]
    actual = np.concatenate([result.actual for result in results])
    still = actual == np.concatenate([result.alone["last"] for result in results])
    rows.append(
        row_of("unchanged since the origin %", 100.0 * float(still.mean()), None, "", count)
    )
    return rows


def _bar(target: Target, metric: str, index: int) -> float | None:
    bar = target.bars.get(metric, (math.nan,) * len(target.horizons_s))[index]
    return None if math.isnan(bar) else bar
