"""The forecasts that cost nothing; every other one is measured against the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from flyball.core.results import Ints
from flyball.predict.load.contract import Outlook, certain
from flyball.predict.series import Series


class Last:
    """As it is now, so it will be."""

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Nothing to learn."""

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        return certain(series.filled[origins])

    def save(self) -> Mapping[str, Any]:
        return {}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        return cls()


class Yesterday(Last):
    """As at the same time of the last day that is known."""

    days = 1

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        season = series.day * self.days
        if not season:
            return super().outlook(series, origins, lead)
        back = -(-lead // season) * season
        # Before a whole season is known, the last value stands in.
        known = np.where(origins + lead >= back, origins + lead - back, origins)
        return certain(series.filled[known])


class LastWeek(Yesterday):
    """As at the same time of the same day of the week."""

    days = 7
