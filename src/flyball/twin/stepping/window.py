"""Forks: small copies of a state that hold its active jobs and a window of arrivals.

A fork has its own, shorter tables of jobs, in the same order, so that ties are broken as before.
Jobs that ended or come after the window are left out: they cost nothing, neither here nor in any
later copy. One job behind the window is kept. It is never submitted there, but as long as it is
to come the cluster goes on: nodes fail and are repaired also while nothing runs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core import records as r
from flyball.core.codes import Status
from flyball.core.records import HEAP_OFFSET, Records, records
from flyball.core.state import State, assemble, blank_scratch
from flyball.physics.compile import entry, hot, kernel
from flyball.schedule import heap
from flyball.twin.build import blank_victims
from flyball.twin.curves import MAX_DEVICES
from flyball.twin.events import END_EVENT, KIND_BITS, RUNNING

HELD = int(Status.HELD)
Ints = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Describes what a fork holds of the twin that it was forked from.

    Attributes:
        until_us: end of its window; it cannot go further.
        job_ids: the numbers of its jobs in the twin that all forks come from.
    """

    until_us: int
    job_ids: Ints


@entry
def list_active(state: Any, out: Any) -> int:
    """Write the jobs that are pending, running or held by their array; return how many."""
    count = 0
    for at in range(state.clock[0].window_count):
        out[count] = state.window[at].tie
        count += 1
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        for at in range(shape.begin, shape.begin + shape.pending):
            out[count] = state.queue[at].tie
            count += 1
    for node_id in range(len(state.nodes)):
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            if state.runs[row.job].first_row == row_id:
                out[count] = row.job
                count += 1
            row_id = row.sibling
    for group_id in range(len(state.groups)):
        job_id = state.groups[group_id].head
        while job_id >= 0:
            out[count] = job_id
            count += 1
            job_id = state.runs[job_id].link
    return count


def fork_state(state: State, until_us: int) -> tuple[State, Ints, bool]:
    """Return a state of the active jobs and of those submitted up to `until_us`.

    Returns:
        The state, the numbers of its jobs in `state`, and whether no job comes after the window.
    """
    jobs, next_job = state.jobs, int(state.clock["next_job"][0])
    submit_us = jobs["submit_us"]
    beyond = bisect_right(range(len(jobs)), until_us, lo=next_job, key=submit_us.__getitem__)
    coming = np.arange(next_job, min(beyond + 1, len(jobs)))
    active = np.empty(next_job - int(state.clock["finished"][0]), np.int64)
    active = active[: list_active(state, active)]
    active.sort()
    if len(state.links):
        active = _with_held(state, active, coming)
    over = 0 if len(active) + len(coming) else 1
    if over:  # a table of jobs has at least one row
        active = np.array([len(jobs) - 1])
    job_ids = np.concatenate([active, coming])
    target = assemble(_tables(state, job_ids), FILLED)
    target.clock["next_job"], target.clock["finished"] = len(active), over
    transfer(state, target, job_ids, np.empty(len(state.rows), np.int32))
    return target, job_ids, beyond == len(jobs)


def _with_held(state: State, active: Ints, coming: Ints) -> Ints:
    """Return the active jobs with those that wait for one of them or for one of the window.

    A job that waits only for jobs after the window cannot start within it.
    """
    found = newest = np.concatenate([active, coming])
    status, links = state.runs["status"], state.links
    while len(newest):
        first, count = state.jobs["successors"][newest], state.jobs["successor_count"][newest]
        begins = np.repeat(first - (np.cumsum(count) - count), count)
        followers = np.unique(links[begins + np.arange(int(count.sum()))])
        held = followers[status[followers] == HELD]
        newest = np.setdiff1d(held, found)
        found = np.union1d(found, newest)
    return found[: len(found) - len(coming)].astype(np.int64)


FILLED = ("runs", "rows", "queue", "window", "events")
"""Arrays that are empty until `transfer` fills them."""


