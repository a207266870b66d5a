"""Features of the trees: lags, differences, rolling means and deviations, seasons, calendar.

Everything is taken at or before the origin; only the calendar, which is known, is that of the
target. Values are divided by the series' scale, so that one model serves a panel. A series with
steps of milliseconds has other columns.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_DAY, S_PER_HOUR
from flyball.predict.series import Series

LAGS = (0, 1, 2, 3, 5)
FAST_S = 10.0
"""Step below which the features have no hours, days and calendar, but each of the last `FAST_LAGS`
values, since such series repeat every few steps."""
FAST_LAGS = 24
FAST_WINDOWS = (3, 10, 30, 100, 300)
WINDOWS_H = (0.5, 1.0, 3.0, 6.0, 12.0, 24.0, 72.0, 168.0)
SPREAD_H = (1.0, 6.0, 24.0)
DAYS_BACK = 4
MOST_STILL = 2_000.0


class Window:
    """Computes means over the last steps of a series at any origin, in constant time."""

    def __init__(self, values: Floats) -> None:
        self._sums = np.concatenate([[0.0], np.cumsum(values)])

    def mean(self, ends: Ints, width: int) -> Floats:
        """Return the mean of the last `width` values at each end (fewer at the start)."""
        stops = np.maximum(ends, 0) + 1
        begins = np.maximum(stops - width, 0)
        means: Floats = (self._sums[stops] - self._sums[begins]) / (stops - begins)
        return means


class Prepared:
    """Holds what the features of a series have in common, whatever the lead.

    Args:
        series: with steps of at least `FAST_S`.
        scale: of its values.
    """

    def __init__(self, series: Series, scale: float) -> None:
        self.series, self.scale = series, scale
        self.values = series.filled / scale
        self.mean, self._square = Window(self.values), Window(self.values**2)
        self._zeros = Window((self.values == 0).astype(float))
        self._still = _still(self.values)
        self._at: dict[bytes, tuple[list[Floats], list[Floats], list[Floats]]] = {}

    def columns(self, origins: Ints) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """Return lagged values and differences, levels, and the other columns, at the origins."""
        key = origins.tobytes()
        if key not in self._at:
            self._at = {key: self._columns(origins)}
        return self._at[key]

    def _columns(self, origins: Ints) -> tuple[list[Floats], list[Floats], list[Floats]]:
        series, values, mean = self.series, self.values, self.mean
        hour = series.steps(S_PER_HOUR)
        lags = [_lagged(values, origins, lag) for lag in LAGS]
        lags += [lags[0] - _lagged(values, origins, lag) for lag in (1, hour, 3 * hour, 6 * hour)]
        levels = [*_means(mean, origins, series), mean.mean(origins, len(values))]
        spreads = _spreads(mean, self._square, origins, series)
        rest = [self._still[origins], self._zeros.mean(origins, 6 * hour)]
        for other in series.also.values():
            scaled = np.nan_to_num(other) / self.scale
            rest += [scaled[origins], Window(scaled).mean(origins, hour)]
            rest.append(Window(scaled).mean(origins, 6 * hour))
        return lags, levels, [*spreads, *_trends(mean, origins, series), *rest]


def features(
    series: Series,
    origins: Ints,
    lead: int,
    scale: float,
    anchored: bool = False,
    prepared: Prepared | None = None,
) -> Floats:
    """Return a row per origin.

    Args:
        series, origins, lead: what is forecast.
        scale: of the values.
        anchored: levels as differences from the value at the origin.
        prepared: of this series and scale; None = to be prepared.
    """
    if series.step_s < FAST_S:
        return _fast(series.filled / scale, origins, anchored)
    prepared = prepared or Prepared(series, scale)
    lags, levels, rest = prepared.columns(origins)
    now = lags[0]
    base = now if anchored else 0.0
    columns = [lagged - base for lagged in lags[anchored : len(LAGS)]] + lags[len(LAGS) :]
    seasons = _seasons(prepared.values, prepared.mean, origins, lead, series)
    columns += [level - now if anchored else level for level in (*levels, *seasons)]
    spreads = len(SPREAD_H) + (2 * 2 if series.day else 0)
    columns += rest[:spreads]
    columns += _calendar(series, origins + lead)
    columns += rest[spreads:]
    return np.column_stack(columns).astype(np.float32).astype(np.float64)


def _fast(values: Floats, origins: Ints, anchored: bool) -> Floats:
    mean, square = Window(values), Window(values**2)
    base = values[origins] if anchored else np.zeros(len(origins))
    columns = [_lagged(values, origins, lag) - base for lag in range(int(anchored), FAST_LAGS)]
    for width in FAST_WINDOWS:
        middle = mean.mean(origins, width)
        columns.append(middle - base)
        columns.append(np.sqrt(np.maximum(square.mean(origins, width) - middle**2, 0.0)))
    columns += [values[origins], _still(values)[origins]]
    return np.column_stack(columns).astype(np.float32).astype(np.float64)


def _lagged(values: Floats, origins: Ints, lag: int) -> Floats:
    lagged: Floats = values[np.maximum(origins - lag, 0)]
    return lagged


def _means(mean: Window, origins: Ints, series: Series) -> list[Floats]:
    widths = sorted({series.steps(hours * S_PER_HOUR) for hours in WINDOWS_H})
    # A series with short steps has short windows as well.
    widths += [width for width in (3, 10, 30) if width < widths[0]]
    return [mean.mean(origins, width) for width in widths]


def _spreads(mean: Window, square: Window, origins: Ints, series: Series) -> list[Floats]:
    columns = []
    for hours in SPREAD_H:
        width = max(3, series.steps(hours * S_PER_HOUR))
        middle = mean.mean(origins, width)
        columns.append(np.sqrt(np.maximum(square.mean(origins, width) - middle**2, 0.0)))
    return columns


def _seasons(
    values: Floats, mean: Window, origins: Ints, lead: int, series: Series
) -> list[Floats]:
    """Return values at the target's time of day on the days before."""
    if not series.day:
        return []
    day, hour = series.day, series.steps(S_PER_HOUR)
    first = -(-lead // day) * day
    columns, together = [], np.zeros(len(origins))
    for back in range(7):
        at = origins + lead - first - back * day
        around = mean.mean(np.minimum(at + hour // 2, origins), hour)
        together += around / 7
        if back < DAYS_BACK or back == 6:
            columns.append(around)
        if back == 0:
            columns.append(_lagged(values, at, 0))
    week = origins + lead - -(-lead // (7 * day)) * 7 * day
    columns += [together, mean.mean(np.minimum(week + hour // 2, origins), hour)]
    return columns


def _trends(mean: Window, origins: Ints, series: Series) -> list[Floats]:
    """Return how recent means differ from those a day and a week ago."""
    if not series.day:
        return []
    columns = []
    for width in (series.steps(S_PER_HOUR), series.steps(6 * S_PER_HOUR)):
        recent = mean.mean(origins, width)
        columns += [recent - mean.mean(origins - days * series.day, width) for days in (1, 7)]
    return columns


def _calendar(series: Series, targets: Ints) -> list[Floats]:
    second, weekday = series.clock(targets)
    turn = 2 * np.pi * second / S_PER_DAY
    weekend = np.isin(weekday, (2, 3)).astype(float)  # day 0 of 1970 was a Thursday
    return [second / S_PER_HOUR, np.sin(turn), np.cos(turn), weekday.astype(float), weekend]


def _still(values: Floats) -> Floats:
    """Return the steps since the value last changed."""
    moved = np.concatenate([[True], np.diff(values) != 0])
    since = np.arange(len(values)) - np.maximum.accumulate(
        np.where(moved, np.arange(len(values)), 0)
    )
    return np.minimum(since, MOST_STILL).astype(float)
