"""One series, live: fitted on its history, corrected by every value that comes in.

`fit` plays the later part of the history through the same walk as a back-test, so the choice of
the forecaster and the bands are warm when the first forecast is asked for. Some leads of the
horizon (a ladder) are followed; the steps between use the model, the choice and the width of the
nearest. `Ahead` keeps the contract `Forecaster` of `core/protocols.py`.
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
from flyball.predict.backtest import BANDED, coverage, mae, ratio
from flyball.predict.load.combine import with_mixes
from flyball.predict.load.contract import LEVELS, MEDIAN, LoadForecaster, Outlook, neighbours
from flyball.predict.load.registry import NAIVE, candidates, get_forecaster
from flyball.predict.load.walk import Walk, walk
from flyball.predict.select import Tracker, new_tracker
from flyball.predict.series import Series

LEAST_HISTORY = 60
"""Values below which nothing is fitted: the last value, with a wide band."""
BUDGET_S = 30.0
RUNGS = 6
WARM = 0.6
"""Part of the history that the first fit sees; the rest warms the choice and the bands."""
MOST_STEPS = 288
MOST_KEPT = 30_000
"""Values that are kept while observing; older ones are forgotten."""


class Skill(NamedTuple):
    """How one lead has done on the last part of the history."""

    lead_s: float
    model: str
    rmae: float
    coverage: float
    naive: str
    n: int


@dataclass
class _Rung:
    """One lead that is followed."""

    lead: int
    tracker: Tracker
    walked: Walk
    origins: Ints


class Ahead:
    """The forecaster of one series.

    Args:
        series: what is known of it so far, or an empty one that says its grid.
        horizon_s: how far ahead will be asked.
        chosen: names of forecasters to choose from; None = those that the budget allows.
        budget_s: CPU seconds for fitting.
    """

    def __init__(
        self,
        series: Series,
        horizon_s: float,
        chosen: Sequence[str] | None = None,
        budget_s: float = BUDGET_S,
    ) -> None:
        if not (math.isfinite(horizon_s) and horizon_s > 0):
            raise BadInput(f"a horizon of {horizon_s} s", "use a time above 0")
        self.series = series
        self.horizon = max(1, math.ceil(horizon_s / series.step_s - 1e-9))
        self.notes: list[str] = []
        self._chosen, self._budget_s = chosen, budget_s
        self._made: dict[str, LoadForecaster] = {}
        self._rungs: list[_Rung] = []

    def fit(self, history: Floats) -> None:
        """Learn from `history`, the values on the series' grid from its start on."""
        self.series = replace(self.series, values=np.asarray(history, float))
        beside = (*self.series.also.values(), *self.series.parts.values())
        if any(len(each) != len(history) for each in beside):
            self.series = replace(self.series, also={}, parts={})
        self.notes = self._limits()
        self._made, self._rungs = {}, []
        if self._too_short:
            return
        leads = ladder(min(self.horizon, len(self.series) // 4))
        chosen = self._chosen or candidates([self.series], len(leads), self._budget_s, fits=2)
        made = {name: get_forecaster(name)() for name in chosen}
        warm, latest = int(WARM * len(self.series)), len(self.series) - 1
        self._fit(made, self.series.head(warm), leads)
        rehearsed = {lead: self._say(made, np.arange(warm, latest), lead) for lead in leads}
        self._fit(made, self.series, leads)
        self._made = made
        self._rungs = [self._rung(lead, warm, rehearsed[lead]) for lead in leads]

    def _fit(self, made: dict[str, LoadForecaster], known: Series, leads: Sequence[int]) -> None:
        for each in made.values():
            each.fit([known], leads)

    def _say(self, made: dict[str, LoadForecaster], origins: Ints, lead: int) -> dict[str, Outlook]:
        return with_mixes(
            {name: each.outlook(self.series, origins, lead) for name, each in made.items()}
        )

    def _rung(self, lead: int, warm: int, said: dict[str, Outlook]) -> _Rung:
        origins = np.arange(warm, len(self.series) - 1)
        banded = [name for name in BANDED if name in said]
        tracker = new_tracker(self.series, warm, tuple(said), len(banded), lead)
        walked = walk(self.series, said, origins, lead, banded, tracker)
        rung = _Rung(lead, tracker, walked, origins)
        self._step(rung)
        return rung

    def _step(self, rung: _Rung) -> None:
        """Learn from the newest value and speak from it."""
        latest = np.array([len(self.series) - 1])
        said = self._say(self._made, latest, rung.lead)
        banded = [name for name in BANDED if name in said]
        now = walk(self.series, said, latest, rung.lead, banded, rung.tracker)
        rung.walked = _longer(rung.walked, now)
        rung.origins = np.append(rung.origins, latest)

    def observe(self, t: float, value: float) -> None:
        """The value at time `t` (in the series' clock); steps that were missed are missing.

        Raises:
            BadInput: it is older than what is known.
        """
        series = self.series
        index = round((t - series.start_s) / series.step_s)
        missed = index - len(series)
        if missed < 0:
            raise BadInput(
                f"{series.name}: a value at {t:g} s, where the latest is newer", "give it in order"
            )
        if missed > MOST_KEPT:
            raise BadInput(f"{series.name}: a gap of {missed:,} steps", "begin anew with fit")
        for each in (*[math.nan] * missed, value if math.isfinite(value) else math.nan):
            self._append(each)

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
            rung.origins = rung.origins - skip
            self._step(rung)

    def predict(self, horizon_s: float) -> Forecast:
        """Every step up to the horizon (at most the one given at the start).

        Raises:
            BadInput: not one value is known.
        """
        if not np.isfinite(self.series.values).any():
            raise BadInput(f"{self.series.name}: no value is known", "observe one first")
        wanted = math.ceil(horizon_s / self.series.step_s - 1e-9)
        steps = np.arange(1, max(1, min(self.horizon, wanted)) + 1)
        if not self._rungs:
            return self._wide(steps)
        leads = np.array([rung.lead for rung in self._rungs])
        shown = np.unique(np.rint(np.linspace(1, steps[-1], MOST_STEPS)).astype(int))
        medians, means = np.array([self._point(int(step)) for step in shown]).T
        spread = np.array([rung.walked.quantiles[-1] for rung in self._rungs])
        spread = spread - spread[:, [MEDIAN]]
        # Beyond the last rung the band widens as that of a random walk does.
        grow = np.sqrt(np.maximum(shown / leads[-1], 1.0))
        offsets = np.array([np.interp(shown, leads, each) for each in spread.T]) * grow
        quantiles, mean = medians + offsets, means
        if np.nanmin(self.series.values) >= 0:
            quantiles, mean = np.maximum(quantiles, 0.0), np.maximum(mean, 0.0)
        full = np.array([np.interp(steps, shown, each) for each in quantiles])
        return Forecast(LEVELS, full, np.interp(steps, shown, mean))

    def _point(self, step: int) -> tuple[float, float]:
        """Median and mean at one step, said by those who do best at the rungs around it."""
        rungs = {rung.lead: rung for rung in self._rungs}
        if step in rungs:
            walked = rungs[step].walked
            return float(walked.median[-1]), float(walked.mean[-1])
        said = self._say(self._made, np.array([len(self.series) - 1]), step)
        median = mean = 0.0
        for lead, weight in neighbours(rungs, step):
            shares = self._shares(rungs[lead], list(said))
            median += weight * float(shares @ [each.median[0] for each in said.values()])
            mean += weight * float(shares @ [each.mean[0] for each in said.values()])
        return median, mean

    def _shares(self, rung: _Rung, known: list[str]) -> Floats:
        """The weight of each forecaster in what is used at a rung."""
        name = rung.walked.names[rung.walked.used[-1]]
        if name not in known:
            return rung.tracker.weights()
        alone = np.zeros(len(known))
        alone[known.index(name)] = 1.0
        return alone

    def skill(self) -> list[Skill]:
        """Per followed lead: who speaks, and how it did since the warm-up."""
        rows = []
        for rung in self._rungs:
            known = rung.origins + rung.lead < len(self.series)
            known[: len(known) // 4] = False
            origins, targets = rung.origins[known], rung.origins[known] + rung.lead
            if not len(origins) or not np.isfinite(self.series.values[targets]).any():
                continue
            actual, said = self.series.values[targets], rung.walked.median[known]
            naive = {
                name: mae(actual, self._made[name].outlook(self.series, origins, rung.lead).median)
                for name in NAIVE
                if name in self._made
            }
            best = min(naive, key=lambda each: naive[each]) if naive else ""
            bands = rung.walked.quantiles[known]
            rows.append(
                Skill(
                    rung.lead * self.series.step_s,
                    rung.walked.names[rung.walked.used[-1]],
                    ratio(mae(actual, said), naive[best]) if best else math.nan,
                    coverage(actual, bands[:, 0], bands[:, -1]),
                    best,
                    int(np.isfinite(actual).sum()),
                )
            )
        return rows

    def followed(self) -> list[int]:
        """The leads of the ladder, in steps."""
        return [rung.lead for rung in self._rungs]

    def past(self) -> tuple[Ints, Floats]:
        """Of the longest followed lead: the indices that were forecast, and the quantiles."""
        if not self._rungs:
            return np.zeros(0, np.int64), np.zeros((0, len(LEVELS)))
        rung = self._rungs[-1]
        return rung.origins + rung.lead, rung.walked.quantiles

    @property
    def _too_short(self) -> bool:
        return int(np.isfinite(self.series.values).sum()) < LEAST_HISTORY

    def _limits(self) -> list[str]:
        known = int(np.isfinite(self.series.values).sum())
        if not known:
            raise BadInput(f"{self.series.name}: not one number", "name another column")
        if self._too_short:
            return [f"only {known} values: the last one is forecast, with a wide band"]
        longest = len(self.series) // 4
        if self.horizon > longest:
            seen = duration_text(longest * self.series.step_s)
            return [f"the history supports {seen} ahead; beyond it the band is widened"]
        return []

    def _wide(self, steps: Ints) -> Forecast:
        """The last value, and a band that owns up to knowing nothing."""
        known = self.series.values[np.isfinite(self.series.values)]
        spread = max(float(np.ptp(known)), abs(float(known[-1])), 1e-9)
        reach = spread * np.sqrt(steps)
        shape = (np.array(LEVELS) - 0.5) / 0.45
        quantiles = known[-1] + shape[:, None] * reach
        if known.min() >= 0:
            quantiles = np.maximum(quantiles, 0.0)
        return Forecast(LEVELS, quantiles, np.full(len(steps), float(known[-1])))


def ladder(horizon: int) -> list[int]:
    """The leads to follow: 1, the horizon, and even ratios between."""
    rungs = np.geomspace(1, max(1, horizon), RUNGS)
    return sorted({int(each) for each in np.rint(rungs)})


def _longer(before: Walk, now: Walk) -> Walk:
    return Walk(
        before.names,
        before.banded,
        *(
            np.concatenate([getattr(before, name), getattr(now, name)])
            for name in ("median", "mean", "quantiles", "bands", "used", "band_of")
        ),
    )
