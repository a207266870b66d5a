"""Adapts a state to other knobs during a run: bigger arrays, other shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core import records as r
from flyball.core.accounts import own_rows
from flyball.core.codes import Status
from flyball.core.errors import BadInput
from flyball.core.grouping import group_rows
from flyball.core.knobs import Knobs, Order
from flyball.core.records import Records, records
from flyball.core.state import STALE, State, assemble
from flyball.schedule.history import relearn
from flyball.twin import kernel
from flyball.twin.build import window_size
from flyball.twin.round_length import refuse_short_rounds
from flyball.twin.tables.peers import blank_memos
from flyball.twin.tables.shapes import lay_out
from flyball.twin.tables.spread import set_stretches
from flyball.twin.tables.tenants import refuse_beyond_limit
from flyball.twin.tables.usual import score_cache


def rebuild(state: State, old: Knobs, new: Knobs) -> State:
    """Return the state with all that depends on knobs rebuilt, whatever they change.

    `twin/stepping/knobs.py` does the same faster where no array must grow or be regrouped.

    Raises:
        BadInput: from or to order = shares, a job that could never start any more, or rounds in
            which jobs might never progress.
    """
    if (new.order == Order.SHARES) != (old.order == Order.SHARES):
        raise BadInput("order=shares cannot be set or left during a run", "build a new twin")
    refuse_short_rounds(state.clock, state.pools, new)
    state = refit(state, old, new)
    if new.order == Order.HISTORY and new.order != old.order:
        relearn(state, ended_in_order(state))
    scores = score_cache(new, len(state.shapes), len(state.nodes))
    if scores.shape != state.scores.shape:
        state = state._replace(scores=scores)
    kernel.rebuild_queue(state, old.pack(), new.pack())
    return state


def refit(state: State, old: Knobs, new: Knobs) -> State:
    """Return the state with the arrays that `new` needs; the same one if it has them already.

    The caller must refill the queue.

    Raises:
        BadInput: a job that its tenant's limit would never let start.
    """
    changes: dict[str, Any] = {}
    jobs = len(state.jobs)
    if window_size(new, jobs) > len(state.window):
        changes["window"] = records(window_size(new, jobs), state.window.dtype)
        changes["window"][: len(state.window)] = state.window
    if new.order != old.order or (new.remembers and not old.remembers):
        changes["memos"] = blank_memos(state.jobs, new)
        changes["memos"].queued_us = state.clock[0].now_us
    if (new.order == Order.FAIR) != (old.order == Order.FAIR):
        changes |= _regrouped(state, new.order == Order.FAIR)
    if new.order == Order.FAIR:
        refuse_beyond_limit(own_rows(state.tenants, len(state.pools)), state.jobs)
    if _quantiles(new) != _quantiles(old):
        jobs_before = changes.get("jobs", state.jobs)
        changes["jobs"] = records(jobs, r.JOB)  # new ones, as clones share them
        changes["jobs"][:] = jobs_before
        set_stretches(changes["jobs"], state.spreads, new)
        state.avail[0].fill(STALE)
    if not changes:
        return state
    arrays = {**state._asdict(), **changes}
    del arrays["arena"]
    return assemble(arrays)


def _quantiles(knobs: Knobs) -> tuple[float, float]:
    return knobs.order_quantile, knobs.backfill_quantile


def _regrouped(state: State, by_tenant: bool) -> dict[str, Records]:
    """Return jobs, shapes and an empty queue, with or without the tenant in the shape."""
    before: Any = state.shapes[state.jobs.shape_id]
    asked = ("devices", "milli", "memory_mib", "cpu_milli", "host_mib", "profile")
    columns = [before[name] for name in asked]
    columns.append(before.pools.view(np.int64))
    if by_tenant:
        columns.append(state.jobs.tenant)
    groups = group_rows(*columns)
    jobs = records(len(state.jobs), r.JOB)
    jobs[:] = state.jobs
    jobs.shape_id = groups.of_row
    shapes = records(len(groups.first), r.SHAPE)
    shapes[:] = before[groups.first]
    lay_out(shapes, groups)
    queue = records(int(shapes.begin[-1]) + len(jobs), r.ENTRY)
    return {"jobs": jobs, "shapes": shapes, "queue": queue}


def ended_in_order(state: State) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the jobs that ended, first to last; ties by index."""
    ended = np.flatnonzero(state.runs.status >= Status.DONE)
    order: np.ndarray[Any, np.dtype[np.int64]] = ended[
        np.argsort(state.runs.end_us[ended], kind="stable")
    ]
    return order
