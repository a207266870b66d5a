"""The interface between environments, agents and what serves a policy.

    parts = split(observation)           # {"pattern": (5, 8, 8), "queue": (4, 6, 5), ...}
    strategy, residuals = actor.act(parts)
    rows = ActionRows(strategies, residuals)     # knobs of many twins at once

An observation is one vector of float32 made of named parts of fixed shape (`LAYOUT`), the same on
every cluster. An action is a strategy (a set of choices of the decision kernel) and a residual
in -1..1 for each of some continuous knobs. **The zero action is the incumbent**: strategy 0 with
all residuals 0 is exactly the setting `tuned`.

A policy file is `NAME.safetensors` beside `NAME.json`, its card; `flyball.learn.policy.artifact`
reads and writes both. Nothing here imports torch or gymnasium.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from flyball.core.codes import CLASS_LABELS
from flyball.core.knobs import KNOBS, Knobs, Order, Place, Preempt
from flyball.core.records import records
from flyball.schedule.policies.tuned import POLICY as TUNED
from flyball.twin.stepping.fields import OBSERVATION_SIZE as CLUSTER_SIZE
from flyball.twin.stepping.fields import OBSERVATION_VERSION as CLUSTER_VERSION
from flyball.twin.stepping.rows import PACKED_AS, KnobRows

Vector = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

VERSION = 1
"""Raised whenever a part, a strategy or a residual changes in any way."""
BOUND = 10.0
"""Every number of an observation lies within this of 0."""

# What is seen -------------------------------------------------------------------------

NODE_STATES = ("idle", "asleep", "partly used", "full", "down")
TYPES_SEEN = 8
"""Pools in the resource pattern: those with the most devices, largest first."""
RELEASE_S = (0.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0)
"""Upper bounds of the time to a device's expected release, by column; the last column is later."""
RELEASES = len(RELEASE_S) + 1
SIZES = (1, 4, 8)
"""Upper bounds of the devices a pending job asks for; the last row is more."""
CLASSES = len(CLASS_LABELS) + 1
"""Workload classes, and "not stated"."""
LENGTHS_S = (600.0, 3_600.0, 21_600.0, 86_400.0)
"""Upper bounds of a pending job's estimated run time; the last column is more."""
SUBJECTS = ("price", "carbon", "load")
AHEAD_H = (1, 2, 4, 8, 16, 24)
BANDS = ("low", "middle", "high")
RECENT_EPOCHS = 8
RECENT = (
    "offered", "arrivals", "starts", "ends", "preemptions", "used", "pending_work", "power",
    "price", "carbon",
)  # fmt: skip
PRIORITIES = (
    "alpha", "beta", "gamma", "money", "carbon", "completion", "fairness", "power",
)  # fmt: skip


class Part(NamedTuple):
    """Describes a part of the observation.

    Attributes:
        shape: fixed.
        meaning: of the axes and the numbers.
    """

    name: str
    shape: tuple[int, ...]
    meaning: str

    @property
    def size(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)


LAYOUT = (
    Part(
        "pattern",
        (len(NODE_STATES), TYPES_SEEN, RELEASES),
        "state of the node x pool x expected release: part of the pool's devices",
    ),
    Part(
        "queue",
        (len(SIZES) + 1, CLASSES, len(LENGTHS_S) + 1),
        "devices asked for x class x estimated run time: log1p(devices that pending jobs ask for "
        "/ devices of the cluster)",
    ),
    Part("cluster", (CLUSTER_SIZE,), "the numbers of docs/concept/stepping.md"),
    Part(
        "forecast",
        (len(SUBJECTS), len(AHEAD_H), len(BANDS)),
        "subject x hours ahead x band (5, 50, 95 %): price and carbon over their mean of the "
        "coming day, load in parts of the devices; 0 = not forecast",
    ),
    Part(
        "recent",
        (RECENT_EPOCHS, len(RECENT)),
        "the last epochs, latest first: numbers of `cluster` at their ends",
    ),
    Part(
        "priorities",
        (len(PRIORITIES),),
        "weights of throughput, energy efficiency and balance; shares of money and carbon in the "
        "cost; multipliers of constraints on completion, fairness and power",
    ),
)
"""Every part of an observation, in order."""
SIZE = sum(part.size for part in LAYOUT)
SLICES: dict[str, slice] = {}
for _part in LAYOUT:
    _first = max((part.stop for part in SLICES.values()), default=0)
    SLICES[_part.name] = slice(_first, _first + _part.size)


def split(observation: Vector) -> dict[str, Vector]:
    """Return the parts of an observation (or of a batch: the last axis is split), as views."""
    lead = observation.shape[:-1]
    return {
        part.name: observation[..., SLICES[part.name]].reshape(*lead, *part.shape)
        for part in LAYOUT
    }


def join(parts: Mapping[str, Any]) -> Vector:
    """Return the vector of some parts; those that are missing are 0."""
    out = np.zeros(SIZE, np.float32)
    for name, values in parts.items():
        out[SLICES[name]] = np.asarray(values, np.float32).reshape(-1)
    return out


