"""Price and carbon intensity in the state, and the bills that result from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flyball.core import records as r
from flyball.core.records import Records, records
from flyball.core.results import Floats
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.core.units import J_PER_KWH


def set_signals(
    clock: Records, price: Signal | None, carbon: Signal | None, origin_us: int | None
) -> Records:
    """Describe the signals in the clock and return their steps; none while both are constant.

    Args:
        clock: of the state before the first event.
        price, carbon: of the cluster; None = not given.
        origin_us: calendar instant of the clock's 0; None = the workload has no dates.
    """
    start_us = int(clock.start_us[0])
    local = {
        name: signal.on_clock(origin_us)
        for name, signal in (("price", price), ("carbon", carbon))
        if signal is not None
    }
    for name, signal in local.items():
        clock[name]["value"], clock[name]["given"] = signal.value_at(start_us), True
    if all(signal.is_flat for signal in local.values()):
        return records(0, r.STEP)
    steps = records(sum(len(signal.values) + 1 for signal in local.values()), r.STEP)
    first = 0
    for name, signal in local.items():
        count = len(signal.values)
        fixed = {"first": first, "count": count}
        for field in ("begin_us", "end_us", "step_us", "period_us"):
            fixed[field] = getattr(signal, field)
        for field, value in fixed.items():
            clock[name][field] = value
        clock[name]["period_before"] = signal.period_before
        clock[name]["period_after"] = signal.period_after
        part = steps[first : first + count + 1]
        part["time_us"] = [*signal.times_us.tolist(), signal.end_us]
        part["value"][:count], part["total"] = signal.values, signal.sums
        first += count + 1
    return steps


def without_future(state: State) -> State:
    """Return the state with the present values of the signals, but not their other values."""
    return state._replace(steps=records(0, r.STEP)) if len(state.steps) else state


def signals_of(state: State) -> tuple[Signal | None, Signal | None]:
    """Return the price and the carbon intensity in a state, on its clock; nothing known ahead."""
    clock = state.clock[0]
    return _signal_of(state, clock.price), _signal_of(state, clock.carbon)


def _signal_of(state: State, signal: Any) -> Signal | None:
    if not signal.given:
        return None
    if not signal.count:
        return Signal.flat(float(signal.value))
    part = state.steps[signal.first : signal.first + signal.count]
    times = np.array(part["time_us"], np.int64)
    values = np.array(part["value"], np.float64)
    end_us, period_us = int(signal.end_us), int(signal.period_us)
    return Signal("", times, values, end_us, period_us, dated=True, known_ahead=0)


class Bills(NamedTuple):
    """Money and grams of CO2 by account; None = the cluster has no such signal."""

    money: Floats | None
    carbon_g: Floats | None


def bills_of(state: State, accounts: Records) -> Bills:
    """Return the bills of nodes or of jobs."""
    clock = state.clock[0]
    return Bills(
        _amounts(state, clock.price, accounts, "money"),
        _amounts(state, clock.carbon, accounts, "carbon_g"),
    )


def _amounts(state: State, signal: Any, accounts: Records, name: str) -> Floats | None:
    if not signal.given:
        return None
    if len(state.steps):
        return np.array(accounts[name], np.float64)
    return np.asarray(accounts["energy_j"] / J_PER_KWH * signal.value, np.float64)


def totals_of(
    state: State, energy_j: float, money: float, carbon_g: float
) -> tuple[float | None, float | None]:
    """Return money and carbon of the whole cluster.

    Args:
        energy_j: what all nodes drew.
        money, carbon_g: the sums of their bills, where a signal varies.
    """
    price, carbon = state.clock[0].price, state.clock[0].carbon
    if not len(state.steps):
        kwh = energy_j / J_PER_KWH
        money, carbon_g = kwh * float(price.value), kwh * float(carbon.value)
    return money if price.given else None, carbon_g if carbon.given else None


GROWN = {"jobs": r.JOB, "nodes": r.NODE, "runs": r.RUN, "clock": r.CLOCK}
"""Records that have other fields, or in another order, than in older dumps."""
ADDED = ("steps",)
"""Arrays that older dumps lack."""


def upgraded(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a dump with what older dumps lack."""
    arrays = {"steps": records(0, r.STEP), **arrays}
    for name, dtype in GROWN.items():
        old = arrays[name]
        if old.dtype.names != dtype.names:
            arrays[name] = records(len(old), dtype)
            for field in old.dtype.names or ():
                arrays[name][field] = old[field]
    return arrays