def _tables(state: State, job_ids: Ints) -> dict[str, Any]:
    """Return all arrays of a fork."""
    size, nodes = len(job_ids), len(state.nodes)
    table = records(size, r.JOB)
    np.take(state.jobs.view(np.ndarray), job_ids, out=table.view(np.ndarray), mode="clip")
    jobs = table.view(np.ndarray)
    rows = np.where(jobs["curve"] < 0, np.maximum(1, jobs["devices"]), MAX_DEVICES)
    held = int(rows.sum())
    most_rows, most_running = min(len(state.rows), held), min(len(state.victims), size)
    shapes = _shapes(state, jobs["shape_id"])
    arrays = state._asdict()
    del arrays["arena"]
    fresh = {
        "jobs": table,
        "runs": records(size, r.RUN),
        "rows": records(most_rows, r.ROW),
        "shapes": shapes,
        "queue": records(int(shapes.begin[-1]) + size, r.ENTRY),
        "window": records(min(len(state.window), size), r.WINDOW),
        "events": records(
            HEAP_OFFSET + min(len(state.events), most_running + most_running // 4 + nodes + 64),
            r.EVENT,
        ),
        "links": np.zeros(int(jobs["successor_count"].sum()), np.int32),
        "spreads": state.spreads[job_ids] if len(state.spreads) else state.spreads,
        "memos": _memos(state, job_ids),
        "learned": _by_pool(state.learned, state, job_ids),
        **blank_scratch(state),
        "victims": blank_victims(most_running, len(state.pools), len(state.avail) - 1),
        "plan": records(most_rows + 2 * most_running + 2 * nodes, r.ACTION),
    }
    return {**arrays, **fresh}


def _shapes(state: State, of_job: Any) -> Records:
    """Return the shapes, each with room for its jobs of the fork; `of_job` has theirs."""
    shapes = records(len(state.shapes), r.SHAPE)
    shapes[:] = state.shapes
    room = -(-np.bincount(of_job, minlength=len(shapes)) // 4) * 4 + 4
    shapes.begin = np.cumsum(room) - room + HEAP_OFFSET
    sample = np.full(len(shapes), -1)
    sample[of_job[::-1]] = np.arange(len(of_job))[::-1]
    shapes.shortest_us[sample < 0] = np.inf  # no job of the shape is left
    shapes["sample"] = np.maximum(0, sample)
    return shapes


def _memos(state: State, job_ids: Ints) -> Any:
    """Return the memos of the jobs and of the groups behind them."""
    memos, before = state.memos, len(state.jobs)
    if len(memos) == 1 and before > 1:
        return memos
    of_jobs = memos[job_ids]
    if len(memos) > before:
        for name in ("alike", "of_owner", "of_size"):
            of_jobs[name] -= before - len(job_ids)
    return np.concatenate([of_jobs, memos[before:]]).view(np.recarray)


def _by_pool(values: Any, state: State, job_ids: Ints) -> Any:
    """Return the rows of these jobs of a table by job and pool."""
    if not len(values):
        return values
    return values.reshape(-1, len(state.pools))[job_ids].ravel()


@hot
def number_of(job_ids: Any, job_id: int) -> int:
    """Return where a job is among the jobs of the fork, -1 = nowhere."""
    low, high = 0, len(job_ids)
    while low < high:
        middle = (low + high) // 2
        if job_ids[middle] < job_id:
            low = middle + 1
        else:
            high = middle
    return low if low < len(job_ids) and job_ids[low] == job_id else -1


@kernel
def transfer_jobs(source: Any, target: Any, job_ids: Any) -> None:
    """Copy what became of the jobs, and the links between those that are there."""
    end = 0
    for at in range(len(job_ids)):
        target.runs[at] = source.runs[job_ids[at]]
        job, run = target.jobs[at], target.runs[at]
        if run.link >= 0:
            run.link = number_of(job_ids, run.link)
        first, begin = job.successors, end
        for link in range(first, first + job.successor_count):
            follower = number_of(job_ids, source.links[link])
            if follower >= 0:
                target.links[end] = follower
                end += 1
        job.successors, job.successor_count = begin, end - begin


@kernel
def transfer_queue(source: Any, target: Any, job_ids: Any) -> None:
    """Copy the queue; the order of jobs is the same, so every heap stays one."""
    for shape_id in range(len(source.shapes)):
        shape, begin = source.shapes[shape_id], target.shapes[shape_id].begin
        for at in range(shape.pending):
            place, copy = source.queue[shape.begin + at], target.queue[begin + at]
            copy.key, copy.tie = place.key, number_of(job_ids, place.tie)
    for at in range(source.clock[0].window_count):
        target.window[at] = source.window[at]
        target.window[at].tie = number_of(job_ids, source.window[at].tie)


@kernel
def transfer_rows(source: Any, target: Any, job_ids: Any, places: Any) -> None:
    """Copy the rows in use to the front, and link the rest as free."""
    count = 0
    for node_id in range(len(source.nodes)):
        row_id = source.nodes[node_id].first_row
        while row_id >= 0:
            places[row_id] = count
            count += 1
            row_id = source.rows[row_id].sibling
    for node_id in range(len(source.nodes)):
        row_id = source.nodes[node_id].first_row
        if row_id >= 0:
            target.nodes[node_id].first_row = places[row_id]
        while row_id >= 0:
            row = source.rows[row_id]
            target.rows[places[row_id]] = row
            copy = target.rows[places[row_id]]
            copy.job = number_of(job_ids, row.job)
            if row.next >= 0:
                copy.next = places[row.next]
            if row.sibling >= 0:
                copy.sibling = places[row.sibling]
            if source.runs[row.job].first_row == row_id:
                target.runs[copy.job].first_row = places[row_id]
            row_id = row.sibling
    for at in range(count, len(target.rows)):
        target.rows[at].next = at + 1 if at + 1 < len(target.rows) else -1
    target.clock[0].free_row = count if count < len(target.rows) else -1


@kernel
def transfer_events(source: Any, target: Any, job_ids: Any) -> None:
    """Copy the events that are still due."""
    count = 0
    for at in range(source.clock[0].event_count):
        event = source.events[HEAP_OFFSET + at]
        tie = event.tie
        if tie >> KIND_BITS == END_EVENT:
            run = source.runs[tie]
            if run.status != RUNNING or run.end_us != event.key:
                continue  # stale
            tie = number_of(job_ids, tie)
        heap.push(target.events, HEAP_OFFSET, count, event.key, tie)
        count += 1
    target.clock[0].event_count = count


@entry
def transfer(source: Any, target: Any, job_ids: Any, places: Any) -> None:
    """Fill the tables of jobs of a fork.

    Args:
        source: the whole state.
        target: the fork, with everything else as in the source.
        job_ids: the jobs to copy, rising.
        places: scratch, as long as the source's rows.
    """
    transfer_jobs(source, target, job_ids)
    transfer_queue(source, target, job_ids)
    transfer_rows(source, target, job_ids, places)
    transfer_events(source, target, job_ids)
    for group_id in range(len(source.groups)):
        group, copy = source.groups[group_id], target.groups[group_id]
        copy.head, copy.tail = number_of(job_ids, group.head), number_of(job_ids, group.tail)
    clock = target.clock[0]
    clock.reserved_job = number_of(job_ids, clock.reserved_job)
    clock.first_live, clock.actions = 0, 0
