"""Naive forecasts without fitting: the baselines of all other forecasters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from flyball.core.results import Ints
from flyball.predict.load.contract import Outlook, certain
from flyball.predict.series import Series


class Last:
    """Forecasts the last value."""

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Do nothing: there is nothing to learn."""

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        return certain(series.filled[origins])

    def save(self) -> Mapping[str, Any]:
        return {}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        return cls()


class Yesterday(Last):
    """Forecasts the value at the same time of the last known day."""

    days = 1

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        season = series.day * self.days
        if not season:
            return super().outlook(series, origins, lead)
        back = -(-lead // season) * season
        # Until a whole season is known, use the last value.
        index = np.where(origins + lead >= back, origins + lead - back, origins)
        return certain(series.filled[index])


class LastWeek(Yesterday):
    """Forecasts the value at the same time of the same day of the week."""

    days = 7
