"""Defines the scratch records of a round of the market, and keeps their memory between rounds.

Compiled code must not allocate, so a round is given its arrays. They mean nothing between rounds:
each thread keeps the last ones only to save the time of making them anew.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from flyball.core.records import ACTION, Records, records
from flyball.core.state import State

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Sizes an elastic job is offered: those that leave no odd remainder on nodes."""
MOST_SIZES = len(SIZES) + 2
"""Sizes of a job in one pool at most: these, the one it asked for and the one it has."""

TERMS = np.dtype(
    [
        ("eta", "f8"),  # as in `Elastic`, times in microseconds
        ("energy", "f8"),
        ("completion", "f8"),
        ("margin", "f8"),
        ("long", "f8"),
        ("long_us", "f8"),
        ("horizon_us", "f8"),
        ("gap_us", "f8"),
        ("patience_us", "f8"),
        ("stretch", "f8"),
        ("changes", "f8"),
        ("peak", "f8"),  # devices that load is forecast to ask for; below 0 = not forecast
    ],
    align=True,
)

BIDDER = np.dtype(
    [
        ("left_us", "f8"),  # estimated work left
        ("restart_us", "f8"),  # checkpoint and restart
        ("waited_us", "f8"),  # since it was submitted, or since its last start
        ("length_us", "f8"),  # estimated run time as asked
        ("unit", "f8"),  # reference device time in a second of its run as asked
        ("rank", "f8"),  # by work left, 1 = the largest
        ("index", "f8"),  # value of a microsecond of its work
        ("growth", "f8"),  # of that, what counts of work by devices beyond those asked for
        ("stay", "f8"),  # worth of going on as it is
        ("stop", "f8"),  # worth of not running: below 0 if it must restart
        ("surplus", "f8"),  # of its best option at the prices
        ("job", "i4"),
        ("kind", "i4"),
        ("worths", "i4"),  # place of its first option in `worths`, less that option's number
        ("best", "i4"),  # its best option at the prices, STAY or NONE
        ("pool", "i4"),  # where it will be; -1 = nowhere
        ("count", "i4"),
        ("was_pool", "i4"),  # where it is; -1 = nowhere
        ("was_count", "i4"),
        ("first_place", "i4"),  # its rows in `places`; -1 = where it was
        ("place_count", "i4"),
        ("reason", "i4"),
        ("mark", "i4"),  # of the search for victims that chose it
        ("asked", "i4"),
        ("preemptions", "i4"),  # so far
        ("gain", "f8"),  # in reference device time per time, for people
        ("level", "i4"),  # cap
        ("started", "u1"),  # ran before
        ("elastic", "u1"),
        ("locked", "u1"),  # must go on as it is: YOUNG, PAIRED or SPENT
    ],
    align=True,
)
"""An active job that uses whole devices."""

KIND = np.dtype(
    [
        ("shape_id", "i4"),
        ("curve", "i4"),
        ("job", "i4"),  # one of them
        ("jobs", "i4"),
        ("begin", "i4"),  # of its options
        ("end", "i4"),
        ("next", "i4"),  # next kind of the same shape
        ("frugal", "f8"),  # most progress per energy of its options
    ],
    align=True,
)
"""Equal jobs: they have the same options."""

OPTION = np.dtype(
    [
        ("rate", "f8"),
        ("grown", "f8"),  # part of the rate that devices beyond those asked for add
        ("watts", "f8"),
        ("pool", "i4"),
        ("count", "i4"),
    ],
    align=True,
)
"""A pool and a number of devices; those of a kind by pool, then by number."""

STEP_UP = np.dtype([("slope", "f8"), ("devices", "f8")], align=True)
"""Further devices of a job in a pool, and what each of them adds."""

DRAFT_NODE = np.dtype(
    [("mask", "u8"), ("cpu_milli", "i8"), ("host_mib", "i8"), ("free", "i4"), ("used", "i4")],
    align=True,
)
"""A node after the plan; `used` marks it as taken by the search for room."""

