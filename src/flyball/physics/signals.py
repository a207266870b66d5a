"""Price and carbon intensity in compiled code: value at an instant, integral over a span.

Power is constant between two events of a node or a job, so what it cost is power times the integral
of the signal: no event is needed where the signal changes. `core/signals.py` has the plain
definition of both.

`clock.price` and `clock.carbon` describe the signals; `state.steps` has their steps end to end, and
a row for the end of each signal. While every signal is constant it is empty, and money and carbon
follow from the energy.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import W_US_PER_KWH
from flyball.physics.compile import kernel


@kernel
def lap_at(signal: Any, time_us: int) -> int:
    """Return how many periods outside the signal's dates an instant is; negative = before."""
    if signal.period_us == 0:
        return 0
    if time_us >= signal.end_us:
        return int((time_us - signal.end_us) // signal.period_us + 1)
    if time_us < signal.begin_us:
        return int((time_us - signal.begin_us) // signal.period_us)
    return 0


@kernel
def step_at(signal: Any, steps: Any, time_us: int) -> int:
    """Return the row of `steps` that an instant within the signal's dates falls on."""
    first, last = signal.first, signal.first + signal.count - 1
    if time_us <= signal.begin_us:
        return int(first)
    if time_us >= signal.end_us:
        return int(last)
    if signal.step_us > 0:
        return int(first + (time_us - signal.begin_us) // signal.step_us)
    while first < last:
        middle = (first + last + 1) // 2
        if steps[middle].time_us <= time_us:
            first = middle
        else:
            last = middle - 1
    return int(first)


@kernel
def value_at(signal: Any, steps: Any, time_us: int) -> float:
    """Return the signal's value at an instant."""
    lap = lap_at(signal, time_us)
    return float(steps[step_at(signal, steps, time_us - lap * signal.period_us)].value)


@kernel
def integral(signal: Any, steps: Any, begin_us: int, end_us: int) -> float:
    """Return the signal's integral over a span, in its unit times microseconds."""
    if signal.count == 0:
        return 0.0
    lap, last_lap = lap_at(signal, begin_us), lap_at(signal, end_us)
    at = step_at(signal, steps, begin_us - lap * signal.period_us)
    last = step_at(signal, steps, end_us - last_lap * signal.period_us)
    if lap == last_lap and at == last:
        return float(steps[at].value * (end_us - begin_us))
    head = (steps[at + 1].time_us + lap * signal.period_us - begin_us) * steps[at].value
    tail = (end_us - (steps[last].time_us + last_lap * signal.period_us)) * steps[last].value
    whole = steps[last].total - steps[at + 1].total
    laps = of_laps(signal, last_lap) - of_laps(signal, lap)
    return float(head + ((whole + laps) + tail))


@kernel
def of_laps(signal: Any, lap: int) -> float:
    """Return the integral over the periods between the signal's dates and a lap."""
    return float(lap * (signal.period_after if lap > 0 else signal.period_before))


@kernel
def node_bill(signal: Any, steps: Any, node: Any, sleep_w: float, now: int) -> float:
    """Return what a node drew since its last update, times the signal: money, or grams."""
    if node.idle_since_us < 0:
        return float(node.power_w * integral(signal, steps, node.since_us, now) / W_US_PER_KWH)
    asleep_us = max(node.since_us, min(now, node.sleeps_us))
    awake = node.power_w * integral(signal, steps, node.since_us, asleep_us)
    return float((awake + sleep_w * integral(signal, steps, asleep_us, now)) / W_US_PER_KWH)


@kernel
def bill_node(clock: Any, steps: Any, node: Any, sleep_w: float, now: int) -> None:
    """Add what a node drew since its last update to its bill."""
    node.money += node_bill(clock.price, steps, node, sleep_w, now)
    node.carbon_g += node_bill(clock.carbon, steps, node, sleep_w, now)


@kernel
def bill_job(clock: Any, steps: Any, run: Any, now: int) -> None:
    """Add the draw of a job's running slice to its bill."""
    run.money += run.watts * integral(clock.price, steps, run.since_us, now) / W_US_PER_KWH
    run.carbon_g += run.watts * integral(clock.carbon, steps, run.since_us, now) / W_US_PER_KWH


@kernel
def refresh(clock: Any, steps: Any, now: int) -> None:
    """Set the values that policies and tuners read to those of `now`."""
    if clock.price.count > 0:
        clock.price.value = value_at(clock.price, steps, now)
    if clock.carbon.count > 0:
        clock.carbon.value = value_at(clock.carbon, steps, now)
