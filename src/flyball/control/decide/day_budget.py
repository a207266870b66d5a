"""Keeps budgets live: a limit of the draw, and what is left of the day's money and CO2.

    budget = DayBudget(Limits(money_per_day=400.0), (price, carbon))
    values = budget.values(now_us)              # recorded with the decision, limit included
    budget.drew(power_w, now_us)                # what the cluster draws from now on

The draw is modelled, as in a replay: what nodes and running jobs take by the catalogue. The account
of the day is in the record of each decision, so a control plane that comes back goes on with it;
what was drawn in between counts at the draw of that time. A day begins at midnight UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.signals import DAY_US, Signal
from flyball.core.units import J_PER_KWH, S_PER_HOUR, US_PER_S
from flyball.predict.signals import signal_outlook
from flyball.tune.signal_costs import Account, ration_of_w

LEAST_W = 1.0
"""Limit when nothing is left of a day's budget: no job starts."""
RETRY_US = 60 * US_PER_S
"""Interval in which pending jobs are tried again, as the limit rises while less is drawn."""
G_PER_KG = 1000.0
MONEY, CARBON, LIMIT = "money_spent", "carbon_g_spent", "limit_w"
DRAWN, SINCE = "drawn_w", "since_us"
"""Names of the values in a decision's record."""


@dataclass(frozen=True)
class Limits:
    """Holds the budgets of a live cluster; 0 = none.

    Attributes:
        money_per_day: in the currency of the price.
        carbon_kg_per_day: of CO2.
        power_w: most that all nodes may draw.
    """

    money_per_day: float = 0.0
    carbon_kg_per_day: float = 0.0
    power_w: float = 0.0


class _Spent(NamedTuple):
    money: float = 0.0
    carbon_g: float = 0.0


class DayBudget:
    """Tracks what the running day has cost, and limits the draw by what is left."""

    def __init__(self, limits: Limits, signals: tuple[Signal | None, Signal | None]) -> None:
        self.limits, self._signals = limits, signals
        self._spent, self._since_us, self._drawn_w = _Spent(), -1, 0.0
        self._tried_us = -RETRY_US

    def recall(self, values: Mapping[str, float]) -> None:
        """Go on with the account in the record of the last decision."""
        if SINCE in values:
            self._since_us, self._drawn_w = int(values[SINCE]), float(values[DRAWN])
            self._spent = _Spent(float(values[MONEY]), float(values[CARBON]))

    def due(self, now_us: int) -> bool:
        """Return whether pending jobs should be tried again though nothing happened."""
        return now_us - self._tried_us >= RETRY_US

    def drew(self, power_w: float, now_us: int) -> None:
        """Note what the cluster draws from now on."""
        self._advance(now_us)
        self._drawn_w, self._tried_us = power_w, now_us

    def values(self, now_us: int) -> dict[str, float]:
        """Return the account and the limit of the draw in watts, for a decision's record."""
        self._advance(now_us)
        self._tried_us = now_us
        spent = {MONEY: self._spent.money, CARBON: self._spent.carbon_g}
        rest = {SINCE: float(self._since_us), DRAWN: self._drawn_w}
        return {**spent, **rest, LIMIT: self.limit_w(now_us)}

    def limit_w(self, now_us: int) -> float:
        """Return the most that the cluster may draw until midnight."""
        price, carbon = self._signals
        outlook = signal_outlook(price, carbon, now_us, NO_OUTLOOK)
        hours = (DAY_US - now_us % DAY_US) / US_PER_S / S_PER_HOUR
        accounts = [
            Account(budget, spent, signal.value_at(now_us), forecast)
            for budget, spent, signal, forecast in (
                (self.limits.money_per_day, self._spent.money, price, outlook.price),
                (
                    self.limits.carbon_kg_per_day * G_PER_KG,
                    self._spent.carbon_g,
                    carbon,
                    outlook.carbon,
                ),
            )
            if budget > 0.0 and signal is not None
        ]
        limit_w = ration_of_w(accounts, hours)
        if self.limits.power_w > 0.0:
            limit_w = min(limit_w, self.limits.power_w)
        return float(max(LEAST_W, limit_w)) if np.isfinite(limit_w) else 0.0

    def account(self, now_us: int) -> dict[str, float]:
        """Return what the day has cost by now and what is drawn, and change nothing."""
        spent = self._spent_by(now_us)
        return {MONEY: spent.money, CARBON: spent.carbon_g, DRAWN: self._drawn_w}

    def _advance(self, now_us: int) -> None:
        """Add what was drawn since the last time; at midnight the account begins anew."""
        self._spent = self._spent_by(now_us)
        self._since_us = max(self._since_us, now_us)

    def _spent_by(self, now_us: int) -> _Spent:
        """Return what the day has cost by an instant."""
        spent, begin_us = self._spent, self._since_us if self._since_us >= 0 else now_us
        midnight_us = now_us - now_us % DAY_US
        if begin_us < midnight_us:
            begin_us, spent = midnight_us, _Spent()
        kwh_per_us = self._drawn_w / US_PER_S / J_PER_KWH
        money, carbon_g = (
            kwh_per_us * signal.integral(begin_us, now_us) if signal is not None else 0.0
            for signal in self._signals
        )
        return _Spent(spent.money + money, spent.carbon_g + carbon_g)


def day_budget(limits: Limits, signals: tuple[Signal | None, Signal | None]) -> DayBudget | None:
    """Return what keeps these budgets, if there are any.

    Raises:
        BadInput: a budget of a day without the price or the carbon intensity that it needs.
    """
    price, carbon = signals
    for limit, signal, name, option in (
        (limits.money_per_day, price, "money", "--energy-price"),
        (limits.carbon_kg_per_day, carbon, "carbon", "--carbon"),
    ):
        if limit > 0.0 and signal is None:
            raise BadInput(
                f"a budget of {limit:g} a day needs the {name} of a kWh",
                f"state it with {option}, or --signals",
            )
    return DayBudget(limits, signals) if limits != Limits() else None
