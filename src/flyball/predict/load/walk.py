"""Walks along origins as the live loop does: learn the new value, then choose and forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.contract import LEVELS, MEDIAN, Outlook
from flyball.predict.select import AVERAGE, COVERS, ForecastOffer, Tracker, new_tracker, share
from flyball.predict.series import Series, whole_numbers


@dataclass(frozen=True)
class Walk:
    """Holds the forecasts at each origin, in order.

    Attributes:
        names: the forecasters, and `AVERAGE`.
        used, band_of: which of `names` gave the point; which of `banded` gave the band.
        banded: names of the forecasters that offer bands.
        bands: the 90 % band of each of `banded`: origin, forecaster, (low, high).
    """

    names: tuple[str, ...]
    banded: tuple[str, ...]
    median: Floats
    mean: Floats
    quantiles: Floats
    bands: Floats
    used: Ints
    band_of: Ints


def walk(
    series: Series,
    outlooks: Mapping[str, Outlook],
    origins: Ints,
    lead: int,
    banded: Sequence[str],
    tracker: Tracker | None = None,
) -> Walk:
    """Walk along consecutive origins as the live loop does: learn the new value, then forecast."""
    if tracker is None:
        tracker = new_tracker(series, int(origins[0]), tuple(outlooks), len(banded), lead)
    walker = Walker(series, outlooks, origins, lead, banded, tracker)
    for index in range(len(origins)):
        walker.learn(index)
        walker.forecast(index)
    return walker.walked


def walk_panel(
    panel: Sequence[Series],
    outlooks: Sequence[Mapping[str, Outlook]],
    origins: Ints,
    lead: int,
    banded: Sequence[str],
) -> list[Walk]:
    """Walk along several series together; each also learns from the losses on the others."""
    names = tuple(outlooks[0])
    trackers = [new_tracker(series, int(origins[0]), names, len(banded), lead) for series in panel]
    shared = share(trackers) if len(panel) > 1 else None
    walkers = [
        Walker(series, of_series, origins, lead, banded, tracker)
        for series, of_series, tracker in zip(panel, outlooks, trackers, strict=True)
    ]
    for index in range(len(origins)):
        for walker in walkers:
            walker.learn(index)
        if shared is not None:
            shared.close()
        for walker in walkers:
            walker.forecast(index)
    return [walker.walked for walker in walkers]


class Walker:
    """Walks along the origins of one series at one lead."""

    def __init__(
        self,
        series: Series,
        outlooks: Mapping[str, Outlook],
        origins: Ints,
        lead: int,
        banded: Sequence[str],
        tracker: Tracker,
    ) -> None:
        names, count = tuple(outlooks), len(origins)
        self.tracker, self._lead = tracker, lead
        self._news = series.values[origins].tolist()
        self._medians = np.column_stack([outlooks[name].median for name in names])
        if whole_numbers(series.values[: int(origins[0]) + 1]):
            self._medians = np.rint(self._medians)  # the median of whole numbers is a whole number
        self._means = np.column_stack([outlooks[name].mean for name in names])
        self._bounds = [_pairs(outlooks[name]) for name in banded]
        self.walked = Walk(
            (*names, AVERAGE),
            tuple(banded),
            np.empty(count),
            np.empty(count),
            np.empty((count, len(LEVELS))),
            np.empty((count, len(banded), 2)),
            np.empty(count, np.int64),
            np.empty(count, np.int64),
        )

    def learn(self, index: int) -> None:
        """Learn the value that became known at this origin."""
        if self.tracker.waiting >= self._lead:
            self.tracker.learn(self._news[index])

    def forecast(self, index: int) -> None:
        """Choose among the forecasts of this origin and record the choice."""
        offer = ForecastOffer(
            self._medians[index], self._means[index], [pairs[index] for pairs in self._bounds]
        )
        choice, walked = self.tracker.propose(offer), self.walked
        walked.median[index], walked.mean[index] = choice.median, choice.mean
        walked.quantiles[index], walked.bands[index] = choice.quantiles, choice.bands
        walked.used[index], walked.band_of[index] = choice.used, choice.band_of


def _pairs(outlook: Outlook) -> list[list[tuple[float, float]]]:
    """Return low and high for each of `COVERS`, at each origin."""
    table = outlook.quantiles.tolist()
    last = 2 * MEDIAN
    return [[(row[side], row[last - side]) for side in range(len(COVERS))] for row in table]
