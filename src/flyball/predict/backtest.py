"""Rolling-origin back-tests: at every origin only what was known then, point at origin + lead.

The measures are defined here once and explained in `docs/concept/prediction.md`.
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
"""Who offers bands; the first is what the others are measured against."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Slice:
    """Where to begin.

    Attributes:
        warm: first origin: everything before it is for the first fit. Between `warm` and `test`
            the choice among forecasters and the bands learn; nothing there is counted.
        test: first origin that counts.
        refits: further origins after `warm` at which all but nets are fitted anew on what is
            known then; nets, which take longest, only at `warm` and `test`.
    """

    warm: int
    test: int
    refits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """One series at one lead, test origins only.

    Attributes:
        actual: NaN where it is not known.
        walk: what was said.
        naive: the point of each naive forecaster, a column each.
        alone: the point of every forecaster by name.
    """

    name: str
    actual: Floats
    walk: Walk
    naive: Floats
    alone: dict[str, Floats]

    @property
    def known(self) -> Floats:
        return self.actual[np.isfinite(self.actual)]


def backtest(
    panel: Sequence[Series],
    leads: Sequence[int],
    where: Slice,
    chosen: Sequence[str] | None = None,
    note: Note = lambda _text: None,
) -> dict[int, list[Result]]:
    """Every lead of every series of a panel on one grid, in the same order."""
    made = {name: get_forecaster(name)() for name in chosen or candidates(panel)}
    length = min(len(each) for each in panel)
    starts = sorted({where.warm, where.test, *where.refits})
    stops = [*starts[1:], length]
    pieces: dict[tuple[int, int], list[dict[str, Outlook]]] = {}
    for start, stop in zip(starts, stops, strict=True):
        note(f"fitting on {start:,} of {length:,} steps")
        origins = np.arange(start, stop)
        seldom = () if start in (where.warm, where.test) else NETS
        due = {name: each for name, each in made.items() if name not in seldom}
        fit_all(due, [each.head(start) for each in panel], leads)
        for lead in leads:
            for index, series in enumerate(panel):
                said = {name: each.outlook(series, origins, lead) for name, each in made.items()}
                pieces.setdefault((lead, index), []).append(said)
    results: dict[int, list[Result]] = {}
    for lead in leads:
        note(f"walking at lead {lead}")
        whole = [pieces.pop((lead, index)) for index in range(len(panel))]
        results[lead] = _results(panel, whole, where, lead)
    return results


def fit_all(made: dict[str, LoadForecaster], panel: Sequence[Series], leads: Sequence[int]) -> None:
    """Fit each forecaster on the same history."""
    for each in made.values():
        each.fit(panel, leads)


def _results(
    panel: Sequence[Series], pieces: list[list[dict[str, Outlook]]], where: Slice, lead: int
) -> list[Result]:
    outlooks = [
        with_mixes({name: _joined([each[name] for each in one]) for name in one[0]})
        for one in pieces
    ]
    origins = np.arange(where.warm, where.warm + len(outlooks[0][NAIVE[0]].mean))
    banded = [name for name in BANDED if name in outlooks[0]]
    walks = walk_panel(panel, outlooks, origins, lead, banded)
    return [
        _result(series, said, walked, origins, where, lead)
        for series, said, walked in zip(panel, outlooks, walks, strict=True)
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
    alone = {name: each.median[counted] for name, each in outlooks.items()}
    return Result(
        series.name,
        series.values[origins[counted] + lead],
        _cut(walked, counted),
        np.column_stack([alone[name] for name in NAIVE]),
        alone,
    )


def _joined(pieces: list[Outlook]) -> Outlook:
    return Outlook(
        np.concatenate([each.mean for each in pieces]),
        np.concatenate([each.quantiles for each in pieces]),
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


def mae(actual: Floats, said: Floats) -> float:
    """Mean absolute error where the truth is known."""
    return float(np.nanmean(np.abs(actual - said)))


def ratio(above: float, below: float) -> float:
    """1 where both are nothing: as good as what cannot be beaten."""
    if below > 0:
        return above / below
    return 1.0 if above <= 0 else float("inf")


def rmae(results: Sequence[Result], said: Floats | None = None) -> float:
    """MAE over all series together / that of the best naive forecast on the same slice.

    Args:
        said: points of another forecast than the one that was chosen.
    """
    actual = np.concatenate([each.actual for each in results])
    naive = np.concatenate([each.naive for each in results])
    best = min(mae(actual, naive[:, index]) for index in range(naive.shape[1]))
    if said is None:
        said = np.concatenate([each.walk.median for each in results])
    return ratio(mae(actual, said), best)


def best_naive(results: Sequence[Result]) -> tuple[str, float]:
    """Its name and MAE, over all series together."""
    actual = np.concatenate([each.actual for each in results])
    naive = np.concatenate([each.naive for each in results])
    errors = [mae(actual, naive[:, index]) for index in range(naive.shape[1])]
    index = int(np.argmin(errors))
    return NAIVE[index], errors[index]


def accuracy(results: Sequence[Result]) -> float:
    """100 (1 - sum of absolute errors / sum of values): the figure others call accuracy."""
    actual = np.concatenate([each.actual for each in results])
    said = np.concatenate([each.walk.median for each in results])
    return 100.0 * (1.0 - float(np.nansum(np.abs(actual - said)) / np.nansum(np.abs(actual))))


def pinball(actual: Floats, quantiles: Floats) -> float:
    """Mean pinball loss over `LEVELS`."""
    levels = np.array(LEVELS)
    miss = actual[:, None] - quantiles
    return float(np.nanmean(np.maximum(levels * miss, (levels - 1) * miss)))


def coverage(actual: Floats, low: Floats, high: Floats) -> float:
    """Percent of known values within the bounds."""
    known = np.isfinite(actual)
    inside = (actual >= low) & (actual <= high)
    return 100.0 * float(inside[known].mean()) if known.any() else float("nan")


def least_cover(results: Sequence[Result], cover: float = 90.0) -> float:
    """Percent covered in all if each series has `cover`, or more where it cannot have less.

    A band holds its median. Of a series whose values are the median more often than `cover`, that
    one value alone covers more, however narrow the band.
    """
    told = [one for one in results if len(one.known)]
    each = [max(cover, coverage(one.actual, one.walk.median, one.walk.median)) for one in told]
    return float(np.average(each, weights=origins_of(told))) if told else float("nan")


def interval(actual: Floats, low: Floats, high: Floats, miss: float = 0.1) -> float:
    """Mean interval score: width, and 2 / miss times how far a value lies outside."""
    outside = np.maximum(low - actual, 0.0) + np.maximum(actual - high, 0.0)
    return float(np.nanmean(high - low + 2.0 / miss * outside))


def origins_of(results: Sequence[Result]) -> Ints:
    """How many outcomes each series has."""
    return np.array([len(each.known) for each in results])
