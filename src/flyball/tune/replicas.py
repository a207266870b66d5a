"""Chooses the number of replicas of a service by forecast, recent peak and a learned margin.

The rate to provide for is that at `now + start-up`: the upper quantile of its forecast, but not
less than the highest rate seen, which decays slowly (requests that stop all at once come back all
at once). No fixed quantile keeps a target, since the next week is not like the last; so the rate is
multiplied by a margin that is learned while serving: in logarithms

    margin <- margin + gain * weight * (share of late requests - share allowed)

which in the long run brings the share of late requests to what is allowed, whatever the load
(adaptive conformal inference, Gibbs and Candes 2021): it is off by at most
(last margin - first margin) / (gain * rounds). The caller keeps what must be remembered, in
`MEMORY`; nothing here has a state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import Records, records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import S_PER_MIN, US_PER_S
from flyball.physics.serving import USUAL, Target
from flyball.tune.plan_draft import PlanDraft

MEMORY = np.dtype(
    [
        ("margin", "f8"),  # ln of the factor on the rate
        ("level_rps", "f8"),  # highest rate seen, decaying
        ("usual_rps", "f8"),  # mean rate over about a day
        ("asked_us", "i8"),  # when the last request came
        ("known", "u1"),  # 0 = nothing was learned yet
    ],
    align=True,
)
"""What must be remembered between rounds, one row per service."""

OUTCOME = np.dtype(
    [
        ("now_us", "i8"),
        ("span_us", "i8"),  # length of the round
        ("arrived", "f8"),  # requests
        ("started", "f8"),  # answers begun
        ("late", "f8"),  # of these: waited longer than the target
    ],
    align=True,
)
"""Result of a round, one row per service."""


@dataclass(frozen=True)
class Settings:
    """Holds the settings of autoscaling.

    Attributes:
        target: the latency target to keep.
        spared: part of the allowed late requests held in reserve for later.
        gain: what a round of only late requests adds to the logarithm of the margin, per minute.
        first_margin: margin before anything was learned.
        margins: least and greatest margin.
        half_life_s: time after which the highest rate seen counts half.
        usual_s: time over which the usual rate is averaged.
        step_down: scale down only if that frees more than this part of the replicas.
        level: quantile of the forecast of requests to provide for.
        to_zero: no replicas at all after `idle_s` without a request; else at least one.
        idle_s: time without a request after which a service counts as idle.
    """

    target: Target = USUAL
    spared: float = 0.15
    gain: float = 0.006
    first_margin: float = 1.2
    margins: tuple[float, float] = (0.7, 4.0)
    half_life_s: float = 50 * S_PER_MIN
    usual_s: float = 1440 * S_PER_MIN
    step_down: float = 0.02
    level: float = 0.95
    to_zero: bool = False
    idle_s: float = 30 * S_PER_MIN


DEFAULT = Settings()


def fresh(services: int, settings: Settings = DEFAULT) -> Records:
    """Return the memory of services that have not served a round yet."""
    memory = records(services, MEMORY)
    memory["margin"] = math.log(settings.first_margin)
    return memory


def learn(memory: Records, outcome: Records, settings: Settings = DEFAULT) -> Records:
    """Return the memory after a round: the margin rises if the target was missed, else falls."""
    after = memory.copy()
    old, new, came = (rows.view(np.ndarray) for rows in (memory, after, outcome))
    span_s = came["span_us"] / US_PER_S
    rate = came["arrived"] / span_s
    # 1. The highest rate decays, the usual one follows.
    fade = 0.5 ** (span_s / settings.half_life_s)
    new["level_rps"] = np.maximum(rate, old["level_rps"] * fade)
    part = np.minimum(1.0, span_s / settings.usual_s)
    usual = old["usual_rps"] + part * (rate - old["usual_rps"])
    new["usual_rps"] = np.where(old["known"] == 1, usual, rate)
    # 2. Each request counts the same, so busy rounds weigh more.
    started = came["started"]
    late = np.divide(came["late"], started, out=np.zeros_like(rate), where=started > 0)
    weight = started / np.maximum(new["usual_rps"] * span_s, 1.0)
    allowed = (1.0 - settings.spared) * (1.0 - settings.target.share)
    step = settings.gain * span_s / S_PER_MIN * weight * (late - allowed)
    low, high = (math.log(margin) for margin in settings.margins)
    new["margin"] = np.clip(old["margin"] + step, low, high)
    new["asked_us"] = np.where(came["arrived"] > 0, came["now_us"], old["asked_us"])
    new["known"] = 1
    return after


def wanted(
    upper_rps: Floats,
    memory: Records,
    ordered: Ints,
    carried: Floats,
    now_us: int,
    settings: Settings = DEFAULT,
) -> Ints:
    """Return the number of replicas for each service.

    Args:
        upper_rps: the upper quantile of the rate at now + start-up.
        memory: the memory of the services.
        ordered: replicas they have, including those that are starting.
        carried: rates that 0, 1, ... replicas carry, never falling; a row per service.
        now_us: the instant.
        settings: the same for all services.
    """
    rows = memory.view(np.ndarray)
    rate = np.maximum(upper_rps, rows["level_rps"]) * np.exp(rows["margin"])
    pairs = zip(carried, rate, strict=True)
    counts = np.array([np.searchsorted(row, rps) for row, rps in pairs], np.int64)
    counts = np.minimum(counts, carried.shape[1] - 1)
    # A small step down is not worth the start-up that may follow it.
    small = (counts < ordered) & (ordered - counts <= settings.step_down * ordered)
    counts = np.maximum(np.where(small, ordered, counts), 1)
    idle = (now_us - rows["asked_us"] >= settings.idle_s * US_PER_S) & (upper_rps <= 0)
    return np.where(settings.to_zero & idle, 0, counts)


@dataclass(frozen=True)
class Replicas:
    """Scales one service automatically, as a tuner.

    Attributes:
        group: the service's row of `state.groups`.
        devices: devices of a replica.
        startup_s: start-up time of a replica.
        carried: rates that 0, 1, ... replicas carry (`physics.serving.Queue.carried`).
        memory: one row, as `learn` left it after the last round.
    """

    group: int
    devices: int
    startup_s: float
    carried: Floats
    memory: Records
    settings: Settings = DEFAULT

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Change the number of replicas if necessary; the gain is in devices freed."""
        draft = PlanDraft(state, plan)
        have = int(state.groups["limit"][self.group])
        count = wanted(
            np.array([self._upper(outlook.requests.get(self.group))]),
            self.memory,
            np.array([have]),
            self.carried[None, :],
            draft.now_us,
            self.settings,
        )[0]
        if count == have:
            return plan
        draft.replicas(self.group, int(count), float((have - count) * self.devices))
        return draft.plan()

    def _upper(self, requests: Forecast | None) -> float:
        """Return the upper quantile at now + start-up; 0 without a forecast."""
        return 0.0 if requests is None else requests.at(self.settings.level, self.startup_s)