def number_names() -> list[str]:
    """Return a name for every number of an observation, for people."""
    from flyball.twin.stepping.fields import OBSERVATION

    sizes = [*(f"<={size}" for size in SIZES), f">{SIZES[-1]}"]
    releases = ["free", *(f"<={_time(bound)}" for bound in RELEASE_S[1:]), "later"]
    lengths = [*(f"<={_time(bound)}" for bound in LENGTHS_S), "longer"]
    classes = [*(str(label) for label in CLASS_LABELS), "no class"]
    axes: dict[str, tuple[list[str], ...]] = {
        "pattern": (list(NODE_STATES), [f"pool {n}" for n in range(TYPES_SEEN)], releases),
        "queue": ([f"{size} devices" for size in sizes], classes, lengths),
        "cluster": ([field.name for field in OBSERVATION],),
        "forecast": (list(SUBJECTS), [f"in {hours} h" for hours in AHEAD_H], list(BANDS)),
        "recent": ([f"{n + 1} epochs ago" for n in range(RECENT_EPOCHS)], list(RECENT)),
        "priorities": (list(PRIORITIES),),
    }
    names: list[str] = []
    for part in LAYOUT:
        for index in np.ndindex(*part.shape):
            labels = [axis[at] for axis, at in zip(axes[part.name], index, strict=True)]
            names.append(f"{part.name}: {', '.join(labels)}")
    return names


