"""What a kWh is expected to cost over the coming hours, in money, in carbon, or in both.

Everything here comes from the present values in the state's clock and from the outlook, so nothing
that is not public at the instant of the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flyball.core.forecast import Forecast, Outlook
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.units import S_PER_HOUR, US_PER_S

G_PER_KG = 1000.0
W_PER_KW = 1000.0
HOURS_PER_DAY = 24
UPPER = 0.95
"""Quantile of a signal with which a day's budget is divided over the rest of the day."""


def hourly_costs(state: State, outlook: Outlook, per_kg: float) -> Floats | None:
    """Return the expected cost of a kWh now and in 1, 2, ... hours; None if nothing is forecast.

    Args:
        per_kg: money that a kg of CO2 counts for. Without a price the cost is in grams.
    """
    clock = state.clock[0]
    price = float(clock.price.value) if clock.price.given else None
    carbon = float(clock.carbon.value) if clock.carbon.given else None
    return costs_of(price, carbon, outlook, per_kg)


def costs_of(
    price_now: float | None, carbon_now: float | None, outlook: Outlook, per_kg: float
) -> Floats | None:
    """Return the same from the present values of the signals; None = not given."""
    price = _now_and_ahead(price_now, outlook.price)
    carbon = _now_and_ahead(carbon_now, outlook.carbon)
    if price is None or carbon is None:
        return carbon if price is None else price
    size = min(len(price), len(carbon))
    return np.asarray(price[:size] + per_kg / G_PER_KG * carbon[:size])


def relative_cost(costs: Floats | None) -> float:
    """Return the cost now over the mean of the coming day; 1 if nothing is known, never below 0."""
    if costs is None:
        return 1.0
    mean = float(costs[: HOURS_PER_DAY + 1].mean())
    return max(0.0, float(costs[0]) / mean) if mean > 0 else 1.0


def _now_and_ahead(value: float | None, forecast: Forecast | None) -> Floats | None:
    if value is None or forecast is None:
        return None
    return np.concatenate(([value], forecast.mean))


# Budgets of a day -----------------------------------------------------------------------


class Account(NamedTuple):
    """Holds the budget of a day, what of it is spent, and its signal now and as forecast."""

    budget: float
    spent: float
    value: float
    forecast: Forecast | None


def ration_w(state: State, outlook: Outlook) -> float:
    """Return the draw that keeps the budgets of the day if it lasts until midnight.

    A draw within it keeps them whatever starts or ends, as far as the upper quantile of the
    signals holds. `inf` = there is no budget of a day.
    """
    clock = state.clock[0]
    hours = max(0.0, (int(clock.day_end_us) - int(clock.now_us)) / US_PER_S / S_PER_HOUR)
    accounts = [
        Account(float(budget), float(spent), float(signal.value), forecast)
        for budget, spent, signal, forecast in (
            (clock.money_per_day, clock.spent_money, clock.price, outlook.price),
            (clock.carbon_g_per_day, clock.spent_carbon_g, clock.carbon, outlook.carbon),
        )
        if budget > 0 and signal.given
    ]
    return ration_of_w(accounts, hours)


def ration_of_w(accounts: Sequence[Account], hours: float) -> float:
    """Return the draw that keeps the budgets of these accounts if it lasts for so many hours."""
    allowed_kw = np.inf
    for account in accounts:
        per_kw = _until_midnight(account.value, account.forecast, hours)
        if per_kw > 0:
            allowed_kw = min(allowed_kw, max(0.0, account.budget - account.spent) / per_kw)
    return float(allowed_kw * W_PER_KW)


def _until_midnight(value: float, forecast: Forecast | None, hours: float) -> float:
    """Return what a kW costs for so many hours, each at the higher of its two ends."""
    ends = np.array([value]) if forecast is None else forecast.row(UPPER)
    ahead = np.concatenate(([value], ends))
    steps = int(np.ceil(hours))
    begins = ahead[np.minimum(np.arange(steps), len(ahead) - 1)]
    after = ahead[np.minimum(np.arange(1, steps + 1), len(ahead) - 1)]
    lengths = np.minimum(1.0, hours - np.arange(steps))
    return float((np.maximum(begins, after) * lengths).sum())
