"""Max-min fairness over devices, whatever their type (Gavel's agnostic policy, OSDI 2020).

Every active job gets the same number of devices over time; a job that cannot use that many
leaves the rest to others. Types are not distinguished: each job gets its part of every pool it
could run in. Jobs take turns in rounds of `round_s`; `solve_s` is the least time between two
divisions. Fair without knowing any speed; on mixed hardware `max-min-het` gives every job more.
On an overloaded cluster wide gangs get less than their part; `--set turns=owed` gives it to them.
Loses to shortest-first orders on mean completion, as all fair policies do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.knobs import Knobs, Optimum, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by
from flyball.schedule.shares.groups import group
from flyball.schedule.shares.programmes import max_min


@dataclass(frozen=True)
class EqualDevices:
    """Computes target shares with equal devices for every job."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: equal_devices(demand, self.optimum))


def equal_devices(demand: Demand, optimum: Optimum = Optimum.CORNER) -> Floats:
    """Return equal shares: in closed form if all jobs can run everywhere, else by programme."""
    runs = (demand.speeds > 0).astype(np.float64)
    if optimum == Optimum.CORNER and runs[:, demand.capacity > 0].all():
        return _evenly(demand)
    groups = group(demand.asks, runs * demand.asks[:, None])
    return max_min(groups, demand.capacity, optimum)[1][groups.of_job]


def _evenly(demand: Demand) -> Floats:
    """Return the optimum that treats all jobs alike, if every job can run in every pool."""
    devices = float(demand.capacity.sum())
    level = water_level(demand.asks, devices)
    part = np.minimum(demand.asks, level) / demand.asks
    shares: Floats = part[:, None] * (demand.capacity / devices)
    return shares


def water_level(asks: Floats, devices: float) -> float:
    """Return the level at which the sum of min(asks, level) is `devices`, or the most asked."""
    ordered = np.sort(asks)
    below = np.concatenate(([0.0], np.cumsum(ordered)))[:-1]
    needed = below + ordered * np.arange(len(ordered), 0, -1)
    at = int(np.searchsorted(needed, devices))
    if at == len(ordered):
        return float(ordered[-1])
    return float((devices - below[at]) / (len(ordered) - at))


POLICY = Preset(
    name="max-min",
    summary="equal devices for every job over time, in rounds; blind to device types",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=EqualDevices(),
    blind=True,
)
