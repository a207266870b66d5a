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
from flyball.twin.events import END_EVENT, KIND_BITS, RUNNING
from flyball.twin.tables.curves import MAX_DEVICES

HELD, PENDING = int(Status.HELD), int(Status.PENDING)
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
def list_active(state: Any, out: Any, spare: Any, starts: Any) -> int:
    """Write the jobs that are pending, running or held by their array, rising.

    Args:
        state: the whole state.
        out: becomes the jobs.
        spare: room for as many.
        starts: room for `SORT_BUCKETS` numbers.

    Returns:
        How many there are.
    """
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
    sort_jobs(out, spare, starts, count)
    return count


SORT_BITS = 11
SORT_BUCKETS = 1 << SORT_BITS


@kernel
def sort_jobs(job_ids: Any, spare: Any, starts: Any, count: int) -> None:
    """Sort job numbers by their bits, the lowest first: a few passes, whatever their order."""
    highest = 0
    for at in range(count):
        highest = max(highest, job_ids[at])
    shift = 0
    while highest >> shift > 0:
        for bucket in range(SORT_BUCKETS):
            starts[bucket] = 0
        for at in range(count):
            starts[(job_ids[at] >> shift) & (SORT_BUCKETS - 1)] += 1
        end = 0
        for bucket in range(SORT_BUCKETS):
            size = starts[bucket]
            starts[bucket] = end
            end += size
        for at in range(count):
            bucket = (job_ids[at] >> shift) & (SORT_BUCKETS - 1)
            spare[starts[bucket]] = job_ids[at]
            starts[bucket] += 1
        for at in range(count):
            job_ids[at] = spare[at]
        shift += SORT_BITS


def fork_state(state: State, until_us: int) -> tuple[State, Ints, bool]:
    """Return a state of the active jobs and of those submitted up to `until_us`.

    Returns:
        The state, the numbers of its jobs in `state`, and whether no job comes after the window.
    """
    jobs, next_job = state.jobs, int(state.clock["next_job"][0])
    submit_us = jobs["submit_us"]
    beyond = bisect_right(range(len(jobs)), until_us, lo=next_job, key=submit_us.__getitem__)
    coming = np.arange(next_job, min(beyond + 1, len(jobs)))
    active, spare = np.empty((2, next_job - int(state.clock["finished"][0])), np.int64)
    active = active[: list_active(state, active, spare, np.empty(SORT_BUCKETS, np.int64))]
    if len(state.links):
        active = _with_held(state, active, coming)
    over = 0 if len(active) + len(coming) else 1
    if over:  # a table of jobs has at least one row
        active = np.array([len(jobs) - 1])
    job_ids = np.concatenate([active, coming])
    target = assemble(_tables(state, job_ids), FILLED)
    target.clock["next_job"], target.clock["finished"] = len(active), over
    numbers = np.empty(int(job_ids[-1] - job_ids[0]) + 1, np.int32)
    transfer(state, target, job_ids, numbers, np.empty(len(state.rows), np.int32))
    return target, job_ids, beyond == len(jobs)


def _with_held(state: State, active: Ints, coming: Ints) -> Ints:
    """Return the active jobs with those that wait for one of them or for one of the window.

    A job that waits only for jobs after the window cannot start within it.
    """
    members = newest = np.concatenate([active, coming])
    status, links = state.runs["status"], state.links
    while len(newest):
        first, count = state.jobs["successors"][newest], state.jobs["successor_count"][newest]
        begins = np.repeat(first - (np.cumsum(count) - count), count)
        followers = np.unique(links[begins + np.arange(int(count.sum()))])
        held = followers[status[followers] == HELD]
        newest = np.setdiff1d(held, members)
        members = np.union1d(members, newest)
    return members[: len(members) - len(coming)].astype(np.int64)


FILLED = ("runs", "rows", "queue", "window", "events")
"""Arrays that `transfer` fills."""


