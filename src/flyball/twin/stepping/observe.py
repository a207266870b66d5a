"""Writes an observation of a state, and the totals that a step's gains are differences of.

One pass over the nodes, one over the pending and one over the running jobs. Jobs that ended or
are still to come cost nothing. Sums over jobs are whole numbers, so that the order of the jobs
does not matter. `fields.py` says what each number means.
"""

from __future__ import annotations

import math
from typing import Any

from flyball.core.records import HEAP_OFFSET
from flyball.core.units import J_PER_KWH, S_PER_DAY, US_PER_S
from flyball.physics.compile import entry, hot, kernel, prefetch
from flyball.physics.energy import asleep, busy_at, energy_at
from flyball.physics.signals import integral, node_bill, value_at
from flyball.schedule.order import doubled, progress
from flyball.twin.events import END_EVENT, KIND_BITS
from flyball.twin.events import RUNNING as RUNS
from flyball.twin.stepping import pending as t
from flyball.twin.stepping.fields import (
    GAINS_SIZE,
    LATELY,
    LENGTH,
    NODES,
    OBSERVATION_SIZE,
    OUTSIDE,
    POOLS,
    POOLS_SEEN,
    QUEUE,
    RUNNING,
    SIZE,
)
from flyball.twin.stepping.pending import units
from flyball.twin.totals import work_done

DAY_US = S_PER_DAY * US_PER_S
HOUR_US = 3_600.0 * US_PER_S
LOG_WEEK = math.log1p(7.0 * S_PER_DAY)
WORK, BUSY, ENERGY, MONEY, CARBON = range(9, 14)
"""Places of the last totals; those before them are on the clock."""
COUNTS = t.COUNTS
"""Whole numbers that an observation needs room for."""
WORK_LEFT, PARTS, LATE, WORK_DONE, COUNTED = range(5)
"""Places of the sums over running jobs, in the same room."""
PARTS_PER_ONE = float(1 << 30)
"""Parts of estimates are counted in parts of this."""
AHEAD = 12
"""Entries by which a pass over events is ahead of itself in fetching the records of their jobs."""


@hot
def log_time(time_us: float) -> float:
    """Return log1p of a time in seconds, with a week as 1."""
    return math.log1p(max(0.0, time_us) / US_PER_S) / LOG_WEEK


@kernel
def pool_rank(state: Any, pool_id: int) -> int:
    """Return how many pools have more devices, or as many and come first."""
    pool = state.pools[pool_id]
    size, rank = pool.nodes * pool.capacity, 0
    for other_id in range(len(state.pools)):
        other = state.pools[other_id]
        others = other.nodes * other.capacity
        if others > size or (others == size and other_id < pool_id):
            rank += 1
    return rank


@hot
def add_node(state: Any, node: Any, now: int, out: Any, sums: Any) -> int:
    """Add a node to the sums; return its wholly free devices."""
    pool, clock, steps = state.pools[node.pool], state.clock[0], state.steps
    sums[ENERGY] += energy_at(node, pool.sleep_w, now)
    sums[BUSY] += busy_at(node, now)
    if len(steps) > 0:
        sums[MONEY] += node.money + node_bill(clock.price, steps, node, pool.sleep_w, now)
        sums[CARBON] += node.carbon_g + node_bill(clock.carbon, steps, node, pool.sleep_w, now)
    out[OUTSIDE] += pool.host_w + pool.capacity * pool.idle_w
    if node.down:
        out[NODES + 2] += pool.capacity
        return 0
    out[NODES] += node.used_milli / 1000
    out[NODES + 1] += node.free
    if node.idle_since_us >= 0:
        out[NODES + 3] += 1.0
        if asleep(node, now):
            out[NODES + 4] += 1.0
    out[NODES + 5] = max(out[NODES + 5], node.free / pool.capacity)
    return int(node.free)


