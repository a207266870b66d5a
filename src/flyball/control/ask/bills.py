"""Money and carbon of a live job: its energy over time, by the price and carbon at that time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flyball.control.decide.day_budget import Limits
from flyball.core.signals import Signal
from flyball.core.units import J_PER_KWH


@dataclass(frozen=True)
class Prices:
    """Holds the prices and the carbon intensity of this cluster; None = not charged.

    Attributes:
        per_device_hour: price of a device-hour, 0 = not charged.
        price: of a kWh, over time.
        currency: of both prices.
        carbon: grams of CO2 per kWh, over time.
        limits: budgets of a day and of the draw.
    """

    per_device_hour: float = 0.0
    price: Signal | None = None
    currency: str = "USD"
    carbon: Signal | None = None
    limits: Limits = Limits()

    @property
    def signals(self) -> tuple[Signal | None, Signal | None]:
        """Return price and carbon."""
        return self.price, self.carbon

    def now(self, now_us: int) -> dict[str, Any]:
        """Return the present values for people; without signals it is empty."""
        view: dict[str, Any] = {}
        if self.price is not None:
            view |= {"price_per_kwh": self.price.value_at(now_us), "currency": self.currency}
            view["price_source"] = self.price.describe()
        if self.carbon is not None:
            view["carbon_g_per_kwh"] = self.carbon.value_at(now_us)
            view["carbon_source"] = self.carbon.describe()
        return view


class Piece(NamedTuple):
    """Holds the energy of a part of a job's run, in which its power counts as constant."""

    begin_us: int
    end_us: int
    joules: float


def billed(pieces: Sequence[Piece], joules: float, signal: Signal | None) -> float:
    """Return energy times a signal: money, or grams; 0 without a signal.

    Args:
        pieces: where in time the energy was used; their joules may not add up to all of it.
        joules: all of it.
    """
    if signal is None:
        return 0.0
    weight = sum(piece.joules for piece in pieces)
    if signal.is_flat or not weight:
        value = signal.value_at(pieces[-1].end_us) if pieces else float(signal.values[0])
        return joules / J_PER_KWH * value
    total = sum(piece.joules * _mean(signal, piece) for piece in pieces)
    return joules / J_PER_KWH * (total / weight)


def _mean(signal: Signal, piece: Piece) -> float:
    """Return the mean of a signal over a piece."""
    if piece.end_us <= piece.begin_us:
        return signal.value_at(piece.begin_us)
    return signal.integral(piece.begin_us, piece.end_us) / (piece.end_us - piece.begin_us)
