"""The performance optimiser: the other tuners, each followed as far as its word proved true.

Every tuner changes things because it predicts a gain. What came of it is in the state: the speed
of jobs that were resized, of jobs that share, the draw and the speed under caps, how long moved
jobs took to get going. For each such change there is a gain that was predicted and one that was
measured, and a tuner's *trust* is

    1 - sum(predicted - measured) / (sum(|predicted|) * (1 + doubt / changes)),   within 0..1

so few changes that disappoint count little (`doubt`), and better than predicted is no more than
trust 1. A tuner's own thresholds then see its gains times its trust, which refuses what is
marginal first; below `least` it makes no new changes at all. When the changes that disappointed
have ended, trust returns by itself. Nothing is remembered here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import Status
from flyball.core.errors import BadInput
from flyball.core.protocols import Forecast, Tuner
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, to_us
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.power import Power
from flyball.tune.share import Share, measured

SETTLED_US = to_us(60.0)
"""A job's speed is judged once it ran so long."""
TURNS = 0.5
"""Speed of each of two jobs that take turns on a device: what sharing must beat."""
THIRD = 1.0 / 3.0


@dataclass(frozen=True)
class Weights:
    """What the operator cares about, in any unit: only the proportions count.

    Equal weights give every tuner its own default settings.

    Attributes:
        work: reference work done.
        energy: energy per work saved.
        completion: short completion times.

    Raises:
        BadInput: a negative weight, or none above 0.
    """

    work: float = 1.0
    energy: float = 1.0
    completion: float = 1.0

    def __post_init__(self) -> None:
        weights = (self.work, self.energy, self.completion)
        if not all(0.0 <= each < math.inf for each in weights) or not any(weights):
            named = ", ".join(f"{each:g}" for each in weights)
            raise BadInput(f"weights {named}", "use 0 or more for each, and not 0 for all")

    @property
    def parts(self) -> tuple[float, float, float]:
        """The weights as parts of 1."""
        total = self.work + self.energy + self.completion
        return self.work / total, self.energy / total, self.completion / total

    def elastic(self, base: Elastic) -> Elastic:
        """Energy: stop growing earlier and put a price on watts. Completion: less patience."""
        _, energy, completion = self.parts
        return replace(
            base,
            eta=_towards(base.eta, 0.35, 0.8, energy),
            energy=_towards(base.energy, 0.0, 0.9, energy),
            patience_s=base.patience_s * 2.0 ** (1.0 - 3.0 * completion),
        )

    def share(self, base: Share) -> Share:
        """Work: bear more slowdown of each job. Completion: less."""
        work, _, completion = self.parts
        return replace(base, limit=_towards(base.limit, 0.05, 0.4, (1.0 + work - completion) / 3.0))

    def power(self, base: Power) -> Power:
        """Energy: slower under caps, no spare nodes. Completion: more of them awake."""
        _, energy, completion = self.parts
        spare = base.spare if base.spare < 0 else round(3.0 * base.spare * completion)
        return replace(base, slowdown=_towards(base.slowdown, 0.0, 0.2, energy), spare=spare)

    def balance(self, base: Balance) -> Balance:
        """Completion: more moves in an hour."""
        return replace(base, per_hour=round(3.0 * base.per_hour * self.parts[2]))

    def tuners(self) -> tuple[Tuner, ...]:
        """All of them, set to the weights, in the order in which they change a plan."""
        return (
            self.elastic(Elastic()),
            self.share(Share()),
            self.balance(Balance()),
            self.power(Power()),
        )


def _towards(default: float, low: float, high: float, part: float) -> float:
    """From `low` at part 0 over the default at a third to `high` at 1, in straight lines."""
    return float(np.interp(part, (0.0, THIRD, 1.0), (low, default, high)))


@dataclass(frozen=True)
class Optimise:
    """Settings of the optimiser.

    Attributes:
        tuners: in the order in which they change the plan.
        least: trust below which a tuner makes no new changes.
        doubt: changes that must be measured before half of a disappointment is believed.
    """

    tuners: tuple[Tuner, ...]
    least: float = 0.25
    doubt: float = 4.0

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan after every tuner, each as far as it is trusted."""
        for tuner in self.tuners:
            rule = RULES.get(type(tuner))
            if rule is None:
                plan = tuner.adjust(state, forecast, plan)
                continue
            trusted = self.trust(rule.evidence(state))
            plan = rule.follow(tuner, trusted, self.least, state).adjust(forecast, plan)
        return plan

    def trust(self, evidence: Evidence) -> float:
        """How far a tuner's word proved true, 0 to 1."""
        size = float(np.abs(evidence.predicted).sum())
        if size <= 0.0:
            return 1.0
        missed = float((evidence.predicted - evidence.measured).sum())
        weight = 1.0 + self.doubt / len(evidence.predicted)
        return float(np.clip(1.0 - missed / (size * weight), 0.0, 1.0))


# What is known ------------------------------------------------------------------------


class Evidence(NamedTuple):
    """Changes in force: the gain of each as it was predicted and as it was measured."""

    predicted: Floats
    measured: Floats


NOTHING = Evidence(np.zeros(0), np.zeros(0))