def _time(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds < 3600 else f"{seconds / 3600:g} h"


# What is done -------------------------------------------------------------------------

INCUMBENT: Knobs = TUNED.knobs
"""The setting that the zero action keeps."""


@dataclass(frozen=True)
class Strategy:
    """A set of choices of the decision kernel.

    Attributes:
        name: as users see it.
        about: what it is for.
        knobs: the setting that residuals are added to.
    """

    name: str
    about: str
    knobs: Knobs


def _like(name: str, about: str, **changes: Any) -> Strategy:
    return Strategy(name, about, replace(INCUMBENT, **changes))


STRATEGIES = (
    _like("incumbent", "the setting `tuned` as it is"),
    _like("fastest", "each job in its fastest free pool", place=Place.FASTEST),
    _like("pack", "fewest nodes in use, so that others stay empty", place=Place.PACK),
    _like("stay", "nobody is preempted: no restarts", preempt=Preempt.NEVER),
    _like("short-first", "least time left, whatever the size", index_size=0.0),
    _like("area", "least device time left", index_size=1.0),
    _like("attained", "least device time received: estimates are not trusted",
          order=Order.ATTAINED, margin_s=1e9, attained_s=3_250.0, move_s=0.0),
    _like("remaining", "least work left, as if estimates were exact", order=Order.REMAINING),
)  # fmt: skip
"""What a policy chooses among; the first is the incumbent."""


@dataclass(frozen=True)
class Residual:
    """A continuous knob and how far a residual moves it.

    From the value of the strategy at 0, a residual goes to `low` at -1 and to `high` at 1; on a
    logarithmic scale if `log`. Where the value is at an end already, or outside, nothing changes.

    Attributes:
        name: of the knob.
        about: what it is for.
    """

    name: str
    low: float
    high: float
    log: bool
    about: str

    def values(self, base: float, residuals: Floats) -> Floats:
        """Return the knob's values for some residuals, from a strategy's value."""
        if self.name == "sleep_s":
            return _sleep_values(self, residuals)
        if not self.low <= base <= self.high:
            return np.full_like(residuals, base)
        ends = np.where(residuals < 0, self.low, self.high)
        part = np.abs(residuals)
        if self.log:
            moved = base * np.exp(part * np.log(ends / base))
        else:
            moved = base + part * (ends - base)
        return np.where(residuals == 0.0, base, np.clip(moved, self.low, self.high))


RESIDUALS = (
    Residual("cap", 0.5, 1.0, False, "power cap of every running job"),
    Residual("sleep_s", 60.0, 7_200.0, True, "above 0: idle nodes sleep, the sooner the higher"),
    Residual("index_size", 0.0, 1.0, False, "how far wide jobs come later"),
    Residual("index_slope", 0.0, 1.0, False, "how far work done brings a job forward"),
    Residual("index_floor", 0.02, 2.0, True, "least work left that a job counts with"),
    Residual("index_running", 0.4, 1.2, False, "lead of running jobs over pending ones"),
    Residual("margin_s", 1.0, 7_200.0, True, "lead that a job needs to preempt another"),
    Residual("move_s", 5.0, 14_400.0, True, "time that a move to a faster pool must save"),
    Residual("move_cost", 0.02, 2.0, True, "part of its run time that a job's restarts may cost"),
    Residual("ageing", 0.0, 2.0, False, "above 0: waiting brings a job forward"),
)
"""What a policy adjusts; a residual of 0 keeps the strategy's value."""


def _sleep_values(residual: Residual, residuals: Floats) -> Floats:
    """Return -1 (never) up to 0, then from two hours down to a minute."""
    part = np.clip(residuals, 0.0, 1.0)
    ratio = residual.low / residual.high
    return np.where(residuals > 0.0, residual.high * ratio**part, -1.0)


class Action(NamedTuple):
    """What a policy decides for the next epoch.

    Attributes:
        strategy: index in `STRATEGIES`.
        residuals: one in -1..1 per entry of `RESIDUALS`.
    """

    strategy: int
    residuals: Vector


def zero_action() -> Action:
    """Return the action that keeps the incumbent."""
    return Action(0, np.zeros(len(RESIDUALS), np.float32))


class Actor(Protocol):
    """Chooses actions, epoch by epoch. It may remember what it saw since `reset`."""

    def reset(self) -> None:
        """Forget what was seen: another run begins."""

    def act(self, observation: Mapping[str, Vector]) -> Action:
        """Return the action for the next epoch."""


def knobs_of(action: Action) -> Knobs:
    """Return the setting that an action asks for.

    Raises:
        BadInput: a number out of range.
    """
    return ActionRows(np.array([action.strategy]), np.array([action.residuals], np.float64))[0]


class ActionRows(KnobRows):
    """Holds the setting of an action per row, packed for `step_many`.

    Attributes:
        strategies, residuals: the actions.
    """

    def __init__(self, strategies: npt.ArrayLike, residuals: npt.ArrayLike) -> None:
        """
        Args:
            strategies: an index per row.
            residuals: a row each; clipped to -1..1.
        """
        self.strategies = np.asarray(strategies, np.int64)
        self.residuals = np.clip(np.asarray(residuals, np.float64), -1.0, 1.0)
        assert self.residuals.shape == (len(self.strategies), len(RESIDUALS))
        self.base = INCUMBENT
        self.packed = records(len(self.strategies), KNOBS)
        self.changes = np.ones(len(self.strategies), np.bool_)
        for strategy in np.unique(self.strategies).tolist():
            rows = np.flatnonzero(self.strategies == strategy)
            self._pack(rows, STRATEGIES[strategy].knobs)

    def _pack(self, rows: Ints, knobs: Knobs) -> None:
        packed = self.packed.view(np.ndarray)
        packed[rows] = knobs.pack().view(np.ndarray)[0]
        for at, residual in enumerate(RESIDUALS):
            if residual.name == "move_s" and not knobs.moves:
                continue
            moved = rows[self.residuals[rows, at] != 0.0]
            if len(moved):
                base = float(getattr(knobs, residual.name))
                field, convert = PACKED_AS[residual.name]
                packed[field][moved] = convert(residual.values(base, self.residuals[moved, at]))

    def __len__(self) -> int:
        return len(self.strategies)

    def __getitem__(self, at: int) -> Knobs:
        """Return one setting."""
        knobs = STRATEGIES[int(self.strategies[at])].knobs
        changes: dict[str, Any] = {}
        for residual, value in zip(RESIDUALS, self.residuals[at], strict=True):
            if value != 0.0 and (residual.name != "move_s" or knobs.moves):
                base = float(getattr(knobs, residual.name))
                changes[residual.name] = float(residual.values(base, np.array([value]))[0])
        return replace(knobs, **changes)


def strategy_mask(pools: int) -> npt.NDArray[np.bool_]:
    """Return which strategies differ from others on a cluster with so many pools."""
    mask = np.ones(len(STRATEGIES), np.bool_)
    if pools < 2:  # nothing is faster than anything else
        mask[[strategy.name == "fastest" for strategy in STRATEGIES]] = False
    return mask


def residual_mask(strategy: int, pools: int) -> npt.NDArray[np.bool_]:
    """Return which residuals change anything under a strategy."""
    knobs = STRATEGIES[strategy].knobs
    idle = set()
    if knobs.order != Order.INDEX:
        idle |= {"index_size", "index_slope", "index_floor", "index_running"}
    if knobs.preempt == Preempt.NEVER:
        idle |= {"margin_s"}
    if not knobs.moves or pools < 2:
        idle |= {"move_s", "move_cost"}
    for residual in RESIDUALS:
        if residual.name != "sleep_s":
            base = float(getattr(knobs, residual.name))
            idle |= set() if residual.low <= base <= residual.high else {residual.name}
    return np.array([residual.name not in idle for residual in RESIDUALS])


@cache
def layout_digest() -> str:
    """Return a digest of all that a policy file depends on: parts, strategies, residuals."""
    content = {
        "version": VERSION,
        "cluster": CLUSTER_VERSION,
        "parts": [(part.name, part.shape) for part in LAYOUT],
        "strategies": [(strategy.name, strategy.knobs.as_dict()) for strategy in STRATEGIES],
        "residuals": [(r.name, r.low, r.high, r.log) for r in RESIDUALS],
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
