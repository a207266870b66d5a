"""Live forecasts of one series: fitted on its history, corrected by every new value.

`fit` runs the later part of the history through the same walk as a back-test, so the choice of
the forecaster and the bands are warm before the first forecast. Some leads of the horizon (a
ladder) are tracked; the steps between use the model, the choice and the width of the nearest.
`LiveForecast` implements the protocol `Forecaster` of `core/protocols.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.protocols import Forecast
from flyball.core.results import Floats, Ints
from flyball.core.units import duration_text
from flyball.predict.backtest import BANDED, coverage, fit_all, mae, ratio
from flyball.predict.load.combine import with_mixes
from flyball.predict.load.contract import LEVELS, MEDIAN, LoadForecaster, Outlook, neighbours
from flyball.predict.load.registry import NAIVE, candidates, get_forecaster
from flyball.predict.load.walk import Walk, walk
from flyball.predict.select import Tracker, new_tracker
from flyball.predict.series import Series

LEAST_HISTORY = 60
"""Least number of values to fit on; below it the forecast is the last value with a wide band."""
BUDGET_S = 30.0
RUNGS = 6
WARM = 0.6
"""Part of the history used by the first fit; the rest warms up the choice and the bands."""
MOST_STEPS = 288
MOST_KEPT = 30_000
"""Maximum number of values kept; older ones are dropped."""


class Skill(NamedTuple):
    """Holds the errors of one lead on the last part of the history."""

    lead_s: float
    model: str
    rmae: float
    coverage: float
    naive: str
    n: int


@dataclass
class _Rung:
    """Holds one tracked lead.

    Attributes:
        first: index of the first origin; the others follow one by one.
        pieces: the forecasts from these origins; each new value adds a piece.
    """

    lead: int
    tracker: Tracker
    first: int
    pieces: list[Walk]

    @property
    def latest(self) -> Walk:
        """The forecasts from the last origins."""
        return self.pieces[-1]

    @property
    def walked(self) -> Walk:
        """The forecasts from all origins."""
        if len(self.pieces) > 1:
            self.pieces = [_joined(self.pieces)]
        return self.pieces[0]

    @property
    def origins(self) -> Ints:
        """All origins."""
        return np.arange(self.first, self.first + len(self.walked.median))


class LiveForecast:
    """Forecasts one series.

    Args:
        series: what is known of it so far, or an empty one with its grid.
        horizon_s: longest lead that will be requested.
        chosen: names of forecasters to choose from; None = those that the budget allows.
        budget_s: CPU seconds for fitting.
        rehearsed: largest number of past values on which the choice and the bands are warmed up;
            None = all that the first fit leaves.
        rungs: number of leads that are tracked.
    """

    def __init__(
        self,
        series: Series,
        horizon_s: float,
        chosen: Sequence[str] | None = None,
        budget_s: float = BUDGET_S,
        rehearsed: int | None = None,
        rungs: int = RUNGS,
    ) -> None:
        if not (math.isfinite(horizon_s) and horizon_s > 0):
            raise BadInput(f"a horizon of {horizon_s} s", "use a time above 0")
        self.series = series
        self.horizon = max(1, math.ceil(horizon_s / series.step_s - 1e-9))
        self.notes: list[str] = []
        self._chosen, self._budget_s = chosen, budget_s
        self._rehearsed, self._rung_count = rehearsed, rungs
        self._models: dict[str, LoadForecaster] = {}
        self._rungs: list[_Rung] = []

    def fit(self, history: Floats) -> None:
        """Learn from `history`, the values on the series' grid from its start on."""
        self.series = replace(self.series, values=np.asarray(history, float))
        others = (*self.series.also.values(), *self.series.parts.values())
        if any(len(values) != len(history) for values in others):
            self.series = replace(self.series, also={}, parts={})
        self.notes = self._limits()
        self._models, self._rungs = {}, []
        if self._too_short:
            return
        leads = ladder(min(self.horizon, len(self.series) // 4), self._rung_count)
        chosen = self._chosen or candidates([self.series], len(leads), self._budget_s, fits=2)
        models = {name: get_forecaster(name)() for name in chosen}
        warm, latest = int(WARM * len(self.series)), len(self.series) - 1
        if self._rehearsed is not None:
            warm = max(warm, latest - self._rehearsed)
        fit_all(models, [self.series.head(warm)], leads)
        rehearsed = {lead: self._outlooks(models, np.arange(warm, latest), lead) for lead in leads}
        fit_all(models, [self.series], leads)
        self._models = models
        self._rungs = [self._rung(lead, warm, rehearsed[lead]) for lead in leads]

    def _outlooks(
        self, models: dict[str, LoadForecaster], origins: Ints, lead: int
    ) -> dict[str, Outlook]:
        return with_mixes(
            {name: model.outlook(self.series, origins, lead) for name, model in models.items()}
        )

    def _rung(self, lead: int, warm: int, outlooks: dict[str, Outlook]) -> _Rung:
        origins = np.arange(warm, len(self.series) - 1)
        banded = [name for name in BANDED if name in outlooks]
        tracker = new_tracker(self.series, warm, tuple(outlooks), len(banded), lead)
        walked = walk(self.series, outlooks, origins, lead, banded, tracker)
        rung = _Rung(lead, tracker, warm, [walked])
        self._step(rung)
        return rung

    def _step(self, rung: _Rung) -> None:
        """Learn from the newest value and forecast from it."""
        latest = np.array([len(self.series) - 1])
        outlooks = self._outlooks(self._models, latest, rung.lead)
        banded = [name for name in BANDED if name in outlooks]
        rung.pieces.append(walk(self.series, outlooks, latest, rung.lead, banded, rung.tracker))

    def observe(self, t: float, value: float) -> None:
        """Add the value at time `t` (by the series' clock); skipped steps are missing values.

        Raises:
            BadInput: it is older than the latest value.
        """
        series = self.series
        index = round((t - series.start_s) / series.step_s)
        missed = index - len(series)
        if missed < 0:
            raise BadInput(
                f"{series.name}: a value at {t:g} s, where the latest is newer", "give it in order"
            )
        if missed > MOST_KEPT:
            raise BadInput(f"{series.name}: a gap of {missed:,} steps", "start again with fit")
        for newest in (*[math.nan] * missed, value if math.isfinite(value) else math.nan):
            self._append(newest)

    def _append(self, value: float) -> None:
        series = self.series
        skip = max(0, len(series) + 1 - MOST_KEPT)
        self.series = replace(
            series,
            values=np.append(series.values[skip:], value),
            start_s=series.start_s + skip * series.step_s,
            also={},
            parts={},
        )
        for rung in self._rungs:
            rung.first -= skip
            self._step(rung)

    def predict(self, horizon_s: float) -> Forecast:
        """Return the forecast of every step up to the horizon (at most the one given at the start).

        Raises:
            BadInput: no value is known.
        """
        if not np.isfinite(self.series.values).any():
            raise BadInput(f"{self.series.name}: no value is known", "observe one first")
        requested = math.ceil(horizon_s / self.series.step_s - 1e-9)
        steps = np.arange(1, max(1, min(self.horizon, requested)) + 1)
        if not self._rungs:
            return self._wide(steps)
        shown = np.unique(np.rint(np.linspace(1, steps[-1], MOST_STEPS)).astype(int))
        medians, means = np.array([self._point(int(step)) for step in shown]).T
        forecast = self._bounded(medians + self._offsets(shown), means)
        full = np.array([np.interp(steps, shown, of_level) for of_level in forecast.quantiles])
        return forecast._replace(quantiles=full, mean=np.interp(steps, shown, forecast.mean))

    def predict_rungs(self) -> Forecast:
        """Return the forecast of every step up to the horizon, interpolated between the rungs.

        It costs next to nothing, since the rungs are forecast with every value. What the time of
        day does between two rungs is lost, so it is for horizons of about an hour.

        Raises:
            BadInput: no value is known.
        """
        if not np.isfinite(self.series.values).any():
            raise BadInput(f"{self.series.name}: no value is known", "observe one first")
        steps = np.arange(1, self.horizon + 1)
        if not self._rungs:
            return self._wide(steps)
        leads = [rung.lead for rung in self._rungs]
        medians = np.interp(steps, leads, [rung.latest.median[-1] for rung in self._rungs])
        means = np.interp(steps, leads, [rung.latest.mean[-1] for rung in self._rungs])
        return self._bounded(medians + self._offsets(steps), means)

    def _offsets(self, steps: Ints) -> Floats:
        """Return how far each quantile is from the median, by level and step."""
        leads = np.array([rung.lead for rung in self._rungs])
        spread = np.array([rung.latest.quantiles[-1] for rung in self._rungs])
        spread = spread - spread[:, [MEDIAN]]
        # Beyond the last rung the band widens as that of a random walk does.
        grow = np.sqrt(np.maximum(steps / leads[-1], 1.0))
        offsets: Floats = np.array([np.interp(steps, leads, level) for level in spread.T]) * grow
        return offsets

    def _bounded(self, quantiles: Floats, mean: Floats) -> Forecast:
        """Return the forecast; of a series that was never negative it is not either."""
        if np.nanmin(self.series.values) >= 0:
            quantiles, mean = np.maximum(quantiles, 0.0), np.maximum(mean, 0.0)
        return Forecast(LEVELS, quantiles, mean, self.series.step_s)

    def _point(self, step: int) -> tuple[float, float]:
        """Return median and mean at one step by the best forecasters at the rungs around it."""
        rungs = {rung.lead: rung for rung in self._rungs}
        if step in rungs:
            latest = rungs[step].latest
            return float(latest.median[-1]), float(latest.mean[-1])
        outlooks = self._outlooks(self._models, np.array([len(self.series) - 1]), step)
        median = mean = 0.0
        for lead, weight in neighbours(rungs, step):
            shares = self._shares(rungs[lead], list(outlooks))
            median += weight * float(shares @ [outlook.median[0] for outlook in outlooks.values()])
            mean += weight * float(shares @ [outlook.mean[0] for outlook in outlooks.values()])
        return median, mean

    def _shares(self, rung: _Rung, names: list[str]) -> Floats:
        """Return the weight of each forecaster in what is used at a rung."""
        name = rung.latest.names[rung.latest.used[-1]]
        if name not in names:
            return rung.tracker.weights()
        alone = np.zeros(len(names))
        alone[names.index(name)] = 1.0
        return alone

    def skill(self) -> list[Skill]:
        """Return for each tracked lead the forecaster in use and its errors since the warm-up."""
        rows = []
        for rung in self._rungs:
            counted = rung.origins + rung.lead < len(self.series)
            counted[: len(counted) // 4] = False
            origins, targets = rung.origins[counted], rung.origins[counted] + rung.lead
            if not len(origins) or not np.isfinite(self.series.values[targets]).any():
                continue
            actual, medians = self.series.values[targets], rung.walked.median[counted]
            naive = {
                name: mae(
                    actual, self._models[name].outlook(self.series, origins, rung.lead).median
                )
                for name in NAIVE
                if name in self._models
            }
            best = min(naive, key=lambda name: naive[name]) if naive else ""
            bands = rung.walked.quantiles[counted]
            rows.append(
                Skill(
                    rung.lead * self.series.step_s,
                    rung.walked.names[rung.walked.used[-1]],
                    ratio(mae(actual, medians), naive[best]) if best else math.nan,
                    coverage(actual, bands[:, 0], bands[:, -1]),
                    best,
                    int(np.isfinite(actual).sum()),
                )
            )
        return rows

    def followed(self) -> list[int]:
        """Return the leads of the ladder, in steps."""
        return [rung.lead for rung in self._rungs]

    def past(self) -> tuple[Ints, Floats]:
        """Return the indices that the longest tracked lead forecast, and their quantiles."""
        if not self._rungs:
            return np.zeros(0, np.int64), np.zeros((0, len(LEVELS)))
        rung = self._rungs[-1]
        return rung.origins + rung.lead, rung.walked.quantiles

    @property
    def _too_short(self) -> bool:
        return int(np.isfinite(self.series.values).sum()) < LEAST_HISTORY

    def _limits(self) -> list[str]:
        count = int(np.isfinite(self.series.values).sum())
        if not count:
            raise BadInput(f"{self.series.name}: no numbers", "name another column")
        if self._too_short:
            return [f"only {count} values: the last one is forecast, with a wide band"]
        longest = len(self.series) // 4
        if self.horizon > longest:
            seen = duration_text(longest * self.series.step_s)
            return [f"the history supports {seen} ahead; beyond it the band is widened"]
        return []

    def _wide(self, steps: Ints) -> Forecast:
        """Return the last value with a wide band: too little is known for anything else."""
        present = self.series.values[np.isfinite(self.series.values)]
        spread = max(float(np.ptp(present)), abs(float(present[-1])), 1e-9)
        reach = spread * np.sqrt(steps)
        shape = (np.array(LEVELS) - 0.5) / 0.45
        quantiles = present[-1] + shape[:, None] * reach
        if present.min() >= 0:
            quantiles = np.maximum(quantiles, 0.0)
        mean = np.full(len(steps), float(present[-1]))
        return Forecast(LEVELS, quantiles, mean, self.series.step_s)


def ladder(horizon: int, count: int = RUNGS) -> list[int]:
    """Return the leads to track: 1, the horizon, and even ratios between."""
    rungs = np.geomspace(1, max(1, horizon), count)
    return sorted({int(lead) for lead in np.rint(rungs)})


def _joined(pieces: Sequence[Walk]) -> Walk:
    return Walk(
        pieces[0].names,
        pieces[0].banded,
        *(
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("median", "mean", "quantiles", "bands", "used", "band_of")
        ),
    )