@kernel
def add_nodes(state: Any, now: int, out: Any, sums: Any) -> float:
    """Add all nodes; return the number of devices."""
    devices = 0
    for pool_id in range(len(state.pools)):
        pool = state.pools[pool_id]
        free = 0
        for node_id in range(pool.first_node, pool.first_node + pool.nodes):
            free += add_node(state, state.nodes[node_id], now, out, sums)
        size = pool.nodes * pool.capacity
        devices += size
        rank = pool_rank(state, pool_id)
        if rank < POOLS_SEEN:
            out[POOLS + 3 * rank], out[POOLS + 3 * rank + 1] = size, free / size
    for at in range(len(state.pools)):
        rank = pool_rank(state, state.pools[at].visit)
        if rank < POOLS_SEEN:
            out[POOLS + 3 * rank + 2] = 1.0 - at / len(state.pools)
    return float(devices)


@kernel
def sum_queue(state: Any, counts: Any) -> int:
    """Sum over the pending jobs, one by one; return which of them was submitted first, or -1."""
    oldest = len(state.jobs)
    for at in range(state.clock[0].window_count):
        job_id = state.window[at].tie
        t.add(counts, state.jobs[job_id], state.runs[job_id], 1)
        oldest = min(oldest, job_id)
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        for at in range(shape.begin, shape.begin + shape.pending):
            job_id = state.queue[at].tie
            t.add(counts, state.jobs[job_id], state.runs[job_id], 1)
            oldest = min(oldest, job_id)
    return int(oldest) if oldest < len(state.jobs) else -1


@kernel
def first_pending(state: Any) -> int:
    """Return the first pending job in the order, or -1."""
    head, head_key = -1, 0.0
    if state.clock[0].window_count > 0:
        head, head_key = state.window[0].tie, state.window[0].key
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        if shape.pending > 0:
            top = state.queue[shape.begin]
            if head < 0 or top.key < head_key or (top.key == head_key and top.tie < head):
                head, head_key = top.tie, top.key
    return int(head)


@kernel
def add_queue(state: Any, now: int, out: Any, sums: Any, counts: Any) -> None:
    """Write the sums over pending jobs, which are in the end divided by others."""
    if state.clock[0].pending == 0:
        return
    oldest = sum_queue(state, counts)
    out[QUEUE + 2] = counts[t.DEVICES] / 1000
    out[QUEUE + 4] = counts[t.RESTARTED]
    out[QUEUE + 5] = float(now * int(state.clock[0].pending) - counts[t.SUBMITTED])
    out[QUEUE + 6] = float(now - state.jobs[oldest].submit_us)
    sums[WORK] += counts[t.DONE] / t.DONE_PER_US
    sizes, lengths = len(t.SIZES) + 1, len(t.LENGTHS_S) + 1
    for at in range(sizes):
        out[SIZE + at] = counts[t.SIZE + at]
        out[SIZE + sizes + at] = counts[t.SIZE + sizes + at] * t.UNIT_US
    for at in range(lengths):
        out[LENGTH + at] = counts[t.LENGTH + at]
        work = counts[t.LENGTH + lengths + at]
        out[LENGTH + lengths + at] = work * t.UNIT_US
        out[QUEUE + 3] += work * t.UNIT_US


@hot
def add_running(job: Any, run: Any, now: int, counts: Any) -> None:
    """Add a running job to the sums."""
    done_us, estimate_us = run.done_us + progress(run, now), job.estimate_us
    counts[WORK_LEFT] += units(run.devices * job.milli, doubled(estimate_us, done_us) - done_us)
    counts[PARTS] += int(min(1.0, done_us / estimate_us) * PARTS_PER_ONE + 0.5)
    counts[LATE] += int(done_us >= estimate_us)
    counts[WORK_DONE] += int(work_done(job, done_us) * t.DONE_PER_US + 0.5)
    counts[COUNTED] += 1


@kernel
def clear(counts: Any) -> None:
    """Set all sums to 0."""
    for at in range(COUNTS):
        counts[at] = 0


