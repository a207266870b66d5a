"""Serves a policy: once an epoch it observes, chooses knobs, and guards the choice.

    governor = Governor(Net(read(path)), priorities)
    choice = governor.choose(seen)        # the incumbent's knobs if anything is wrong
    governor.settle()                     # the choice is on record

A choice falls back to the incumbent in the same decision if

- `unseen`: a number of the observation lies outside what the policy was trained on;
- `nan`, `out-of-range`: the output is not a number, or no action;
- `late`: it took longer than the limit (live only);
- `failed`: an error in the policy;
- `refused`: a trial an hour ahead in the twin shows a loss (`trial`);
- `suspended`: the losses that trials expected of its choices have added up to an epoch's worth of
  what the cluster spends. It stays so until the control plane starts again.

A governor is a function of what it was shown, so recorded choices can be made again; `late` alone
depends on the clock, and is taken from the record (`repeat`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyball.core.knobs import Knobs
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.learn.env.memory import Memory
from flyball.learn.env.pattern import pattern_of
from flyball.learn.env.spaces import (
    PRIORITIES,
    RESIDUALS,
    STRATEGIES,
    Action,
    Floats,
    Vector,
    knobs_of,
    number_names,
    strategy_mask,
    zero_action,
)
from flyball.learn.policy.attribution import Features, moved_by
from flyball.learn.policy.forward import Mask, Net, Output
from flyball.learn.policy.trial import Trial

UNSEEN_SLACK = 0.25
"""A number may lie outside the training range by this part of its width, and by `UNSEEN_LEAST`."""
UNSEEN_LEAST = 0.25
DECIMALS = 3
"""Of residuals: what is recorded is what is applied."""
REFUSED_BELOW = -0.1
"""Expected loss that a trial refuses, in parts of what the incumbent spends."""
SUSPENDED_BELOW = -1.0
"""Sum of expected losses at which the policy is suspended: an epoch's worth."""
LIMIT_S = 1.0
"""Time that a live choice may take before the incumbent goes on."""
FALLBACKS = ("unseen", "nan", "out-of-range", "late", "failed", "refused", "suspended")


class Seen(NamedTuple):
    """Holds what a choice depends on.

    Attributes:
        state: of the cluster, before the decision.
        knobs: in force so far.
        now_us: the instant.
        cluster: numbers of `stepping.fields.OBSERVATION`.
        outside: of price and carbon, `memory.Outside.numbers`.
    """

    state: State
    knobs: Knobs
    now_us: int
    cluster: Floats
    outside: Floats


@dataclass(frozen=True)
class Choice:
    """Holds a choice for an epoch.

    Attributes:
        epoch: its number: the instant over the length of an epoch.
        strategy, residuals: the action taken; that of the incumbent after a fall-back.
        fallback: why the policy's own action was not taken; "" = it was.
        detail: the same with numbers, for people.
        expected: gain that the trial expects, in parts of what the incumbent spends.
        features: what moved the choice most, each with its part.
    """

    epoch: int
    strategy: int
    residuals: tuple[float, ...]
    fallback: str = ""
    detail: str = ""
    expected: float = 0.0
    features: tuple[tuple[str, float], ...] = ()

    @property
    def action(self) -> Action:
        """Return the action taken."""
        return Action(self.strategy, np.array(self.residuals, np.float32))

    @property
    def knobs(self) -> Knobs:
        """Return the setting of the action."""
        return knobs_of(self.action)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is recorded; what is empty is left out."""
        values: dict[str, Any] = {"epoch": self.epoch, "strategy": STRATEGIES[self.strategy].name}
        moved = {
            residual.name: value
            for residual, value in zip(RESIDUALS, self.residuals, strict=True)
            if value
        }
        extra = {
            "residuals": moved,
            "fallback": self.fallback,
            "detail": self.detail,
            "expected": self.expected,
            "features": [list(feature) for feature in self.features],
        }
        return values | {name: value for name, value in extra.items() if value}


def choice_of(record: Mapping[str, Any]) -> Choice:
    """Return a choice from the result of `Choice.as_dict`."""
    moved = record.get("residuals", {})
    return Choice(
        int(record["epoch"]),
        [strategy.name for strategy in STRATEGIES].index(record["strategy"]),
        tuple(float(moved.get(residual.name, 0.0)) for residual in RESIDUALS),
        str(record.get("fallback", "")),
        str(record.get("detail", "")),
        float(record.get("expected", 0.0)),
        tuple((str(name), float(part)) for name, part in record.get("features", ())),
    )


def default_priorities(price: bool, carbon: bool) -> Floats:
    """Return the weights where nobody states any: time in the system and cost count alike."""
    values = dict.fromkeys(PRIORITIES, 0.0) | {"alpha": 1.0, "beta": 1.0}
    values["money"] = (0.5 if carbon else 1.0) if price else 0.0
    values["carbon"] = (0.5 if price else 1.0) if carbon else 0.0
    return np.array([values[name] for name in PRIORITIES])


class _FallBack(Exception):
    """The policy's own action is not taken."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class _Kept:
    """What a governor remembers from one choice on record to the next."""

    def __init__(self, epoch_s: float, net: Net) -> None:
        self.memory = Memory(1, epoch_s)
        self.h, self.c = net.h, net.c
        self.account = 0.0  # sum of expected losses
        self.suspended = False


