"""Prices and carbon intensity of `flyball up`: constants from options, or signals from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyball.control.ask.bills import Prices
    from flyball.core.cluster import Cluster


def live_prices(
    per_device_hour: float,
    energy_price: float | None,
    carbon: float | None,
    currency: str | None,
    file: Path | None,
    cluster: Cluster | None,
) -> Prices:
    """Return the prices of a live cluster.

    Args:
        energy_price, carbon: constants; they win over those of the file.
        file: a file with the keys `price`, `carbon` and `currency`; None = those of the cluster.
        cluster: the simulated cluster, if it is one.

    Raises:
        BadInput: a file with errors.
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
    return Prices(per_device_hour, price_signal, currency or unit or Prices.currency, carbon_signal)