@kernel
def sum_by_ends(state: Any, now: int, counts: Any) -> None:
    """Sum over the running jobs by the ends that are due: they are next to each other."""
    clear(counts)
    last = HEAP_OFFSET + state.clock[0].event_count
    for at in range(HEAP_OFFSET, last):
        coming = state.events[min(at + AHEAD, last - 1)].tie
        prefetch(state.runs, coming, 0)
        prefetch(state.jobs, coming, 0)
        event = state.events[at]
        if event.tie >> KIND_BITS == END_EVENT:
            run = state.runs[event.tie]
            if run.status == RUNS and run.end_us == event.key:
                add_running(state.jobs[event.tie], run, now, counts)


@kernel
def sum_by_nodes(state: Any, now: int, counts: Any) -> None:
    """Sum over the running jobs by node; a job is counted where its first row is."""
    clear(counts)
    for node_id in range(len(state.nodes)):
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            if state.runs[row.job].first_row == row_id:
                add_running(state.jobs[row.job], state.runs[row.job], now, counts)
            row_id = row.sibling


@kernel
def add_all_running(state: Any, now: int, out: Any, sums: Any, counts: Any) -> None:
    """Write the sums over running jobs."""
    sum_by_ends(state, now, counts)
    if counts[COUNTED] != state.clock[0].running:  # an end is there twice, or not scheduled
        sum_by_nodes(state, now, counts)
    out[RUNNING + 1] = counts[WORK_LEFT] * t.UNIT_US
    out[RUNNING + 2] = counts[PARTS] / PARTS_PER_ONE
    out[RUNNING + 3] = counts[LATE]
    sums[WORK] += counts[WORK_DONE] / t.DONE_PER_US


@kernel
def normalise_queue(state: Any, head: int, devices: float, out: Any) -> None:
    """Turn sums over pending jobs into parts, means and logarithms."""
    clock = state.clock[0]
    pending, work_us = float(clock.pending), out[QUEUE + 3]
    held = max(0, clock.arrivals - clock.ends - clock.pending - clock.running)
    out[QUEUE] = math.log1p(pending / devices)
    out[QUEUE + 1] = math.log1p(held / devices)
    if pending == 0.0:
        return
    out[QUEUE + 2] = math.log1p(out[QUEUE + 2] / devices)
    out[QUEUE + 3] = math.log1p(work_us / (devices * HOUR_US))
    out[QUEUE + 4] /= pending
    out[QUEUE + 5] = log_time(out[QUEUE + 5] / pending)
    out[QUEUE + 6] = log_time(out[QUEUE + 6])
    for first, classes in ((SIZE, len(t.SIZES) + 1), (LENGTH, len(t.LENGTHS_S) + 1)):
        for at in range(first, first + classes):
            out[at] /= pending
            out[at + classes] /= max(work_us, 1.0)
    if head >= 0:
        job, done_us = state.jobs[head], state.runs[head].done_us
        out[QUEUE + 7] = job.devices * job.milli / 1000 / devices
        out[QUEUE + 8] = log_time(doubled(job.estimate_us, done_us) - done_us)


@kernel
def normalise_running(state: Any, devices: float, out: Any) -> None:
    """Turn sums over running jobs and nodes into parts and logarithms."""
    running = float(max(1, state.clock[0].running))
    out[RUNNING] = state.clock[0].running / devices
    out[RUNNING + 1] = math.log1p(out[RUNNING + 1] / (devices * HOUR_US))
    out[RUNNING + 2] /= running
    out[RUNNING + 3] /= running
    for at in range(NODES, NODES + 3):
        out[at] /= devices
    out[NODES + 3] /= len(state.nodes)
    out[NODES + 4] /= len(state.nodes)
    for rank in range(POOLS_SEEN):
        out[POOLS + 3 * rank] /= devices


@kernel
def normalise_lately(state: Any, ledger: Any, devices: float, out: Any, sums: Any) -> None:
    """Write what happened since the totals in the ledger."""
    elapsed_us = sums[0] - ledger[0]
    if elapsed_us <= 0.0:
        return
    per_hour = HOUR_US / (elapsed_us * devices)
    out[LATELY] = log_time(elapsed_us)
    out[LATELY + 1] = math.log1p((sums[1] - ledger[1]) * per_hour)
    out[LATELY + 2] = (sums[6] - ledger[6]) / (devices * elapsed_us)
    out[LATELY + 3] = math.log1p((sums[2] - ledger[2]) * per_hour)
    out[LATELY + 4] = math.log1p((sums[3] - ledger[3]) * per_hour)
    out[LATELY + 5] = (sums[4] - ledger[4]) / max(1.0, sums[2] - ledger[2])
    out[LATELY + 6] = (sums[5] - ledger[5]) / len(state.nodes)


