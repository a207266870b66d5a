"""Exponential smoothing: a daily profile, a level and a damped trend, all decaying slowly.

With y the value, P the profile of the time of day and m the steps of a day:

    P[t] = P[t-m] + g (y[t] - P[t-m])            the profile learns from its error
    d[t] = y[t] - P[t-m]                         what the profile did not explain
    l[t] = (l[t-1] + f b[t-1]) + a (d[t] - ...)  level, b its trend, damped by f at each step
    forecast(t+h) = P at the same time of the last known day + r^h l[t] + (f + ... + f^h) b[t]

The settings (g, a, trend, r) are those of a small grid that did best on the panel, per lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_HOUR
from flyball.predict.load.contract import Outlook, certain
from flyball.predict.series import Series

DAMPING = 0.9
MOST_FIT = 6_000
"""Maximum number of points at the end of each series that settings are chosen on."""
MOST_SERIES = 24
"""Maximum number of series, evenly picked, that settings are chosen on."""


@dataclass(frozen=True)
class SmoothingSettings:
    """Holds the rates of the recursions.

    Attributes:
        profile: g, how fast the daily profile learns; 0 = no profile.
        level: a, how fast the level follows.
        trend: how fast the trend follows; 0 = no trend.
        keep: r, part of the level left after an hour of lead (1 = all of it).
    """

    profile: float
    level: float
    trend: float
    keep: float


GRID = (
    *(
        SmoothingSettings(0.0, level, trend, 1.0)
        for level, trend in product((0.1, 0.4, 0.8), (0.0, 0.1))
    ),
    *(
        SmoothingSettings(0.3, level, 0.0, keep)
        for level, keep in product((0.05, 0.2, 0.6), (0.5, 0.9, 0.98, 1.0))
    ),
)


class SmoothingStates(NamedTuple):
    """Holds profile, level and trend after each value."""

    values: Floats
    profile: Floats
    level: Floats
    trend: Floats


class Smoothing:
    """Holds one set of settings per lead, shared by the panel.

    The states of the last series are kept: if the next one continues it, only the new values are
    computed, which gives the same to the last bit.
    """

    def __init__(self) -> None:
        self.settings: dict[int, SmoothingSettings] = {}
        self._kept: dict[tuple[SmoothingSettings, int], SmoothingStates] = {}

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Choose the settings of each lead by the mean absolute error within the panel."""
        picked = panel[:: -(-len(panel) // MOST_SERIES)] if panel else ()
        cuts = [_tail(series, MOST_FIT) for series in picked]
        losses = {lead: np.zeros(len(GRID)) for lead in leads}
        for series in cuts:
            size = float(np.nanmean(np.abs(series.values))) or 1.0
            for index, settings in enumerate(GRID):
                states = _states(series, settings)
                for lead in leads:
                    if len(series) > 2 * lead:
                        origins = np.arange(len(series) // 3, len(series) - lead)
                        ahead = _ahead(series, states, settings, origins, lead)
                        miss = np.nanmean(np.abs(series.values[origins + lead] - ahead))
                        losses[lead][index] += miss / size
        self.settings = {lead: GRID[int(np.argmin(losses[lead]))] for lead in leads}
        self._kept = {}

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        settings = self.settings.get(lead) or self._nearest(lead)
        return certain(_ahead(series, self._after(series, settings), settings, origins, lead))

    def _after(self, series: Series, settings: SmoothingSettings) -> SmoothingStates:
        """Return the states of a series, continued from those of the last one where it can be."""
        before, values = self._kept.get((settings, series.day)), series.filled
        seen = 0 if before is None else len(before.values)
        if before is None or not seen or not np.array_equal(before.values, values[:seen]):
            states = _states(series, settings)
        elif seen == len(values):
            return before
        else:
            states = _continued(before, values, settings, series.day)
        self._kept[settings, series.day] = states
        return states

    def _nearest(self, lead: int) -> SmoothingSettings:
        """Return the settings of the fitted lead that is nearest in ratio."""
        if not self.settings:
            return GRID[1]
        return self.settings[min(self.settings, key=lambda fitted: abs(np.log(fitted / lead)))]

    def save(self) -> Mapping[str, Any]:
        return {
            "settings": {str(lead): asdict(settings) for lead, settings in self.settings.items()}
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        forecaster = cls()
        forecaster.settings = {
            int(lead): SmoothingSettings(**values) for lead, values in saved["settings"].items()
        }
        return forecaster


def _tail(series: Series, count: int) -> Series:
    skip = max(0, len(series) - count)
    if series.day:
        skip -= skip % series.day
    return Series(
        series.name,
        series.start_s + skip * series.step_s,
        series.step_s,
        series.values[skip:],
        zone=series.zone,
    )


def _states(series: Series, settings: SmoothingSettings) -> SmoothingStates:
    values = series.filled
    profile = _profile(values, series.day, settings.profile)
    rest = values.copy()
    if settings.profile and series.day:
        rest[series.day :] -= profile[: -series.day]
        rest[: series.day] = 0.0  # the first day has no profile to subtract
    first = float(rest[0]) if len(rest) else 0.0
    level, trend = _holt(rest, settings.level, settings.trend, first, 0.0)
    return SmoothingStates(values, profile, level, trend)


def _continued(
    before: SmoothingStates, values: Floats, settings: SmoothingSettings, day: int
) -> SmoothingStates:
    """Return the states of a longer series, from those of its beginning."""
    seen = len(before.values)
    profile, rest = np.append(before.profile, values[seen:]), values[seen:].copy()
    if settings.profile and day:
        for index in range(seen, len(values)):
            if index < day:
                rest[index - seen] = 0.0
            else:
                rest[index - seen] = values[index] - profile[index - day]
                profile[index] = profile[index - day] + settings.profile * rest[index - seen]
    last = float(before.level[-1]), float(before.trend[-1])
    level, trend = _holt(rest, settings.level, settings.trend, *last)
    return SmoothingStates(
        values, profile, np.append(before.level, level), np.append(before.trend, trend)
    )


def _profile(values: Floats, day: int, rate: float) -> Floats:
    """Return P after each value, computed day by day, as each day needs the one before."""
    profile = values.copy()
    if not (rate and day):
        return profile
    for begin in range(day, len(values), day):
        block = slice(begin, min(begin + day, len(values)))
        before = profile[begin - day : block.stop - day]
        profile[block] = before + rate * (values[block] - before)
    return profile


def _holt(
    values: Floats, alpha: float, beta: float, level: float, trend: float
) -> tuple[Floats, Floats]:
    """Return level and trend after each value, from those before the first."""
    levels, trends = [], []
    for value in values.tolist():
        before = level
        expected = level + DAMPING * trend
        level = expected + alpha * (value - expected)
        if beta:
            trend = DAMPING * trend + beta * (level - before - DAMPING * trend)
        levels.append(level)
        trends.append(trend)
    return np.array(levels), np.array(trends)


def _ahead(
    series: Series,
    states: SmoothingStates,
    settings: SmoothingSettings,
    origins: Ints,
    lead: int,
) -> Floats:
    _values, profile, level, trend = states
    damped = DAMPING * (1 - DAMPING**lead) / (1 - DAMPING)
    if not (settings.profile and series.day):
        plain: Floats = level[origins] + damped * trend[origins]
        return plain
    back = -(-lead // series.day) * series.day
    same_time = origins + lead - back
    base = np.where(same_time >= 0, profile[np.maximum(same_time, 0)], series.filled[origins])
    keep = settings.keep ** (lead * series.step_s / S_PER_HOUR)
    result: Floats = base + keep * level[origins] + damped * trend[origins]
    return result
