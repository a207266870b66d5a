"""Price and carbon intensity as tables of the state, and the bills that result from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flyball.core import records as r
from flyball.core.records import Records, records
from flyball.core.results import Floats
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.core.units import J_PER_KWH
from flyball.physics.signals import CARBON, PRICE

SIGNALS = 2
"""Rows of `state.signals`: price, carbon."""


def signal_tables(
    price: Signal | None,
    carbon: Signal | None,
    origin_us: int | None,
    start_us: int,
    accounts: int,
) -> dict[str, Records]:
    """Return `signals`, `steps` and `bills` of a state.

    Args:
        price, carbon: of the cluster; None = not given.
        origin_us: calendar instant of the clock's 0; None = the workload has no dates.
        start_us: when the run begins.
        accounts: nodes and jobs.
    """
    signals = records(SIGNALS, r.SIGNAL)
    local = {
        row: signal.on_clock(origin_us)
        for row, signal in ((PRICE, price), (CARBON, carbon))
        if signal is not None
    }
    steps = records(sum(len(signal.values) + 1 for signal in local.values()), r.STEP)
    first = 0
    for row, signal in local.items():
        count = len(signal.values)
        signals[row] = (
            *(signal.value_at(start_us), first, count, signal.begin_us, signal.end_us),
            *(signal.step_us, signal.period_us, signal.period_before, signal.period_after, True),
        )
        part = steps[first : first + count + 1]
        part["time_us"] = [*signal.times_us.tolist(), signal.end_us]
        part["value"][:count], part["total"] = signal.values, signal.sums
        first += count + 1
    varied = any(not signal.is_flat for signal in local.values())
    return {"signals": signals, "steps": steps, "bills": records(accounts if varied else 0, r.BILL)}


def without_future(state: State) -> State:
    """Return the state with the present values of the signals, but not their other values."""
    if not len(state.steps):
        return state
    return state._replace(steps=records(0, r.STEP), bills=state.bills[:0])  # type: ignore[arg-type]


def signals_of(state: State) -> tuple[Signal | None, Signal | None]:
    """Return the price and the carbon intensity in a state, on its clock; nothing known ahead."""
    price, carbon = (_signal_of(state, row) for row in (PRICE, CARBON))
    return price, carbon


def _signal_of(state: State, row: int) -> Signal | None:
    signal = state.signals[row]
    if not signal.count:
        return None
    part = state.steps[signal.first : signal.first + signal.count]
    times = np.array(part["time_us"], np.int64)
    values = np.array(part["value"], np.float64)
    end_us, period_us = int(signal.end_us), int(signal.period_us)
    return Signal("", times, values, end_us, period_us, dated=True, known_ahead=0)


class Bills(NamedTuple):
    """Money and grams of CO2 by account; None = the cluster has no such signal."""

    money: Floats | None
    carbon_g: Floats | None


def bills_of(state: State, first: int, energy_j: Floats) -> Bills:
    """Return the bills of accounts, nodes or jobs.

    Args:
        first: row of the first account in `state.bills`.
        energy_j: what each of them drew.
    """
    return Bills(
        _amounts(state, PRICE, "money", first, energy_j),
        _amounts(state, CARBON, "carbon_g", first, energy_j),
    )


def _amounts(state: State, row: int, name: str, first: int, energy_j: Floats) -> Floats | None:
    if not state.signals[row].given:
        return None
    if len(state.bills):
        return np.array(state.bills[name][first : first + len(energy_j)], np.float64)
    return np.asarray(energy_j / J_PER_KWH * state.signals[row].value, np.float64)


def totals_of(
    state: State, energy_j: float, money: float, carbon_g: float
) -> tuple[float | None, float | None]:
    """Return money and carbon of the whole cluster.

    Args:
        energy_j: what all nodes drew.
        money, carbon_g: the sums of their bills, where a signal varies.
    """
    price, carbon = state.signals[PRICE], state.signals[CARBON]
    if not len(state.bills):
        kwh = energy_j / J_PER_KWH
        money, carbon_g = kwh * float(price.value), kwh * float(carbon.value)
    return money if price.given else None, carbon_g if carbon.given else None
