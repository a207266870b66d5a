"""The performance optimiser: runs the other tuners, each trusted as far as it predicted well.

Every tuner changes a plan because it predicts a gain. The outcome is in the state: the speed of
jobs that were resized, of jobs that share, the draw and the speed under caps, how long moved
jobs took to restart. For each such change there is a predicted and a measured gain, and a tuner's
*trust* is

    1 - sum(predicted - measured) / (sum(|predicted|) * (1 + doubt / changes)),   within 0..1

so a few changes that disappoint count little (`doubt`), and better than predicted gives no more
than trust 1. A tuner's thresholds then see its gains times its trust, which rejects marginal
changes first; below `least` it makes no new changes at all. When the changes that disappointed
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
from flyball.core.protocols import Outlook, Tuner
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, to_us
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.power import Power
from flyball.tune.share import Share, measured

SETTLED_US = to_us(60.0)
"""Time a job must have run before its speed is evaluated."""
TURNS = 0.5
"""Relative speed of each of two jobs that take turns on a device: sharing must beat it."""
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


@dataclass(frozen=True)
class Weights:
    """Holds the weights of the operator's goals, in any unit: only the proportions count.

    Equal weights give every tuner its default settings.

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
        if not all(0.0 <= weight < math.inf for weight in weights) or not any(weights):
            named = ", ".join(f"{weight:g}" for weight in weights)
            raise BadInput(f"weights {named}", "use 0 or more for each, and not 0 for all")

    @property
    def parts(self) -> tuple[float, float, float]:
        """Return the weights as parts of 1."""
        total = self.work + self.energy + self.completion
        return self.work / total, self.energy / total, self.completion / total

    def elastic(self, base: Elastic) -> Elastic:
        """Set for energy: stop growing earlier, price watts; for completion: weigh by work left."""
        _, energy, completion = self.parts
        kappa = _towards(base.completion, 0.0, 1.0, completion)
        eta = _towards(base.eta, 0.35, 0.8, energy)

        def for_completion(name: str) -> float:
            default = float(getattr(base, name))
            return _towards(default, default, COMPLETION[name], completion)

        return replace(
            base,
            eta=eta + (COMPLETION["eta"] - eta) * max(0.0, 1.5 * completion - 0.5),
            energy=_towards(base.energy, 0.0, 0.9, energy),
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
        return replace(base, slowdown=_towards(base.slowdown, 0.0, 0.2, energy), spare=spare)

    def balance(self, base: Balance) -> Balance:
        """Set for completion: more moves in an hour."""
        return replace(base, per_hour=round(3.0 * base.per_hour * self.parts[2]))

    def tuners(self) -> tuple[Tuner, ...]:
        """Return all tuners, set by the weights, in the order in which they change a plan."""
        return (
            self.elastic(Elastic()),
            self.share(Share()),
            self.balance(Balance()),
            self.power(Power()),
        )


def _towards(default: float, low: float, high: float, part: float) -> float:
    """Interpolate linearly: `low` at part 0, the default at a third, `high` at 1."""
    return float(np.interp(part, (0.0, THIRD, 1.0), (low, default, high)))


@dataclass(frozen=True)
class Optimise:
    """Holds the settings of the optimiser.

    Attributes:
        tuners: the tuners in the order in which they change the plan.
        least: trust below which a tuner makes no new changes.
        doubt: number of measured changes at which a disappointment counts half.
    """

    tuners: tuple[Tuner, ...]
    least: float = 0.25
    doubt: float = 4.0

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan changed by every tuner, each as far as it is trusted."""
        for tuner in self.tuners:
            rule = RULES.get(type(tuner))
            if rule is None:
                plan = tuner.adjust(state, outlook, plan)
                continue
            trusted = self.trust(rule.evidence(state))
            plan = rule.follow(tuner, trusted, self.least, state).adjust(outlook, plan)
        return plan

    def trust(self, evidence: GainEvidence) -> float:
        """Return how well a tuner's predictions held, 0 to 1."""
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


NOTHING = GainEvidence(np.zeros(0), np.zeros(0))


def _settled(state: State) -> Ints:
    """Return the running jobs that ran long enough to be evaluated."""
    runs = state.runs.view(np.ndarray)
    ready_us = int(state.clock["now_us"][0]) - SETTLED_US
    running = (runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0)
    return np.flatnonzero(running & (runs["ready_us"] <= ready_us))


def resized(state: State) -> GainEvidence:
    """Return the gain in speed of jobs that run at another size than they asked for."""
    if not len(state.learned):
        return NOTHING
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    jobs_resized, pools = _settled(state), len(state.pools)
    jobs_resized = jobs_resized[
        (jobs["curve"][jobs_resized] >= 0)
        & (runs["devices"][jobs_resized] != jobs["devices"][jobs_resized])
    ]
    span: Any = state.ranges[jobs["curve"][jobs_resized]]
    pool = runs["pool"][jobs_resized].astype(np.int64)
    guess = state.guesses["packed"]
    now = guess[span.first + (runs["devices"][jobs_resized] - span.least) * pools + pool]
    asked = guess[span.first + (jobs["devices"][jobs_resized] - span.least) * pools + pool]
    true = state.rates["packed"][jobs["profile"][jobs_resized] * pools + pool]
    valid = (asked > 0) & (true > 0)
    learned = state.learned[jobs_resized * pools + pool]
    return GainEvidence((now / asked - 1.0)[valid], (learned * now / true - 1.0)[valid])


def shared(state: State) -> GainEvidence:
    """Return the speed of jobs in pairs beyond that of taking turns."""
    pairs = measured(state) if len(state.pair_guesses) else []
    profiles = len(state.rates) // len(state.pools)
    at = np.array(
        [(pair.pool * profiles + pair.profile) * profiles + pair.other for pair in pairs], np.int64
    )
    speeds = np.array([pair.speed for pair in pairs], np.float64)
    return GainEvidence(state.pair_guesses[at] - TURNS, speeds - TURNS)


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


def moved(state: State) -> GainEvidence:
    """Return the expected over the actual restart time of jobs that were preempted."""
    jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
    jobs_moved = _settled(state)
    jobs_moved = jobs_moved[
        (runs["preemptions"][jobs_moved] > 0) & (jobs["restart_us"][jobs_moved] > 0)
    ]
    took_us = np.maximum(1, runs["ready_us"][jobs_moved] - runs["began_us"][jobs_moved])
    return GainEvidence(np.ones(len(jobs_moved)), jobs["restart_us"][jobs_moved] / took_us)


# How trust is applied ------------------------------------------------------------------


class TrustedTuner(NamedTuple):
    """Holds a tuner adjusted to its trust, and the state it is given; None = not run."""

    tuner: Tuner | None
    state: State

    def adjust(self, outlook: Outlook, plan: Records) -> Records:
        """Return the plan changed by the tuner, if it is run at all."""
        return plan if self.tuner is None else self.tuner.adjust(self.state, outlook, plan)


class TrustRule(NamedTuple):
    """Holds how the evidence about a tuner is collected, and how its trust is applied."""

    evidence: Callable[[State], GainEvidence]
    follow: Callable[[Any, float, float, State], TrustedTuner]


def _by_margin(tuner: Any, trust: float, least: float, state: State) -> TrustedTuner:
    """Divide the margin by the trust: the same as gains times trust against the same cost."""
    if trust < least:
        return TrustedTuner(None, state)
    return TrustedTuner(replace(tuner, margin=tuner.margin / trust), state)


def _by_slowdown(tuner: Power, trust: float, least: float, state: State) -> TrustedTuner:
    """Slow jobs less for energy, at low trust not at all; the budget is kept at any trust."""
    allowed = tuner.slowdown * trust if trust >= least else 0.0
    return TrustedTuner(replace(tuner, slowdown=allowed), state)


def _by_guesses(tuner: Share, trust: float, least: float, state: State) -> TrustedTuner:
    """Scale the predicted gain of new pairs over taking turns; parting does not change."""
    believed = trust if trust >= least else 0.0
    guesses = state.pair_guesses
    wary = np.where(guesses > TURNS, TURNS + believed * (guesses - TURNS), guesses)
    return TrustedTuner(tuner, state._replace(pair_guesses=wary))


RULES: dict[type, TrustRule] = {
    Elastic: TrustRule(resized, _by_margin),
    Share: TrustRule(shared, _by_guesses),
    Power: TrustRule(capped, _by_slowdown),
    Balance: TrustRule(moved, _by_margin),
}
"""Rules by type of tuner; tuners of other types are run unchanged."""
