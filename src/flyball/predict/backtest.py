"""Rolling-origin back-tests: forecast `lead` steps ahead from what is known at each origin.

The measures are defined here only and are explained in `docs/concept/prediction.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.combine import with_mixes
from flyball.predict.load.contract import LEVELS, LoadForecaster, Outlook
from flyball.predict.load.registry import NAIVE, NETS, candidates, get_forecaster
from flyball.predict.load.walk import Walk, walk_panel
from flyball.predict.series import Series

BANDED = ("last", "linear", "trees", "tree-changes", "parts", "lstm", "transformer")
"""Names of forecasters that offer bands; the first is the baseline of the others."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Slice:
    """Holds the first origins of a back-test.

    Attributes:
        warm: first origin; everything before it is used by the first fit. Between `warm` and
            `test` the choice among forecasters and the bands learn; no error is counted.
        test: first origin that counts.
        refits: further origins after `warm` at which all forecasters except nets are fitted again
            on what is known then; nets, which take longest, only at `warm` and `test`.
    """

    warm: int
    test: int
    refits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """Holds the forecasts of one series at one lead, test origins only.

    Attributes:
        actual: the values; NaN where not known.
        walk: the forecasts made.
        naive: the points of the naive forecasters, one column each.
        alone: the points of every forecaster by name.
    """

    name: str
    actual: Floats
    walk: Walk
    naive: Floats
    alone: dict[str, Floats]

    @property
    def known(self) -> Floats:
        """The values that are known."""
        return self.actual[np.isfinite(self.actual)]


def backtest(
    panel: Sequence[Series],
    leads: Sequence[int],
    where: Slice,
    chosen: Sequence[str] | None = None,
    note: Note = lambda _text: None,
) -> dict[int, list[Result]]:
    """Return the results of every series of a panel on one grid, in its order, for each lead."""
    models = {name: get_forecaster(name)() for name in chosen or candidates(panel)}
    length = min(len(series) for series in panel)
    starts = sorted({where.warm, where.test, *where.refits})
    stops = [*starts[1:], length]
    pieces: dict[tuple[int, int], list[dict[str, Outlook]]] = {}
    for start, stop in zip(starts, stops, strict=True):
        note(f"fitting on {start:,} of {length:,} steps")
        origins = np.arange(start, stop)
        skipped = () if start in (where.warm, where.test) else NETS
        due = {name: model for name, model in models.items() if name not in skipped}
        fit_all(due, [series.head(start) for series in panel], leads)
        for lead in leads:
            for index, series in enumerate(panel):
                outlooks = {
                    name: model.outlook(series, origins, lead) for name, model in models.items()
                }
                pieces.setdefault((lead, index), []).append(outlooks)
    results: dict[int, list[Result]] = {}
    for lead in leads:
        note(f"walking at lead {lead}")
        of_lead = [pieces.pop((lead, index)) for index in range(len(panel))]
        results[lead] = _results(panel, of_lead, where, lead)
    return results


def fit_all(
    models: dict[str, LoadForecaster], panel: Sequence[Series], leads: Sequence[int]
) -> None:
    """Fit each forecaster on the same history."""
    for model in models.values():
        model.fit(panel, leads)


def _results(
    panel: Sequence[Series], pieces: list[list[dict[str, Outlook]]], where: Slice, lead: int
) -> list[Result]:
    outlooks = [
        with_mixes({name: _joined([piece[name] for piece in of_series]) for name in of_series[0]})
        for of_series in pieces
    ]
    origins = np.arange(where.warm, where.warm + len(outlooks[0][NAIVE[0]].mean))
    banded = [name for name in BANDED if name in outlooks[0]]
    walks = walk_panel(panel, outlooks, origins, lead, banded)
    return [
        _result(series, of_series, walked, origins, where, lead)
        for series, of_series, walked in zip(panel, outlooks, walks, strict=True)
    ]


