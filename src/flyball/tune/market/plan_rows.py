"""Reads the plan so far into a round of the market, and writes the plan of the round."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Reason
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel
from flyball.tune.market.draft import release

START, PREEMPT, CAP = int(ActionKind.START), int(ActionKind.PREEMPT), int(ActionKind.CAP)
IN_ORDER, SIZED, OVERDUE = int(Reason.IN_ORDER), int(Reason.SIZED), int(Reason.OVERDUE)
GREW, SHRANK, CHANGED = int(Reason.GREW), int(Reason.SHRANK), int(Reason.CHANGED_TYPE)
OUTBID = int(Reason.OUTBID)
ZERO = np.uint64(0)


@kernel
def take_over(state: Any, bench: Any, plan: Any) -> None:
    """Apply the plan so far, without its starts of bidders: their sizes are chosen here."""
    for at in range(len(plan)):
        action = plan[at]
        if action.kind == PREEMPT and is_bidder(bench, action.job):
            bidder = bench.bidders[bench.bidder_of[action.job]]
            bidder.locked, bidder.reason, bidder.gain = 0, action.reason, action.gain
            release(state, bench, bidder)
        elif action.kind == START and not is_bidder(bench, action.job):
            node = bench.nodes[action.node]
            node.mask = node.mask & ~action.mask
            free = bit_count(node.mask)
            bench.pools[state.nodes[action.node].pool].free += free - node.free
            node.free = free


@kernel
def is_bidder(bench: Any, job_id: int) -> bool:
    """Return whether a job bids in this round."""
    at = bench.bidder_of[job_id]
    return bool(at < bench.totals[0].bidders and bench.bidders[at].job == job_id)


@kernel
def write_plan(bench: Any, plan: Any) -> int:
    """Write the actions: preempt, start, then those of the plan that pass as they are.

    Returns:
        The number of actions.
    """
    size = pass_on(bench, plan, PREEMPT, 0)
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.was_pool >= 0 and not stays(bidder):
            size = add(bench, PREEMPT, bidder, -1, ZERO, size)
    size = pass_on(bench, plan, START, size)
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.pool >= 0 and not stays(bidder):
            for place_id in range(bidder.first_place, bidder.first_place + bidder.place_count):
                place = bench.places[place_id]
                size = add(bench, START, bidder, place.node, place.mask, size)
    for at in range(len(plan)):
        action = plan[at]
        if action.kind == START or action.kind == PREEMPT:
            continue
        capped = action.kind == CAP and is_bidder(bench, action.job)
        if not capped or stays(bench.bidders[bench.bidder_of[action.job]]):
            size = copy(bench, action, size)
    return size


@kernel
def pass_on(bench: Any, plan: Any, kind: int, size: int) -> int:
    """Copy the actions of a kind on jobs that do not bid; return the number of actions."""
    for at in range(len(plan)):
        if plan[at].kind == kind and not is_bidder(bench, plan[at].job):
            size = copy(bench, plan[at], size)
    return size


@kernel
def stays(bidder: Any) -> bool:
    """Return whether a bidder goes on where it was."""
    return bool(bidder.was_pool >= 0 and bidder.pool >= 0 and bidder.first_place < 0)


@kernel
def reason_of(bidder: Any, kind: int) -> int:
    """Return why a bidder is started, stopped or changed."""
    if kind == PREEMPT:
        if bidder.reason:
            return int(bidder.reason)
        if bidder.pool < 0:
            return OUTBID
    elif bidder.reason == OVERDUE:
        return OVERDUE
    elif bidder.was_pool < 0 or bidder.reason:
        return IN_ORDER if bidder.count == bidder.asked else SIZED
    if bidder.pool != bidder.was_pool:
        return CHANGED
    return GREW if bidder.count > bidder.was_count else SHRANK


@kernel
def add(bench: Any, kind: int, bidder: Any, node_id: int, mask: Any, size: int) -> int:
    """Add an action on a bidder; return the number of actions."""
    action = bench.out[size]
    action.kind, action.job, action.node, action.mask = kind, bidder.job, node_id, mask
    action.reason, action.gain = reason_of(bidder, kind), bidder.gain
    action.milli = MILLI_PER_DEVICE if kind == START else 0
    action.level = bidder.level if kind == START else 0
    return size + 1


@kernel
def copy(bench: Any, action: Any, size: int) -> int:
    """Add an action of the plan so far; return the number of actions."""
    copied = bench.out[size]
    copied.kind, copied.job, copied.node = action.kind, action.job, action.node
    copied.mask, copied.milli, copied.level = action.mask, action.milli, action.level
    copied.reason, copied.gain = action.reason, action.gain
    return size + 1