def _tables(state: State, job_ids: Ints) -> dict[str, Any]:
    """Return all arrays of a fork."""
    size, nodes = len(job_ids), len(state.nodes)
    of_shape, sample = np.zeros((2, len(state.shapes)), np.int64)
    held, links = measure(state, job_ids, of_shape, sample)
    most_rows, most_running = min(len(state.rows), held), min(len(state.victims), size)
    shapes = _shapes(state, of_shape, sample)
    arrays = state._asdict()
    del arrays["arena"]
    victims = max(most_running, (len(state.pools) + 1) * len(state.avail))
    fresh = {
        "jobs": records(size, r.JOB, zeroed=False),
        "runs": records(size, r.RUN, zeroed=False),
        "rows": records(most_rows, r.ROW, zeroed=False),
        "shapes": shapes,
        "queue": records(int(shapes.begin[-1]) + size, r.ENTRY, zeroed=False),
        "window": records(min(len(state.window), size), r.WINDOW, zeroed=False),
        "events": records(
            HEAP_OFFSET + min(len(state.events), most_running + most_running // 4 + nodes + 64),
            r.EVENT,
            zeroed=False,
        ),
        "links": np.empty(links, np.int32),
        "spreads": state.spreads[job_ids] if len(state.spreads) else state.spreads,
        "memos": _memos(state, job_ids),
        "learned": _by_pool(state.learned, state, job_ids),
        **blank_scratch(state),
        "victims": records(victims, r.VICTIM, zeroed=False),
        "plan": records(most_rows + 2 * most_running + 2 * nodes, r.ACTION, zeroed=False),
    }
    return {**arrays, **fresh}


@entry
def measure(state: Any, job_ids: Any, of_shape: Any, sample: Any) -> tuple:  # type: ignore[type-arg]
    """Return how many rows and links the jobs can have; count them by shape.

    Args:
        state: the whole state.
        job_ids: the jobs of the fork.
        of_shape: becomes the number of its jobs by shape.
        sample: becomes its first job of every shape.
    """
    rows, links = 0, 0
    for at in range(len(job_ids)):
        job = state.jobs[job_ids[at]]
        rows += max(1, job.devices) if job.curve < 0 else MAX_DEVICES
        links += job.successor_count
        if of_shape[job.shape_id] == 0:
            sample[job.shape_id] = at
        of_shape[job.shape_id] += 1
    return rows, links


def _shapes(state: State, of_shape: Ints, sample: Ints) -> Records:
    """Return the shapes, each with room for its jobs of the fork."""
    shapes = records(len(state.shapes), r.SHAPE)
    shapes[:] = state.shapes
    room = -(-of_shape // 4) * 4 + 4
    shapes.begin = np.cumsum(room) - room + HEAP_OFFSET
    shapes.shortest_us[of_shape == 0] = np.inf  # no job of the shape is left
    shapes["sample"] = sample
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
def number_of(numbers: Any, job_ids: Any, job_id: int) -> int:
    """Return where a job is among the jobs of the fork, -1 = nowhere.

    `numbers` is right for these jobs only, and holds anything for others.
    """
    at = job_id - job_ids[0]
    if at < 0 or at >= len(numbers):
        return -1
    number = numbers[at]
    return number if 0 <= number < len(job_ids) and job_ids[number] == job_id else -1


@kernel
def transfer_jobs(source: Any, target: Any, job_ids: Any, numbers: Any) -> None:
    """Copy the jobs and what became of them, and the links between those that are there."""
    for at in range(len(job_ids)):
        numbers[job_ids[at] - job_ids[0]] = at
    end = 0
    for at in range(len(job_ids)):
        target.jobs[at] = source.jobs[job_ids[at]]
        target.runs[at] = source.runs[job_ids[at]]
        job, run = target.jobs[at], target.runs[at]
        if run.link >= 0:
            run.link = number_of(numbers, job_ids, run.link)
        first, begin = job.successors, end
        for link in range(first, first + job.successor_count):
            follower = number_of(numbers, job_ids, source.links[link])
            if follower >= 0:
                target.links[end] = follower
                end += 1
        job.successors, job.successor_count = begin, end - begin


@kernel
def transfer_queue(source: Any, target: Any, job_ids: Any, numbers: Any) -> None:
    """Copy the queue; the order of jobs is the same, so every heap stays one."""
    for shape_id in range(len(source.shapes)):
        shape, begin = source.shapes[shape_id], target.shapes[shape_id].begin
        for at in range(shape.pending):
            place, copy = source.queue[shape.begin + at], target.queue[begin + at]
            copy.key, copy.tie = place.key, number_of(numbers, job_ids, place.tie)
    for at in range(source.clock[0].window_count):
        target.window[at] = source.window[at]
        target.window[at].tie = number_of(numbers, job_ids, source.window[at].tie)


@kernel
def transfer_rows(source: Any, target: Any, job_ids: Any, numbers: Any, places: Any) -> None:
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
            copy.job = number_of(numbers, job_ids, row.job)
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
def transfer_events(source: Any, target: Any, job_ids: Any, numbers: Any) -> None:
    """Copy the events that are still due."""
    count = 0
    for at in range(source.clock[0].event_count):
        event = source.events[HEAP_OFFSET + at]
        tie = event.tie
        if tie >> KIND_BITS == END_EVENT:
            run = source.runs[tie]
            if run.status != RUNNING or run.end_us != event.key:
                continue  # stale
            tie = number_of(numbers, job_ids, tie)
        heap.push(target.events, HEAP_OFFSET, count, event.key, tie)
        count += 1
    target.clock[0].event_count = count


@entry
def transfer(source: Any, target: Any, job_ids: Any, numbers: Any, places: Any) -> None:
    """Fill the tables of a fork that hold or name jobs.

    Args:
        source: the whole state.
        target: the fork, with everything else as in the source.
        job_ids: the jobs to copy, rising.
        numbers: scratch, as long as the span of these.
        places: scratch, as long as the source's rows.
    """
    transfer_jobs(source, target, job_ids, numbers)
    transfer_queue(source, target, job_ids, numbers)
    transfer_rows(source, target, job_ids, numbers, places)
    transfer_events(source, target, job_ids, numbers)
    for group_id in range(len(source.groups)):
        group, copy = source.groups[group_id], target.groups[group_id]
        copy.head, copy.tail = (
            number_of(numbers, job_ids, group.head),
            number_of(numbers, job_ids, group.tail),
        )
    clock = target.clock[0]
    clock.reserved_job = number_of(numbers, job_ids, clock.reserved_job)
    clock.first_live, clock.actions = 0, 0
