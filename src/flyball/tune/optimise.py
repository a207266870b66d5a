"""The performance optimiser: sets tuners by the operator's weights, and trusts caps by their gain.

`Weights` turns goals into settings of the tuners. `Optimise` runs the tuners and checks one of
them: what caps were predicted to save against what the capped jobs really save. Both are in the
state, so nothing is remembered here. The *trust* in caps is

    1 - sum(predicted - measured) / (sum(|predicted|) * (1 + doubt / jobs)),   within 0..1

so a few jobs that disappoint count little (`doubt`), and better than predicted gives no more than
trust 1. Caps may slow jobs down by the tuner's limit times the trust, below `least` not at all.
When the jobs that disappointed have ended, trust returns by itself.

Other tuners are run as they are: scaling their gains by a trust was measured to change nothing
where their predictions are wrong (docs/decisions/0030-classes-and-optimiser.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import Status
from flyball.core.errors import BadInput
from flyball.core.protocols import Outlook, Tuner
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, to_us
from flyball.tune.balance import Balance
from flyball.tune.defer import Defer
from flyball.tune.elastic import Elastic
from flyball.tune.power import Power
from flyball.tune.share import Share

SETTLED_US = to_us(60.0)
"""Time a job must have run before its speed is evaluated."""
THIRD = 1.0 / 3.0
COMPLETION = {
    "eta": 0.1,
    "horizon_s": 1800.0,
    "gap_s": 150.0,
    "patience_s": 12 * 3600.0,
    "stretch": 6.0,
}
"""Settings of `Elastic` if completion time alone counts: jobs grow while a device adds anything
much, make way soon, and wait by their work left, not by when they came, within bounds."""
MOST_ENERGY = 3.0
"""Price of watts in `Elastic` if energy alone counts."""


DEAR = {"slowdown": 0.25, "deepest": 0.5}
"""Settings of `Power` if money or carbon alone count: deep caps, deeper while a kWh is dear."""
PAUSED = {"pause": 0.2, "stretch": 1.4}
"""Settings of `Defer` if money or carbon counts: running jobs wait too, and caps have room."""
EVEN_PER_KG = 0.25
"""Money that a kg of CO2 counts for where money and carbon weigh the same: a kWh often costs 0.1
and emits 0.4 kg."""
CARBON_ALONE_PER_KG = 1e6


@dataclass(frozen=True)
class Weights:
    """Holds the weights of the operator's goals, in any unit: only the proportions count.

    Equal weights of work, energy and completion give every tuner its default settings.

    Attributes:
        work: reference work done.
        energy: energy per work saved.
        completion: short completion times.
        money, carbon: what that energy costs or emits at its time: counts like energy, and caps
            and deferrable jobs follow the series.

    Raises:
        BadInput: a negative weight, or none above 0.
    """

    work: float = 1.0
    energy: float = 1.0
    completion: float = 1.0
    money: float = 0.0
    carbon: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.work, self.energy, self.completion, self.money, self.carbon)
        if not all(0.0 <= weight < math.inf for weight in weights) or not any(weights):
            named = ", ".join(f"{weight:g}" for weight in weights)
            raise BadInput(f"weights {named}", "use 0 or more for each, and not 0 for all")

    @property
    def parts(self) -> tuple[float, float, float]:
        """Return the weights of work, of energy with its cost, and of completion as parts of 1."""
        energy = self.energy + self.money + self.carbon
        total = self.work + energy + self.completion
        return self.work / total, energy / total, self.completion / total

    @property
    def dear(self) -> float:
        """Return the weight of money and carbon as a part of 1."""
        costs = self.money + self.carbon
        return costs / (self.work + self.energy + self.completion + costs)

    @property
    def per_kg(self) -> float:
        """Return the money that a kg of CO2 counts for."""
        if self.money > 0.0:
            return EVEN_PER_KG * self.carbon / self.money
        return CARBON_ALONE_PER_KG if self.carbon > 0.0 else 0.0

    def elastic(self, base: Elastic) -> Elastic:
        """Set for energy: stop growing earlier, price watts; for completion: weigh by work left."""
        _, energy, completion = self.parts
        kappa = _towards(base.completion, 0.0, 1.0, completion)
        eta = _towards(base.eta, 0.25, 0.8, energy)

        def for_completion(name: str) -> float:
            default = float(getattr(base, name))
            return _towards(default, default, COMPLETION[name], completion)

        return replace(
            base,
            eta=eta + (COMPLETION["eta"] - eta) * max(0.0, 1.5 * completion - 0.5),
            energy=_towards(base.energy, 0.0, MOST_ENERGY, energy),
            completion=kappa,
            **{name: for_completion(name) for name in COMPLETION if name != "eta"},
        )

    def share(self, base: Share) -> Share:
        """Set for work: allow more slowdown of each job; for completion: less."""
        work, _, completion = self.parts
        return replace(base, limit=_towards(base.limit, 0.05, 0.4, (1.0 + work - completion) / 3.0))

    def power(self, base: Power) -> Power:
        """Set for energy: slower under caps, no spare nodes; for completion: more awake."""
        _, energy, completion = self.parts
        spare = base.spare if base.spare < 0 else round(3.0 * base.spare * completion)
        slowdown = _towards(base.slowdown, 0.0, 0.2, energy)
        if self.dear == 0.0:
            return replace(base, slowdown=slowdown, spare=spare)
        return replace(
            base,
            slowdown=slowdown + (DEAR["slowdown"] - slowdown) * self.dear,
            spare=spare,
            follow=1.0,
            deepest=base.deepest + (DEAR["deepest"] - base.deepest) * self.dear,
            per_kg=self.per_kg,
        )

    def defer(self, base: Defer) -> Defer:
        """Set for money and carbon: jobs that may wait also pause."""
        if self.dear == 0.0:
            return base
        pause, stretch = PAUSED["pause"], PAUSED["stretch"]
        return replace(base, per_kg=self.per_kg, pause=pause, stretch=stretch)

    def balance(self, base: Balance) -> Balance:
        """Set for completion: more moves in an hour."""
        return replace(base, per_hour=round(3.0 * base.per_hour * self.parts[2]))

    def tuners(self) -> tuple[Tuner, ...]:
        """Return all tuners, set by the weights, in the order in which they change a plan."""
        chosen = (
            self.elastic(Elastic()),
            self.share(Share()),
            self.balance(Balance()),
            self.power(Power()),
        )
        return (self.defer(Defer()), *chosen) if self.dear else chosen


def _towards(default: float, low: float, high: float, part: float) -> float:
    """Interpolate linearly: `low` at part 0, the default at a third, `high` at 1."""
    return float(np.interp(part, (0.0, THIRD, 1.0), (low, default, high)))


@dataclass(frozen=True)
class Optimise:
    """Holds the settings of the optimiser.

    Attributes:
        tuners: the tuners in the order in which they change the plan.
        least: trust below which no job is slowed down for energy.
        doubt: number of capped jobs at which a disappointment counts half.
    """

    tuners: tuple[Tuner, ...]
    least: float = 0.25
    doubt: float = 4.0

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan changed by every tuner; caps as far as they are trusted."""
        for tuner in self.tuners:
            chosen: Tuner = self.trusted(tuner, state) if isinstance(tuner, Power) else tuner
            plan = chosen.adjust(state, outlook, plan)
        return plan

    def trusted(self, tuner: Power, state: State) -> Power:
        """Return the tuner with the slowdown that its caps have earned; it keeps the budget."""
        trust = self.trust(capped(state))
        return replace(tuner, slowdown=tuner.slowdown * trust if trust >= self.least else 0.0)

    def trust(self, evidence: GainEvidence) -> float:
        """Return how well predictions held, 0 to 1."""
        size = float(np.abs(evidence.predicted).sum())
        if size <= 0.0:
            return 1.0
        missed = float((evidence.predicted - evidence.measured).sum())
        weight = 1.0 + self.doubt / len(evidence.predicted)
        return float(np.clip(1.0 - missed / (size * weight), 0.0, 1.0))


