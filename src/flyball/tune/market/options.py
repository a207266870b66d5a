"""Lists in compiled code which jobs bid, where they could run, and how fast each would be there.

Equal jobs (same shape and curve) form a kind and have the same options. Speeds are the state's
guesses times what was learned since, never the true curves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import kernel
from flyball.tune.market.bench import SIZES

PENDING, RUNNING = int(Status.PENDING), int(Status.RUNNING)
GUEST = 0
YOUNG, PAIRED, SPENT = 1, 2, 3
"""Why a running job must go on as it is: it changed lately, it shares its device, or it was
changed as often as a job may be."""
STEPS = np.array(SIZES)
ONE = np.uint64(1)


@kernel
def list_bidders(state: Any, bench: Any, terms: Any) -> bool:
    """List the active jobs that use whole devices; False = more than there is room for."""
    totals, now_us = bench.totals[0], state.clock[0].now_us
    totals.bidders = 0
    for job_id in range(state.clock[0].next_job):
        run = state.runs[job_id]
        if run.status != PENDING and run.status != RUNNING:
            continue
        job = state.jobs[job_id]
        if job.milli != MILLI_PER_DEVICE or job.devices <= 0:
            continue
        if totals.bidders == len(bench.bidders):
            return False
        bidder = bench.bidders[totals.bidders]
        bench.bidder_of[job_id] = totals.bidders
        totals.bidders += 1
        running = run.status == RUNNING and run.first_row >= 0
        bidder.job, bidder.asked, bidder.elastic = job_id, job.devices, job.curve >= 0
        bidder.was_pool = run.pool if running else -1
        bidder.was_count = run.devices if running else 0
        bidder.pool, bidder.count = bidder.was_pool, bidder.was_count
        bidder.level = run.cap if running else 0
        bidder.first_place, bidder.place_count, bidder.mark = -1, 0, 0
        bidder.reason, bidder.gain, bidder.best, bidder.surplus = 0, 0.0, -1, 0.0
        bidder.preemptions = run.preemptions
        bidder.started = run.attempt > 0
        bidder.left_us = left_us(job, run, now_us)
        bidder.length_us = job.estimate_us
        bidder.unit = job.reference_us / job.estimate_us
        bidder.restart_us = job.restart_us + job.checkpoint_us
        bidder.waited_us = now_us - (run.began_us if run.attempt > 0 else job.submit_us)
        bidder.locked = 0
        if running:
            if shares_device(state, job_id):
                bidder.locked = PAIRED
            elif run.preemptions >= terms.changes:
                bidder.locked = SPENT
            elif now_us - run.began_us < terms.gap_us * (1 + run.preemptions):
                bidder.locked = YOUNG
    return True


@kernel
def left_us(job: Any, run: Any, now_us: int) -> float:
    """Return the estimated work left; an outlived estimate doubles."""
    done_us = run.done_us
    if run.status == RUNNING:
        done_us += max(0, now_us - run.ready_us) * run.rate
    guess_us = job.estimate_us
    while guess_us <= done_us:
        guess_us *= 2.0
    return float(guess_us - done_us)


@kernel
def shares_device(state: Any, job_id: int) -> bool:
    """Return whether a running job is on a device with another."""
    run = state.runs[job_id]
    if run.devices != 1:
        return False
    mine = state.rows[run.first_row]
    if mine.milli == GUEST:
        return True
    row_id = state.nodes[mine.node].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if row.job != job_id and row.mask & mine.mask:
            return True
        row_id = row.sibling
    return False


@kernel
def list_kinds(state: Any, bench: Any, terms: Any) -> None:
    """Group the bidders into kinds and list the options of each."""
    learn(state, bench)
    totals = bench.totals[0]
    totals.kinds = 0
    bench.first_kind[:] = -1
    end = 0
    for at in range(totals.bidders):
        bidder = bench.bidders[at]
        job = state.jobs[bidder.job]
        kind_id = bench.first_kind[job.shape_id]
        while kind_id >= 0 and bench.kinds[kind_id].curve != job.curve:
            kind_id = bench.kinds[kind_id].next
        if kind_id < 0:
            kind_id = totals.kinds
            totals.kinds += 1
            kind = bench.kinds[kind_id]
            kind.shape_id, kind.curve, kind.job = job.shape_id, job.curve, bidder.job
            kind.next, kind.jobs = bench.first_kind[job.shape_id], 0
            bench.first_kind[job.shape_id] = kind_id
            kind.begin = end
            for pool_id in range(len(state.pools)):
                end = list_sizes(state, bench, kind, pool_id, terms.eta, end)
            kind.end = end
            kind.frugal = 0.0
            for option_id in range(kind.begin, end):
                option = bench.options[option_id]
                kind.frugal = max(kind.frugal, option.rate / option.watts)
        bench.kinds[kind_id].jobs += 1
        bidder.kind = kind_id


@kernel
def list_sizes(state: Any, bench: Any, kind: Any, pool_id: int, eta: float, end: int) -> int:
    """List sizes in a pool while a further device adds `eta` of the first ones; return the end."""
    pool_bit = ONE << np.uint64(pool_id)
    if not state.shapes[kind.shape_id].pools & pool_bit:
        return end
    job = state.jobs[kind.job]
    pool = state.pools[pool_id]
    watts = state.rates[job.profile * len(state.pools) + pool_id].watts
    watts += pool.host_w / pool.capacity
    least, most = job.devices, job.devices
    if kind.curve >= 0:
        least, most = state.ranges[kind.curve].least, state.ranges[kind.curve].most
    asked_speed = speed_at(state, bench, job, pool_id, min(max(job.devices, least), most))
    floor, last_size, last_speed = 0.0, 0, 0.0
    asked_next = True
    at = 0
    while at < len(STEPS) or asked_next:
        if asked_next and (at == len(STEPS) or job.devices <= STEPS[at]):
            size = job.devices
            asked_next = False
            if at < len(STEPS) and STEPS[at] == size:
                at += 1
        else:
            size = STEPS[at]
            at += 1
        if size < least or size > most:
            continue
        speed = speed_at(state, bench, job, pool_id, size)
        if speed <= 0.0:
            continue
        if last_size == 0:
            floor = eta * speed / size
        elif speed - last_speed < floor * (size - last_size):
            continue
        last_size, last_speed = size, speed
        option = bench.options[end]
        option.pool, option.count, option.rate = pool_id, size, speed
        option.grown = grown(speed, size, job.devices, asked_speed)
        option.watts = size * watts
        end += 1
    return end


@kernel
def speed_at(state: Any, bench: Any, job: Any, pool_id: int, size: int) -> float:
    """Return the estimated progress per microsecond of a job, packed."""
    pools = len(state.pools)
    if job.curve < 0:
        return float(state.rates[job.profile * pools + pool_id].packed)
    span = state.ranges[job.curve]
    guess = state.guesses[span.first + (size - span.least) * pools + pool_id].packed
    return float(guess * bench.learned[job.curve * pools + pool_id])


@kernel
def grown(speed: float, size: int, asked: int, asked_speed: float) -> float:
    """Return the part of a speed that devices beyond those asked for add."""
    if size <= asked or asked_speed <= 0.0:
        return 0.0
    return max(0.0, speed - asked_speed)


@kernel
def learn(state: Any, bench: Any) -> None:
    """Average measured over guessed speed by curve and pool over the jobs that were measured."""
    pools = len(state.pools)
    bench.learned[:] = 0.0
    bench.seen[:] = 0.0
    if len(state.learned):
        for job_id in range(state.clock[0].next_job):
            for pool_id in range(pools):
                ratio = state.learned[job_id * pools + pool_id]
                if ratio != 1.0:  # else it was not measured; only elastic jobs are
                    at = state.jobs[job_id].curve * pools + pool_id
                    bench.learned[at] += ratio
                    bench.seen[at] += 1.0
    for at in range(len(bench.learned)):
        seen = bench.seen[at]
        bench.learned[at] = bench.learned[at] / seen if seen > 0.0 else 1.0