def _settled(state: State) -> Ints:
    """Running jobs that ran long enough to be judged."""
    runs = state.runs.view(np.ndarray)
    ready_us = int(state.clock["now_us"][0]) - SETTLED_US
    running = (runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0)
    return np.flatnonzero(running & (runs["ready_us"] <= ready_us))


def resized(state: State) -> Evidence:
    """Speed of elastic jobs at another size than they asked for, relative to that size."""
    if not len(state.learned):
        return NOTHING
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    mine, pools = _settled(state), len(state.pools)
    mine = mine[(jobs["curve"][mine] >= 0) & (runs["devices"][mine] != jobs["devices"][mine])]
    span: Any = state.ranges[jobs["curve"][mine]]
    pool = runs["pool"][mine].astype(np.int64)
    guess = state.guesses["packed"]
    now = guess[span.first + (runs["devices"][mine] - span.least) * pools + pool]
    asked = guess[span.first + (jobs["devices"][mine] - span.least) * pools + pool]
    true = state.rates["packed"][jobs["profile"][mine] * pools + pool]
    known = (asked > 0) & (true > 0)
    learned = state.learned[mine * pools + pool]
    return Evidence((now / asked - 1.0)[known], (learned * now / true - 1.0)[known])


def shared(state: State) -> Evidence:
    """Speed of jobs in pairs beyond what it would be if they took turns."""
    seen = measured(state) if len(state.pair_guesses) else []
    profiles = len(state.rates) // len(state.pools)
    at = np.array(
        [(each.pool * profiles + each.profile) * profiles + each.other for each in seen], np.int64
    )
    speeds = np.array([each.speed for each in seen], np.float64)
    return Evidence(state.pair_guesses[at] - TURNS, speeds - TURNS)


def capped(state: State) -> Evidence:
    """Energy of the devices per work saved by caps, as a part of that without."""
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    mine, pools = _settled(state), state.pools.view(np.ndarray)
    pool = runs["pool"][mine].astype(np.int64)
    fewest = -(-runs["devices"][mine] // pools["capacity"][pool])
    plain = (runs["cap"][mine] > 0) & (jobs["curve"][mine] < 0) & (runs["slow"][mine] == 1.0)
    plain &= (runs["nodes"][mine] == fewest) & (jobs["milli"][mine] == MILLI_PER_DEVICE)
    mine, pool = mine[plain], pool[plain]
    caps: Any = state.caps[pool * CAP_LEVELS + runs["cap"][mine]]
    rate: Any = state.rates[jobs["profile"][mine] * len(pools) + pool]
    devices = runs["devices"][mine]
    host_w = devices * pools["host_w"][pool] / pools["capacity"][pool]
    draw = (runs["watts"][mine] - host_w) / (devices * rate.watts)
    told = 1.0 - caps.power * caps.slowdown
    return Evidence(told, 1.0 - draw * rate.packed / np.maximum(runs["rate"][mine], 1e-12))


def moved(state: State) -> Evidence:
    """The restart that jobs were to take over the one they took, after they were set aside."""
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    mine = _settled(state)
    mine = mine[(runs["preemptions"][mine] > 0) & (jobs["restart_us"][mine] > 0)]
    took_us = np.maximum(1, runs["ready_us"][mine] - runs["began_us"][mine])
    return Evidence(np.ones(len(mine)), jobs["restart_us"][mine] / took_us)


# How each is followed -----------------------------------------------------------------


class Asked(NamedTuple):
    """A tuner set as far as it is trusted, and the state as it may see it; None = not asked."""

    tuner: Tuner | None
    state: State

    def adjust(self, forecast: Forecast | None, plan: Records) -> Records:
        return plan if self.tuner is None else self.tuner.adjust(self.state, forecast, plan)


class Rule(NamedTuple):
    """Where a tuner's evidence is, and how it is followed at a trust."""

    evidence: Callable[[State], Evidence]
    follow: Callable[[Any, float, float, State], Asked]


def _by_margin(tuner: Any, trust: float, least: float, state: State) -> Asked:
    """Gains times trust against the same cost: a margin over trust."""
    if trust < least:
        return Asked(None, state)
    return Asked(replace(tuner, margin=tuner.margin / trust), state)


def _by_slowdown(tuner: Power, trust: float, least: float, state: State) -> Asked:
    """The budget is kept at any trust; for energy jobs are slowed less, in the end not at all."""
    allowed = tuner.slowdown * trust if trust >= least else 0.0
    return Asked(replace(tuner, slowdown=allowed), state)


def _by_guesses(tuner: Share, trust: float, least: float, state: State) -> Asked:
    """Pairs are parted as ever; what new ones promise beyond taking turns counts by trust."""
    believed = trust if trust >= least else 0.0
    guesses = state.pair_guesses
    wary = np.where(guesses > TURNS, TURNS + believed * (guesses - TURNS), guesses)
    return Asked(tuner, state._replace(pair_guesses=wary))


RULES: dict[type, Rule] = {
    Elastic: Rule(resized, _by_margin),
    Share: Rule(shared, _by_guesses),
    Power: Rule(capped, _by_slowdown),
    Balance: Rule(moved, _by_margin),
}
"""Tuners of other types are asked as they are."""
