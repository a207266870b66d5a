"""Prices and carbon intensity of `flyball up`: constants from options, or signals from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.control.ask.bills import Prices
    from flyball.control.decide.day_budget import Limits
    from flyball.core.cluster import Cluster

W_PER_KW = 1000.0
MOST = 1e9
"""Largest budget that can be stated."""


def live_prices(
    per_device_hour: float,
    energy_price: float | None,
    carbon: float | None,
    currency: str | None,
    file: Path | None,
    cluster: Cluster | None,
    money_per_day: float | None = None,
    carbon_kg_per_day: float | None = None,
    power_kw: float | None = None,
) -> Prices:
    """Return the prices of a live cluster.

    Args:
        energy_price, carbon: constants; they win over those of the file.
        file: a file with the keys `price`, `carbon` and `currency`; None = those of the cluster.
        cluster: the simulated cluster, if it is one.
        money_per_day, carbon_kg_per_day, power_kw: budgets; None = those of the cluster, if any.

    Raises:
        BadInput: a file with errors, or a budget that is not a positive number.
    """
    from flyball.control.ask.bills import Prices
    from flyball.core.signals import Signal
    from flyball.twin.inputs.cluster_file import load_signals

    price_signal, carbon_signal, unit = None, None, ""
    if file is not None:
        price_signal, carbon_signal, unit = load_signals(file)
    elif cluster is not None:
        price_signal, carbon_signal, unit = cluster.price, cluster.carbon, cluster.currency
    if energy_price is not None:
        price_signal = Signal.flat(energy_price)
    if carbon is not None:
        carbon_signal = Signal.flat(carbon)
    limits = _limits(cluster, money_per_day, carbon_kg_per_day, power_kw)
    unit = currency or unit or Prices.currency
    return Prices(per_device_hour, price_signal, unit, carbon_signal, limits)


def _limits(
    cluster: Cluster | None,
    money_per_day: float | None,
    carbon_kg_per_day: float | None,
    power_kw: float | None,
) -> Limits:
    """Return the budgets: stated ones, else those of the simulated cluster."""
    from flyball.control.decide.day_budget import Limits

    stated = {
        "--money-per-day": money_per_day,
        "--carbon-per-day": carbon_kg_per_day,
        "--power-kw": power_kw,
    }
    for option, value in stated.items():
        if value is not None and not 0.0 < value <= MOST:
            raise BadInput(f"{option} {value:g}", f"use a number above 0 and up to {MOST:g}")
    given = Limits()
    if cluster is not None:
        given = Limits(cluster.money_per_day, cluster.carbon_kg_per_day, cluster.power_budget_w)
    return Limits(
        given.money_per_day if money_per_day is None else money_per_day,
        given.carbon_kg_per_day if carbon_kg_per_day is None else carbon_kg_per_day,
        given.power_w if power_kw is None else power_kw * W_PER_KW,
    )
