"""The same time of the last two days and of last week, plus half of the drift of the level.

A few days of history are enough, as nothing is fitted. Three days at the same time average out
single events; the difference of the last day's mean from those of the averaged days gives the
drift of the level since, of which half is kept.
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
"""Part of the drift of the level that is kept."""


class SameTime(Last):
    """Forecasts from the same time of other days; without a daily grid, the last value."""

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        day = series.day
        if not day:
            return super().outlook(series, origins, lead)
        means = Window(series.filled)
        around = series.steps(S_PER_HOUR)
        first = -(-lead // day) * day
        count = np.zeros(len(origins))
        points, moved = np.zeros(len(origins)), np.zeros(len(origins))
        now = means.mean(origins, day)
        for back in (first + (days - 1) * day for days in DAYS):
            index = origins + lead - back
            present = (index >= 0).astype(float)
            count += present
            points += present * means.mean(np.minimum(index + around // 2, origins), around)
            moved += present * (now - means.mean(origins - back, day))
        # Until a whole day is known, use the last value.
        divisor = np.maximum(count, 1.0)
        points = np.where(count > 0, (points + STAYS * moved) / divisor, series.filled[origins])
        if np.nanmin(series.values[: origins.min(initial=0) + 1], initial=0.0) >= 0:
            points = np.maximum(points, 0.0)
        return certain(points)
