"""The same time of the last two days and of last week, moved by half of what the level has.

Few days of history are enough for it: nothing is fitted. Three days at the same time average out
what happened once; the difference of the last day's mean from those of the days that are
averaged says how the level has drifted since, of which half is taken to stay.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Ints
from flyball.core.units import S_PER_HOUR
from flyball.predict.load.contract import Outlook, certain
from flyball.predict.load.features import Window
from flyball.predict.load.naive import Last
from flyball.predict.series import Series

DAYS = (1, 2, 7)
STAYS = 0.5
"""Part of the drift of the level that is carried on."""


class SameTime(Last):
    """Of a series that knows no day: the last value."""

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        day = series.day
        if not day:
            return super().outlook(series, origins, lead)
        means = Window(series.filled)
        around = series.steps(S_PER_HOUR)
        first = -(-lead // day) * day
        known = np.zeros(len(origins))
        points, moved = np.zeros(len(origins)), np.zeros(len(origins))
        now = means.mean(origins, day)
        for back in (first + (each - 1) * day for each in DAYS):
            at = origins + lead - back
            there = (at >= 0).astype(float)
            known += there
            points += there * means.mean(np.minimum(at + around // 2, origins), around)
            moved += there * (now - means.mean(origins - back, day))
        # Before a whole day is known, the last value stands in.
        some = np.maximum(known, 1.0)
        points = np.where(known > 0, (points + STAYS * moved) / some, series.filled[origins])
        if np.nanmin(series.values[: origins.min(initial=0) + 1], initial=0.0) >= 0:
            points = np.maximum(points, 0.0)
        return certain(points)