DRAFT_POOL = np.dtype(
    [
        ("price", "f8"),
        ("capacity", "f8"),  # devices that bidders hold or could hold
        ("supply", "f8"),  # of these, what is not held by jobs that must go on as they are
        ("weight", "f8"),  # speed of a device, over the fastest pool's
        ("jobs", "f8"),
        ("free", "i8"),
        ("blocked", "i8"),  # a gang of this size did not fit, and nothing was released since
        ("hopeless", "i8"),  # no room could be made for a gang of this size
        ("hopeless_loss", "f8"),  # though jobs might have lost this much
    ],
    align=True,
)

PLACE = np.dtype([("mask", "u8"), ("node", "i4")], align=True)
SORTED = np.dtype([("key", "f8"), ("tie", "i8")], align=True)
TOTALS = np.dtype(
    [
        ("bidders", "i8"),
        ("kinds", "i8"),
        ("places", "i8"),
        ("crowd", "f8"),  # bidders for each device
        ("mark", "i8"),
        ("watt_price", "f8"),
        ("drawn_w", "f8"),
        ("budget_w", "f8"),
        ("hosts", "i8"),
        ("now_us", "i8"),
    ],
    align=True,
)


class Bench(NamedTuple):
    """Holds the scratch arrays of a round."""

    totals: Records
    bidders: Records
    bidder_of: Any
    kinds: Records
    first_kind: Any
    options: Records
    by_cost: Any
    worths: Any
    densities: Any
    steps: Records
    order: Records
    nodes: Records
    pools: Records
    places: Records
    learned: Any
    seen: Any
    xs: Any
    ys: Any
    out: Records


_kept = threading.local()
"""By thread: the sizes that the last bench is for, and the bench."""


def bench_for(state: State, plan_size: int, least: int = 0) -> Bench:
    """Return arrays for a round in this state.

    Args:
        plan_size: actions of the plan so far.
        least: bidders that there must be room for.
    """
    clock = state.clock[0]
    active = max(least, int(clock.pending) + int(clock.running))
    sized = (state.jobs, state.pools, state.shapes, state.nodes, state.ranges, state.plan)
    sizes = tuple(len(array) for array in sized)
    kept: tuple[tuple[int, ...], Bench] | None = getattr(_kept, "bench", None)
    if kept is not None and kept[0] == sizes:
        enough = len(kept[1].out) >= len(state.plan) + plan_size
        if enough and len(kept[1].bidders) >= active:
            return kept[1]
    bench = _new_bench(state, min(len(state.jobs), active + active // 2 + 64), plan_size)
    _kept.bench = (sizes, bench)
    return bench


def _new_bench(state: State, bidders: int, plan_size: int) -> Bench:
    pools, curves = len(state.pools), len(state.ranges)
    devices = int((state.pools["nodes"] * state.pools["capacity"]).sum())
    return Bench(
        totals=records(1, TOTALS),
        bidders=records(bidders, BIDDER),
        bidder_of=np.zeros(len(state.jobs), np.int32),
        kinds=records(bidders, KIND),
        first_kind=np.zeros(len(state.shapes), np.int32),
        options=records(bidders * pools * MOST_SIZES, OPTION),
        by_cost=np.zeros(bidders * pools * MOST_SIZES, np.int32),
        worths=np.zeros(bidders * pools * MOST_SIZES, np.float64),
        densities=np.zeros(bidders * pools, np.float64),
        steps=records(bidders * pools * MOST_SIZES, STEP_UP),
        order=records(bidders, SORTED),
        nodes=records(len(state.nodes), DRAFT_NODE),
        pools=records(pools, DRAFT_POOL),
        places=records(4 * devices, PLACE),
        learned=np.zeros(curves * pools, np.float64),
        seen=np.zeros(curves * pools, np.float64),
        xs=np.zeros(pools * MOST_SIZES + 1, np.float64),
        ys=np.zeros(pools * MOST_SIZES + 1, np.float64),
        out=records(len(state.plan) + 2 * plan_size, ACTION),
    )
