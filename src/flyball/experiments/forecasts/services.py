"""What a forecast of requests is worth to a service that scales its replicas, on ServeGen's week.

The rule is that of `tune/replicas.py`: it provides for the upper quantile of its forecast, but not
for less than the recent peak, times a margin that it learns while serving. Arms differ in the
forecast only: none, what the live predictor of load says of the rate so far (`LoadSeries`), trees
fitted on the first week, and the highest rate that really came until new replicas are ready.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flyball.core.results import Floats
from flyball.core.units import S_PER_HOUR, S_PER_MIN, S_PER_WEEK
from flyball.experiments.forecasts.rows import Note, Row, comparison
from flyball.experiments.tuning.replicas import (
    LEAD,
    ROUND_S,
    WARM_ROUNDS,
    Follow,
    ServedWeek,
    Week,
    fluid_fleet,
    serve,
    upper_rates,
)
from flyball.experiments.tuning.servegen import CASES
from flyball.predict.load.live_series import LoadSeries, SeriesKind
from flyball.tune.replicas import DEFAULT
from flyball.twin.traffic import BLOCK_S

SEEDS = 3
FIRST_SEED = 11
"""Seeds 11, 12, ...: nothing was chosen on these draws of the requests' times and lengths."""
REQUESTS = SeriesKind("requests", "per second", S_PER_MIN, S_PER_HOUR, 0, 4)
NO_FORECAST, LIVE, TREES, TRUE_FUTURE = "no forecast", "live predictor", "trees", "true future"


def rows(note: Note, seeds: int | None = None, cases: Sequence[str] = tuple(CASES)) -> list[Row]:
    """Return what each forecast changes, paired by draw.

    Raises:
        DataAbsent: the recorded rates are not on this machine.
    """
    out: list[Row] = []
    for name in cases:
        weeks = [Week(name, False, FIRST_SEED + index) for index in range(seeds or SEEDS)]
        ready = [fluid_fleet(week) for week in weeks]
        note(f"services: {name}, {NO_FORECAST}")
        plain = serve(weeks, ready, Follow(weeks, np.zeros((len(weeks), _rounds()))))
        for arm, uppers in ARMS.items():
            note(f"services: {name}, {arm}")
            pairs = zip(weeks, plain, strict=True)
            table = np.array([uppers(week, served.arrivals) for week, served in pairs])
            served = serve(weeks, ready, Follow(weeks, table))
            out += _compared(f"services: {name}", arm, served, plain)
    return out


def _rounds() -> int:
    return WARM_ROUNDS + round(S_PER_WEEK / ROUND_S)


def _compared(
    case: str, arm: str, ours: Sequence[ServedWeek], theirs: Sequence[ServedWeek]
) -> list[Row]:
    late, late_before = (
        [100.0 * (1.0 - week.within) for week in weeks] for weeks in (ours, theirs)
    )
    held, held_before = ([week.device_h for week in weeks] for weeks in (ours, theirs))
    at = case, arm, NO_FORECAST
    return [
        comparison(*at, "late requests, % of all", late, late_before, relative=False),
        comparison(*at, "device-hours", held, held_before),
    ]


# Forecasts: for each round, the rate to provide for ----------------------------------------


def live_uppers(week: Week, arrivals: Floats) -> Floats:
    """Return what the live predictor says after each round, from the rates until then."""
    per_round = round(ROUND_S / BLOCK_S)
    blocks = week.traffic(0.0, S_PER_WEEK).block_rates(week.seed + 1000)
    history = blocks.reshape(-1, per_round).mean(axis=1)[:-WARM_ROUNDS]
    series = LoadSeries(REQUESTS, 0.0, history)
    uppers = np.zeros(len(arrivals))
    for at, count in enumerate(arrivals.tolist()):
        series.extend([count / ROUND_S])
        series.catch_up()
        forecast = series.forecast()
        assert forecast is not None, "a week is known"
        uppers[at] = forecast.at(DEFAULT.level, LEAD * ROUND_S)
    return uppers


def true_rates(_week: Week, arrivals: Floats) -> Floats:
    """Return the highest rate of the rounds until replicas ordered now have been replaced."""
    ahead = np.append(arrivals, np.full(LEAD, arrivals[-1])) / ROUND_S
    windows = np.lib.stride_tricks.sliding_window_view(ahead[1:], LEAD)
    highest: Floats = windows.max(axis=1)
    return highest


ARMS = {LIVE: live_uppers, TREES: upper_rates, TRUE_FUTURE: true_rates}
