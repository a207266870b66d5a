"""Forecasts that policies and tuners are given: one per subject, each with its step.

`Outlook` is what is known of the near future at one instant. It is recorded with a decision, so
that the decision can be repeated. Older journals hold a single forecast, of load in steps of a
minute; `outlook_from_json` reads both forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from flyball.core.results import Floats
from flyball.core.units import S_PER_MIN


class Forecast(NamedTuple):
    """Holds a predicted series.

    Attributes:
        levels: of the quantiles, rising.
        quantiles: `quantiles[i, h]` is quantile `levels[i]` at `(h + 1) * step_s` from now.
        mean: the expected value at each step.
        step_s: time between two values.
    """

    levels: tuple[float, ...]
    quantiles: Floats
    mean: Floats
    step_s: float

    def row(self, level: float) -> Floats:
        """Return the quantile whose level is nearest, at every step."""
        nearest: Floats = self.quantiles[int(np.abs(np.array(self.levels) - level).argmin())]
        return nearest

    def at(self, level: float, ahead_s: float) -> float:
        """Return the quantile at the first step not before `ahead_s`, or at the last one."""
        return float(self.row(level)[self._steps(ahead_s) - 1])

    def peak(self, level: float, ahead_s: float) -> float:
        """Return the highest value of the quantile within `ahead_s`, at least of the first step."""
        return float(self.row(level)[: self._steps(ahead_s)].max())

    def _steps(self, ahead_s: float) -> int:
        return min(max(1, math.ceil(ahead_s / self.step_s)), len(self.mean))


class Outlook(NamedTuple):
    """Holds the forecasts at one instant by subject; None = there is none of it.

    Attributes:
        load: devices held or asked for in the whole cluster.
        price: of electricity, per kWh.
        carbon: intensity of electricity, in g per kWh.
        requests: rate of requests of services, per second, by the service's row of
            `state.groups`.
    """

    load: Forecast | None = None
    price: Forecast | None = None
    carbon: Forecast | None = None
    requests: Mapping[int, Forecast] = MappingProxyType({})


NO_OUTLOOK = Outlook()
"""Nothing is forecast."""


def outlook_as_json(outlook: Outlook) -> dict[str, Any] | None:
    """Return an outlook as JSON values; None = nothing is forecast."""
    subjects = {
        name: _forecast_as_json(forecast)
        for name, forecast in outlook._asdict().items()
        if isinstance(forecast, Forecast)
    }
    requests = {str(key): _forecast_as_json(value) for key, value in outlook.requests.items()}
    return (subjects | ({"requests": requests} if requests else {})) or None


def outlook_from_json(values: Mapping[str, Any] | None) -> Outlook:
    """Return the outlook from the result of `outlook_as_json`, or from one forecast of load."""
    if not values:
        return NO_OUTLOOK
    if "quantiles" in values:
        return Outlook(load=_forecast_from_json(values))
    subjects = {
        name: _forecast_from_json(values[name])
        for name in ("load", "price", "carbon")
        if name in values
    }
    requests = {
        int(key): _forecast_from_json(value) for key, value in values.get("requests", {}).items()
    }
    return Outlook(**subjects, requests=requests)


def _forecast_as_json(forecast: Forecast) -> dict[str, Any]:
    return {
        "levels": list(forecast.levels),
        "quantiles": forecast.quantiles.tolist(),
        "mean": forecast.mean.tolist(),
        "step_s": forecast.step_s,
    }


def _forecast_from_json(values: Mapping[str, Any]) -> Forecast:
    return Forecast(
        tuple(values["levels"]),
        np.array(values["quantiles"], float),
        np.array(values["mean"], float),
        float(values.get("step_s", S_PER_MIN)),
    )
