"""Going along origins as the live loop would: learn what became known, then choose and say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.contract import LEVELS, MEDIAN, Outlook
from flyball.predict.select import AVERAGE, COVERS, Offer, Tracker, new_tracker, share
from flyball.predict.series import Series, whole_numbers


@dataclass(frozen=True)
class Walk:
    """What was said at each origin, in order.

    Attributes:
        names: the forecasters, and `AVERAGE`.
        used, band_of: which of `names` gave the point; which of `banded` gave the band.
        banded: names of those that offered bands.
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
    """Go along consecutive origins as the live loop would: learn what became known, then say."""
    if tracker is None:
        tracker = new_tracker(series, int(origins[0]), tuple(outlooks), len(banded), lead)
    walker = Walker(series, outlooks, origins, lead, banded, tracker)
    for index in range(len(origins)):
        walker.learn(index)
        walker.say(index)
    return walker.walked


def walk_panel(
    panel: Sequence[Series],
    outlooks: Sequence[Mapping[str, Outlook]],
    origins: Ints,
    lead: int,
    banded: Sequence[str],
) -> list[Walk]:
    """The same for series side by side, each also judged by what was learnt on the others."""
    names = tuple(outlooks[0])
    trackers = [new_tracker(series, int(origins[0]), names, len(banded), lead) for series in panel]
    shared = share(trackers) if len(panel) > 1 else None
    walkers = [
        Walker(series, said, origins, lead, banded, tracker)
        for series, said, tracker in zip(panel, outlooks, trackers, strict=True)
    ]
    for index in range(len(origins)):
        for each in walkers:
            each.learn(index)
        if shared is not None:
            shared.close()
        for each in walkers:
            each.say(index)
    return [each.walked for each in walkers]


class Walker:
    """One series at one lead on its way along the origins."""

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
            self._medians = np.rint(self._medians)  # the median of whole numbers is one
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
        """What became known at this origin."""
        if self.tracker.waiting >= self._lead:
            self.tracker.learn(self._news[index])

    def say(self, index: int) -> None:
        offer = Offer(
            self._medians[index], self._means[index], [each[index] for each in self._bounds]
        )
        choice, walked = self.tracker.propose(offer), self.walked
        walked.median[index], walked.mean[index] = choice.median, choice.mean
        walked.quantiles[index], walked.bands[index] = choice.quantiles, choice.bands
        walked.used[index], walked.band_of[index] = choice.used, choice.band_of


def _pairs(outlook: Outlook) -> list[list[tuple[float, float]]]:
    """Low and high for each of `COVERS`, at each origin."""
    table = outlook.quantiles.tolist()
    last = 2 * MEDIAN
    return [[(row[side], row[last - side]) for side in range(len(COVERS))] for row in table]