def _result(
    series: Series,
    outlooks: dict[str, Outlook],
    walked: Walk,
    origins: Ints,
    where: Slice,
    lead: int,
) -> Result:
    counted = (origins >= where.test) & (origins + lead < len(series))
    alone = {name: outlook.median[counted] for name, outlook in outlooks.items()}
    return Result(
        series.name,
        series.values[origins[counted] + lead],
        _cut(walked, counted),
        np.column_stack([alone[name] for name in NAIVE]),
        alone,
    )


def _joined(pieces: list[Outlook]) -> Outlook:
    return Outlook(
        np.concatenate([piece.mean for piece in pieces]),
        np.concatenate([piece.quantiles for piece in pieces]),
    )


def _cut(walked: Walk, counted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Walk:
    return Walk(
        walked.names,
        walked.banded,
        walked.median[counted],
        walked.mean[counted],
        walked.quantiles[counted],
        walked.bands[counted],
        walked.used[counted],
        walked.band_of[counted],
    )


# Measures ----------------------------------------------------------------------


def mae(actual: Floats, forecast: Floats) -> float:
    """Return the mean absolute error where the actual value is known."""
    return float(np.nanmean(np.abs(actual - forecast)))


def ratio(above: float, below: float) -> float:
    """Return `above / below`; 1 if both are 0, as no forecast beats an error of 0."""
    if below > 0:
        return above / below
    return 1.0 if above <= 0 else float("inf")


def rmae(results: Sequence[Result], points: Floats | None = None) -> float:
    """Return the MAE over all series / that of the best naive forecast on the same slice.

    Args:
        points: points of another forecast than the chosen one.
    """
    actual = np.concatenate([result.actual for result in results])
    naive = np.concatenate([result.naive for result in results])
    best = min(mae(actual, naive[:, index]) for index in range(naive.shape[1]))
    if points is None:
        points = np.concatenate([result.walk.median for result in results])
    return ratio(mae(actual, points), best)


def best_naive(results: Sequence[Result]) -> tuple[str, float]:
    """Return the name and the MAE of the best naive forecast over all series."""
    actual = np.concatenate([result.actual for result in results])
    naive = np.concatenate([result.naive for result in results])
    errors = [mae(actual, naive[:, index]) for index in range(naive.shape[1])]
    index = int(np.argmin(errors))
    return NAIVE[index], errors[index]


def accuracy(results: Sequence[Result]) -> float:
    """Return 100 (1 - sum of absolute errors / sum of values), which others call accuracy."""
    actual = np.concatenate([result.actual for result in results])
    points = np.concatenate([result.walk.median for result in results])
    return 100.0 * (1.0 - float(np.nansum(np.abs(actual - points)) / np.nansum(np.abs(actual))))


def pinball(actual: Floats, quantiles: Floats) -> float:
    """Return the mean pinball loss over `LEVELS`."""
    levels = np.array(LEVELS)
    miss = actual[:, None] - quantiles
    return float(np.nanmean(np.maximum(levels * miss, (levels - 1) * miss)))


def coverage(actual: Floats, low: Floats, high: Floats) -> float:
    """Return the percentage of known values within the bounds."""
    is_known = np.isfinite(actual)
    inside = (actual >= low) & (actual <= high)
    return 100.0 * float(inside[is_known].mean()) if is_known.any() else float("nan")


def least_cover(results: Sequence[Result], cover: float = 90.0) -> float:
    """Return the lowest total coverage if each series has `cover`, or its own minimum if higher.

    A band contains its median. If more than `cover` of a series' values equal the median, that one
    value alone covers more, however narrow the band.
    """
    usable = [result for result in results if len(result.known)]
    least = [
        max(cover, coverage(result.actual, result.walk.median, result.walk.median))
        for result in usable
    ]
    return float(np.average(least, weights=origins_of(usable))) if usable else float("nan")


def interval(actual: Floats, low: Floats, high: Floats, miss: float = 0.1) -> float:
    """Return the mean interval score: width, plus 2 / miss times how far a value lies outside."""
    outside = np.maximum(low - actual, 0.0) + np.maximum(actual - high, 0.0)
    return float(np.nanmean(high - low + 2.0 / miss * outside))


def origins_of(results: Sequence[Result]) -> Ints:
    """Return the number of known values of each series."""
    return np.array([len(result.known) for result in results])