# Evidence -----------------------------------------------------------------------------


class GainEvidence(NamedTuple):
    """Holds the predicted and the measured gain of each change in force."""

    predicted: Floats
    measured: Floats


def _settled(state: State) -> Ints:
    """Return the running jobs that ran long enough to be evaluated."""
    runs = state.runs.view(np.ndarray)
    ready_us = int(state.clock["now_us"][0]) - SETTLED_US
    running = (runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0)
    return np.flatnonzero(running & (runs["ready_us"] <= ready_us))


def capped(state: State) -> GainEvidence:
    """Return the share of the devices' energy per work that caps save."""
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    jobs_capped, pools = _settled(state), state.pools.view(np.ndarray)
    pool = runs["pool"][jobs_capped].astype(np.int64)
    fewest = -(-runs["devices"][jobs_capped] // pools["capacity"][pool])
    plain = (
        (runs["cap"][jobs_capped] > 0)
        & (jobs["curve"][jobs_capped] < 0)
        & (runs["slow"][jobs_capped] == 1.0)
    )
    plain &= (runs["nodes"][jobs_capped] == fewest) & (
        jobs["milli"][jobs_capped] == MILLI_PER_DEVICE
    )
    jobs_capped, pool = jobs_capped[plain], pool[plain]
    caps: Any = state.caps[pool * CAP_LEVELS + runs["cap"][jobs_capped]]
    rate: Any = state.rates[jobs["profile"][jobs_capped] * len(pools) + pool]
    devices = runs["devices"][jobs_capped]
    host_w = devices * pools["host_w"][pool] / pools["capacity"][pool]
    draw = (runs["watts"][jobs_capped] - host_w) / (devices * rate.watts)
    predicted = 1.0 - caps.power * caps.slowdown
    return GainEvidence(
        predicted, 1.0 - draw * rate.packed / np.maximum(runs["rate"][jobs_capped], 1e-12)
    )
