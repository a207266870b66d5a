"""Knobs: everything that can be set about a decision, with unit, range and meaning.

A policy is a preset of these. Enumerated knobs are dispatched by integer in the
kernel; continuous ones are what the learning agent and the gradient phase move.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from flyball.core.errors import BadInput, UnknownName
from flyball.core.records import CAP_LEVELS, Records, records
from flyball.core.share_knobs import Leftover as Leftover
from flyball.core.share_knobs import Optimum as Optimum
from flyball.core.share_knobs import Starts as Starts
from flyball.core.share_knobs import Turns as Turns
from flyball.core.share_knobs import Types as Types
from flyball.core.units import FOREVER_US, to_us

MEDIAN = 0.5
"""Level of a quantile knob at which a job's estimate counts as it is."""


class Order(IntEnum):
    """Which pending job comes first. Ties: first submitted."""

    SUBMIT = 0  # first come
    SHORTEST = 1  # least estimated run time
    AREA = 2  # least estimated run time x devices
    REMAINING = 3  # least estimated work left
    ATTAINED = 4  # queues by device time received
    SHARES = 5  # least served of its target share, in rounds; the policy sets the targets
    FAIR = 6  # the tenant with the least dominant share, now and recently; within its quota first
    HISTORY = 7  # least device time, as predicted from jobs of the same owner that ended
    INDEX = 8  # least estimated work left x devices ** `index_size`, with doubt about estimates


class Backfill(IntEnum):
    """What happens behind a job that does not fit."""

    STRICT = 0  # nothing: every job behind it waits
    SKIP = 1  # every job that fits starts
    EASY = 2  # every job that fits and does not delay the head's reservation starts


class Place(IntEnum):
    """Where a job that fits goes."""

    BEST_FIT = 0  # fewest whole devices left on the node; lowest index
    PACK = 1  # as best fit, but across pools the node with most devices in use
    SPREAD = 2  # most whole devices left on the node; lowest index
    FASTEST = 3  # fastest pool for this job, then best fit
    EFFICIENT = 4  # least energy per work for this job, then best fit
    HOLD = 5  # fastest free pool, but only if waiting would not pay (see `hold_s`)
    FGD = 6  # least growth of free capacity that the usual jobs cannot use
    RANDOM = 7  # any node where it fits, by a draw that is the same in every run


class Preempt(IntEnum):
    """Whether running jobs may be preempted."""

    NEVER = 0
    ROUNDS = 1  # at each round, a job may take devices from jobs well behind it


class Evict(IntEnum):
    """In which pool a pending job looks for running jobs to preempt first."""

    LISTED = 0  # in the order in which the cluster lists its pools
    FASTEST = 1  # in the pool that is fastest for the workload
    BEST = 2  # in the pool that is fastest for the pending job


class Span(IntEnum):
    """Whether a gang may span nodes."""

    WHOLE = 0  # a gang that fits a node waits for one; a larger one takes empty nodes
    ANY = 1  # a gang may gather devices from several nodes, at the network's price


def knob(default: Any, unit: str, low: float, high: float, meaning: str) -> Any:
    """Return a field of `Knobs` with its unit, range and meaning."""
    meta = {"unit": unit, "low": low, "high": high, "meaning": meaning}
    return field(default=default, metadata=meta)


def _choice(default: IntEnum, meaning: str) -> Any:
    kind = type(default)
    return knob(default, "|".join(choices(kind)), 0, len(kind) - 1, meaning)


def choices(kind: type[IntEnum]) -> list[str]:
    """Return the names of an enumerated knob's values, as users write them."""
    return [member.name.lower().replace("_", "-") for member in kind]