class Governor:
    """Chooses knobs for one cluster.

    Attributes:
        priorities: what counts.
        counts: choices, and fall-backs by reason, since the start.
        last: the last choice on record.
    """

    def __init__(
        self,
        net: Net,
        priorities: Floats,
        limit_s: float | None = None,
        tries: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """
        Args:
            net: of the policy.
            priorities: see `spaces.PRIORITIES`.
            limit_s: time a choice may take; None = any, as on virtual clocks.
            tries: whether actions are tried in the twin first.
            clock: of the limit.
        """
        self.file, self.priorities = net.file, priorities
        self.epoch_us = to_us(net.file.epoch_s)
        self._net, self._limit_s, self._clock = net, limit_s, clock
        self._trial = Trial(priorities) if tries else None
        self._kept = self._next = _Kept(net.file.epoch_s, net)
        self._pending: Choice | None = None
        self._thread: threading.Thread | None = None
        self.counts: Counter[str] = Counter()
        self.last: Choice | None = None

    def due(self, now_us: int) -> bool:
        """Return whether a new epoch has begun since the last choice on record."""
        return self.last is None or now_us // self.epoch_us != self.last.epoch

    def choose(self, seen: Seen) -> Choice:
        """Return the choice for the epoch of an instant; `settle` makes it count."""
        return self._choose(seen, "")

    def repeat(self, seen: Seen, recorded: Choice) -> Choice:
        """Return the choice that is made again from what a recorded one was made of."""
        return self._choose(seen, recorded.detail if recorded.fallback == "late" else "")

    def settle(self) -> None:
        """Note that the last choice is on record."""
        if self._pending is not None:
            self._kept, self.last, self._pending = self._next, self._pending, None
            self.counts["choices"] += 1
            if self.last.fallback:
                self.counts[self.last.fallback] += 1

    # Inside ---------------------------------------------------------------------------

    def _choose(self, seen: Seen, late: str) -> Choice:
        self._next = deepcopy(self._kept)
        observation = self._next.memory.observe(
            np.zeros(1, np.int64),
            seen.cluster[None].astype(float),
            pattern_of(seen.state, seen.now_us)[None],
            seen.outside[None],
            self.priorities[None],
        )[0]
        epoch = seen.now_us // self.epoch_us
        try:
            if late:
                self._forget()
                raise _FallBack("late", late)
            if self._kept.suspended:
                raise _FallBack("suspended", "its expected losses added up to an epoch's worth")
            self._check_seen(observation)
            action, features, expected = self._decide(seen, observation)
            choice = Choice(epoch, action.strategy, tuple(_plain(action.residuals)), "", "",
                            expected, tuple(features))  # fmt: skip
            self._weigh(expected)
        except _FallBack as fallback:
            none = tuple(_plain(zero_action().residuals))
            choice = Choice(epoch, 0, none, fallback.reason, fallback.detail)
        self._pending = choice
        return choice

    def _check_seen(self, observation: Vector) -> None:
        """Fall back if a number is outside what the policy was trained on."""
        low, high = self._net.tensor("range.low"), self._net.tensor("range.high")
        slack = UNSEEN_SLACK * (high - low) + UNSEEN_LEAST
        outside = np.maximum(low - slack - observation, observation - high - slack)
        if not np.isfinite(outside).all() or outside.max() > 0:
            at = int(np.nanargmax(outside))
            raise _FallBack(
                "unseen",
                f"{number_names()[at]} is {observation[at]:.3g}; in training {low[at]:.3g} to "
                f"{high[at]:.3g}",
            )

    def _decide(self, seen: Seen, observation: Vector) -> tuple[Action, Features, float]:
        """Return the policy's action, what moved it, and what the trial expects of it."""
        began = self._clock()
        net, mask = self._net, strategy_mask(len(seen.state.pools))
        net.h, net.c = self._kept.h, self._kept.c
        action, features = self._in_time(lambda: self._think(net, observation, mask))
        self._next.h, self._next.c = net.h, net.c
        if self._trial is None or not (action.strategy or action.residuals.any()):
            return action, features, 0.0
        score = self._trial.score(seen.state, seen.knobs, seen.now_us, action)
        if self._limit_s is not None and self._clock() - began > self._limit_s:
            self._forget()
            raise _FallBack("late", f"its trial took more than {self._limit_s:g} s")
        if not score >= REFUSED_BELOW:
            raise _FallBack(
                "refused",
                f"{STRATEGIES[action.strategy].name}: in the twin, an hour of it is worth "
                f"{-score:.0%} less than the incumbent",
            )
        return action, features, round(score, DECIMALS)

    def _think(self, net: Net, observation: Vector, mask: Mask) -> tuple[Action, Features]:
        """Return the policy's action and what moved it; runs in a thread of its own if limited."""
        h, c = net.h, net.c
        try:
            out = net.forward(observation, mask)
            return _checked(out, mask), moved_by(net, observation, out, h, c)
        except _FallBack:
            raise
        except Exception as error:
            raise _FallBack("failed", f"{type(error).__name__}: {error}") from error

    def _weigh(self, expected: float) -> None:
        """Add to the account of expected losses; gains are not saved up."""
        kept = self._next
        kept.account = min(0.0, kept.account + expected)
        kept.suspended = kept.account < SUSPENDED_BELOW

    def _in_time(self, think: Callable[[], tuple[Action, Features]]) -> tuple[Action, Features]:
        """Return what `think` returns, unless it takes too long: then it is left to itself."""
        if self._limit_s is None:
            return think()
        if self._thread is not None and self._thread.is_alive():
            raise _FallBack("late", "an earlier choice has not come back yet")
        answer: list[Any] = []

        def work() -> None:
            try:
                answer.append(think())
            except _FallBack as fallback:
                answer.append(fallback)

        self._thread = threading.Thread(target=work, name="policy", daemon=True)
        self._thread.start()
        self._thread.join(self._limit_s)
        if not answer:
            self._forget()
            raise _FallBack("late", f"no answer within {self._limit_s:g} s")
        if isinstance(answer[0], _FallBack):
            raise answer[0]
        result: tuple[Action, Features] = answer[0]
        return result

    def _forget(self) -> None:
        """Go on with a new net: the old one may still be at work."""
        self._net = self._net.fresh()
        self._next = deepcopy(self._next)
        self._next.h, self._next.c = self._net.h, self._net.c


def _checked(out: Output, mask: Mask) -> Action:
    """Return the action of an output, or fall back."""
    if not (np.isfinite(out.q).all() and np.isfinite(out.residuals).all()):
        raise _FallBack("nan", "the policy's output is not a number")
    best = int(np.argmax(np.where(mask, out.q, -np.inf)))
    if out.residuals.shape != (len(RESIDUALS),) or np.abs(out.residuals).max() > 1.0:
        raise _FallBack("out-of-range", f"residuals up to {np.abs(out.residuals).max():.3g}")
    if out.q.shape != (len(STRATEGIES),):
        raise _FallBack("out-of-range", f"values of {out.q.shape} strategies")
    return Action(best, np.round(out.residuals, DECIMALS))


def _plain(residuals: Vector) -> list[float]:
    """Return residuals as they are recorded."""
    return [round(float(value), DECIMALS) + 0.0 for value in residuals]