@kernel
def relative(state: Any, signal: Any, now: int) -> float:
    """Return a signal's value over its mean since the start; 0 if there is none."""
    if not signal.given:
        return 0.0
    start_us = state.clock[0].start_us
    if signal.count == 0 or now <= start_us:
        return 1.0
    mean = integral(signal, state.steps, start_us, now) / (now - start_us)
    return value_at(signal, state.steps, now) / mean if mean > 0.0 else 0.0


@kernel
def normalise_outside(state: Any, now: int, out: Any) -> None:
    """Write power, price, carbon and the time of day."""
    clock, idle_w = state.clock[0], out[OUTSIDE]
    out[OUTSIDE] = clock.power_w / idle_w if idle_w > 0.0 else 0.0
    out[OUTSIDE + 1] = clock.power_w / clock.budget_w if clock.budget_w > 0.0 else 0.0
    out[OUTSIDE + 2] = relative(state, clock.price, now)
    out[OUTSIDE + 3] = relative(state, clock.carbon, now)
    angle = 2.0 * math.pi * (now % DAY_US) / DAY_US
    out[OUTSIDE + 4], out[OUTSIDE + 5] = math.sin(angle), math.cos(angle)


@kernel
def set_totals(state: Any, now: int, sums: Any) -> None:
    """Complete the totals at an instant from the clock."""
    clock = state.clock[0]
    sums[0], sums[1], sums[2] = float(now), float(clock.arrivals), float(clock.starts)
    sums[3], sums[4], sums[5] = float(clock.ends), float(clock.preemptions), float(clock.failures)
    sums[6], sums[7] = clock.arrived_us, clock.flow_us
    in_system = clock.arrivals - clock.ends
    sums[8] = clock.presence_us + float(now - clock.now_us) * in_system
    sums[WORK] += clock.ended_us
    if len(state.steps) == 0:
        kwh = sums[ENERGY] / J_PER_KWH
        sums[MONEY] = kwh * clock.price.value if clock.price.given else 0.0
        sums[CARBON] = kwh * clock.carbon.value if clock.carbon.given else 0.0


@kernel
def survey(state: Any, ledger: Any, now: int, out: Any, sums: Any, counts: Any) -> None:
    """Write the observation and the totals at an instant; the state is not changed.

    Args:
        state: up to date at `now`: no event before it is left.
        ledger: the totals of the last step.
        now: not before the last event.
        out: becomes the observation.
        sums: becomes the totals.
        counts: room for `COUNTS` numbers.
    """
    for at in range(OBSERVATION_SIZE):
        out[at] = 0.0
    for at in range(GAINS_SIZE):
        sums[at] = 0.0
    clear(counts)
    devices = add_nodes(state, now, out, sums)
    add_queue(state, now, out, sums, counts)
    add_all_running(state, now, out, sums, counts)
    set_totals(state, now, sums)
    normalise_queue(state, first_pending(state), devices, out)
    normalise_running(state, devices, out)
    normalise_lately(state, ledger, devices, out, sums)
    normalise_outside(state, now, out)


@kernel
def take_gains(ledger: Any, sums: Any, gains: Any) -> None:
    """Write what was added since the last step, and enter the new totals into the ledger."""
    for at in range(GAINS_SIZE):
        scale = US_PER_S if at == 0 or 6 <= at <= BUSY else 1
        gains[at] = (sums[at] - ledger[at]) / scale
        ledger[at] = sums[at]


@entry
def observe_now(state: Any, ledger: Any, now: int, out: Any, sums: Any, counts: Any) -> None:
    """Write the observation and the totals at an instant, for plain Python."""
    survey(state, ledger, now, out, sums, counts)