@dataclass(frozen=True)
class Knobs:
    """One setting of the decision kernel."""

    order: Order = _choice(Order.SUBMIT, "which pending job comes first")
    backfill: Backfill = _choice(Backfill.SKIP, "what happens behind a job that does not fit")
    place: Place = _choice(Place.BEST_FIT, "where a job that fits goes")
    preempt: Preempt = _choice(Preempt.NEVER, "whether running jobs may be set aside")
    span: Span = _choice(Span.WHOLE, "whether a gang that fits a node may span several")
    depth: int = knob(1000, "jobs", 1, 100_000, "how far a backfill scan looks down the queue")
    hold_s: float = knob(
        14_400.0,
        "s",
        0.0,
        1e9,
        "place=hold: use a pool only if it finishes within this much of the best pool",
    )
    ageing: float = knob(
        0.0, "s/s", 0.0, 1e6, "order: seconds of key that a second of waiting is worth"
    )
    priority_s: float = knob(
        1e12, "s", 0.0, 1e12, "order: seconds of key that one level of priority is worth"
    )
    round_s: float = knob(60.0, "s", 1.0, 86_400.0, "time between preemption rounds")
    margin_s: float = knob(
        60.0, "s", 0.0, 1e12, "preempt only jobs whose key is worse by more than this"
    )
    attained_s: float = knob(
        3_600.0, "device-s", 0.0, 1e12, "order=attained: device time after which a job is demoted"
    )
    cap: float = knob(1.0, "of the draw", 0.5, 1.0, "power cap of a running device (steps of 0.05)")
    sleep_s: float = knob(-1.0, "s", -1.0, 1e9, "idle time after which a node sleeps; -1 = never")
    solve_s: float = knob(
        0.0, "s", 0.0, 1e9, "order=shares: least time between two solutions for the targets"
    )
    attained2_s: float = knob(
        0.0, "device-s", 0.0, 1e12, "order=attained: demoted once more after this much; 0 = never"
    )
    promote: float = knob(
        0.0,
        "",
        0.0,
        1e9,
        "order=attained: first queue after waiting this many run times; 0 = never",
    )
    half_life_s: float = knob(
        86_400.0, "s", 1.0, 1e9, "order=fair: time in which past usage comes to count half"
    )
    order_quantile: float = knob(
        MEDIAN,
        "",
        0.01,
        0.99,
        "order=shortest, area, remaining, index: quantile of the predicted run time in keys",
    )
    backfill_quantile: float = knob(
        MEDIAN,
        "",
        0.01,
        0.99,
        "backfill=easy, place=hold, move_s: quantile of the run time that ends are expected by",
    )
    evict: Evict = _choice(
        Evict.LISTED, "preempt=rounds: in which pool jobs are preempted first for a pending one"
    )
    preempt_starts: int = knob(
        0,
        "starts",
        0,
        1_000_000,
        "preempt=rounds, except order=fair, shares: a job that started this often stays; 0 = off",
    )
    move_s: float = knob(
        0.0,
        "s",
        0.0,
        1e12,
        "preempt=rounds: a running job moves to a faster pool if that saves more; 0 = never",
    )
    move_starts: int = knob(
        16, "starts", 1, 1_000_000, "move_s: a job that started more often than this stays"
    )
    move_cost: float = knob(
        0.25,
        "of the estimate",
        0.0,
        1e6,
        "move_s: a job stays if its starts so far would cost more, each at checkpoint + restart",
    )
    index_size: float = knob(
        0.45, "", 0.0, 4.0, "order=index: power of the devices; 0 = ignored, 1 = device time"
    )
    index_slope: float = knob(
        1.0, "s/s", 0.0, 1.0, "order=index: work done reduces the estimated work left by this much"
    )
    index_floor: float = knob(
        0.1,
        "",
        1e-6,
        1e3,
        "order=index: least work left, as part of the estimate or of the work done, if more",
    )
    index_running: float = knob(
        0.75, "", 1e-3, 1e3, "order=index: factor on the key of a running job"
    )

    types: Types = _choice(Types.FASTEST, "order=shares: order in which a round fills the pools")
    shuffle_seed: int = knob(0, "", 0, 2**31 - 1, "types=shuffled: seed of the orders drawn")
    starts: Starts = _choice(Starts.ANY_TIME, "order=shares: when jobs may start")
    leftover: Leftover = _choice(
        Leftover.LAST, "order=shares: who gets what jobs with a target leave over"
    )
    turns: Turns = _choice(Turns.SHARE, "order=shares: whose turn it is in a pool")
    optimum: Optimum = _choice(
        Optimum.CORNER, "order=shares: which of several best divisions is taken"
    )

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            low, high = entry.metadata["low"], entry.metadata["high"]
            if not low <= value <= high:  # also refuses NaN
                raise BadInput(
                    f"knob {entry.name} = {value} is out of range",
                    f"use {low:g} to {high:g} ({entry.metadata['unit']})",
                )
        self._check_rounds()

    def _check_rounds(self) -> None:
        shares = self.order == Order.SHARES
        if shares and self.preempt != Preempt.ROUNDS:
            raise BadInput("order=shares works in rounds only", "set preempt=rounds")
        allowed = (Backfill.SKIP, Backfill.STRICT) if shares else (Backfill.SKIP,)
        scans = self.backfill not in allowed or self.place == Place.HOLD
        if self.preempt != Preempt.NEVER and scans:
            raise BadInput(
                "preempt=rounds does not go with this backfill or with place=hold",
                "use backfill=skip and another place rule",
            )
        if self.order == Order.FAIR and scans:
            raise BadInput(
                "order=fair does not go with this backfill or with place=hold",
                "use backfill=skip and another place rule",
            )
        if self.moves and self.order in (Order.SHARES, Order.FAIR):
            raise BadInput(
                "move_s does not go with order=shares, which places jobs itself, or order=fair",
                "set move_s=0 or use another order",
            )
        if 0 < self.attained2_s <= self.attained_s:
            raise BadInput(
                f"attained2_s = {self.attained2_s:g} is not above attained_s = {self.attained_s:g}",
                "raise it, or set it to 0",
            )

    @property
    def moves(self) -> bool:
        """Whether running jobs may move to faster pools."""
        return self.move_s > 0 and self.preempt == Preempt.ROUNDS

    @property
    def remembers(self) -> bool:
        """Whether the order needs a memo for every job."""
        promotes = self.order == Order.ATTAINED and self.promote > 0
        return promotes or self.order in (Order.FAIR, Order.HISTORY)

    @property
    def reads_spread(self) -> bool:
        """Whether a decision depends on more of a predicted run time than its median."""
        return self.order_quantile != MEDIAN or self.backfill_quantile != MEDIAN

    def with_settings(self, settings: list[str]) -> Knobs:
        """Return these knobs with `name=value` settings applied, as a user writes them.

        Raises:
            BadInput: an unknown knob or a value that does not parse or is out of range.
        """
        names = [entry.name for entry in fields(self)]
        changes: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            if not equals:
                raise BadInput(f"setting {setting!r} has no '='", "write --set knob=value")
            if name not in names:
                raise UnknownName("knob", name, names)
            changes[name] = _parse(name, type(getattr(self, name)), text.strip())
        return replace(self, **changes)

    def __repr__(self) -> str:
        return f"Knobs({', '.join(f'{name}={value}' for name, value in self.changed().items())})"

    def changed(self) -> dict[str, Any]:
        """Return the knobs that are not at their defaults, as plain values."""
        defaults = Knobs().as_dict()
        return {name: value for name, value in self.as_dict().items() if value != defaults[name]}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: choices by name, numbers as they are."""
        out: dict[str, Any] = {}
        for name, value in dataclasses.asdict(self).items():
            named = isinstance(value, IntEnum)
            out[name] = value.name.lower().replace("_", "-") if named else value
        return out

    def pack(self) -> Records:
        """Return these knobs as the one record the compiled kernel takes."""
        out = records(1, KNOBS)
        self.pack_into(out, 0)
        return out

    def pack_into(self, out: Records, at: int) -> None:
        """Write these knobs into one of several packed records."""
        values = self.__dict__ | {
            "hold_us": self.hold_s * 1e6,
            "round_us": to_us(self.round_s),
            "attained_us": self.attained_s * 1e6,
            "cap": min(CAP_LEVELS - 1, round((1.0 - self.cap) / 0.05)),
            "sleep_us": FOREVER_US if self.sleep_s < 0 else to_us(self.sleep_s),
            "solve_us": to_us(self.solve_s),
            "attained2_us": self.attained2_s * 1e6,
            "decay": math.log(2.0) / (self.half_life_s * 1e6),
            "move_us": self.move_s * 1e6 if self.moves else 0.0,
        }
        out[at] = tuple([values[name] for name in PACKED])


def _parse(name: str, kind: type[Any], text: str) -> Any:
    if issubclass(kind, IntEnum):
        names = choices(kind)
        if text.lower() not in names:
            raise UnknownName(f"value of knob {name}", text, names)
        return kind(names.index(text.lower()))
    try:
        return kind(text)
    except ValueError:
        raise BadInput(f"knob {name} = {text!r} is not a number", f"e.g. {name}=1") from None


KNOBS = np.dtype(
    [
        ("order", "i4"),
        ("backfill", "i4"),
        ("place", "i4"),
        ("preempt", "i4"),
        ("span", "i4"),
        ("depth", "i4"),
        ("cap", "i4"),
        ("hold_us", "f8"),
        ("ageing", "f8"),
        ("priority_s", "f8"),
        ("margin_s", "f8"),
        ("attained_us", "f8"),
        ("round_us", "i8"),
        ("sleep_us", "i8"),
        ("solve_us", "i8"),
        ("attained2_us", "f8"),
        ("promote", "f8"),
        ("decay", "f8"),  # of past usage, per microsecond
        ("evict", "i4"),
        ("move_starts", "i4"),
        ("preempt_starts", "i4"),  # 0 = no bound
        ("move_us", "f8"),  # 0 = no job moves
        ("move_cost", "f8"),
        ("index_size", "f8"),
        ("index_slope", "f8"),
        ("index_floor", "f8"),
        ("index_running", "f8"),
        ("order_quantile", "f8"),
        ("backfill_quantile", "f8"),
        ("types", "i4"),
        ("starts", "i4"),
        ("leftover", "i4"),
        ("turns", "i4"),
        ("shuffle_seed", "i8"),
    ],
    align=True,
)
PACKED = KNOBS.names or ()
