"""The clock: handles events and calls the decision kernel. Nothing here decides.

`advance` brings the state to the next instant at which something happens, `decide`
(schedule.kernel) writes a plan, `carry_out` applies it. `run` is the three in a loop, compiled as
one; stepping calls them one by one with any policy in the middle.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Order, Preempt
from flyball.core.units import FOREVER_US
from flyball.physics.compile import entry, hot, kernel
from flyball.physics.energy import rest, touch
from flyball.physics.signals import refresh
from flyball.schedule import index, queue
from flyball.schedule.allocate import GUEST, forget, release
from flyball.schedule.attained import promote_starved, promotes
from flyball.schedule.history import learn, predict
from flyball.schedule.kernel import decide
from flyball.schedule.order import FAIR, HISTORY, progress
from flyball.schedule.reserve import drop_reservation, reserve_as_planned
from flyball.schedule.shares.rounds import targets_due
from flyball.schedule.slices import account, cut_short, give_way
from flyball.schedule.start import can_start_as_planned, start_as_planned
from flyball.schedule.tenants import recount
from flyball.twin.change import (
    adjust,
    natural_end,
    release_devices,
    schedule_end,
    update_shared_speeds,
)
from flyball.twin.defer import admit, admit_or_defer, hold_back, is_deferred, release_job
from flyball.twin.events import (
    RELEASE_EVENT,
    REPAIR_EVENT,
    next_event_us,
    pop_event,
    push_event,
)
from flyball.twin.scale import scale
from flyball.twin.totals import note_end, settle

HELD = int(Status.HELD)
RUNNING, DONE, TIMEOUT = int(Status.RUNNING), int(Status.DONE), int(Status.TIMEOUT)
START, PREEMPT = int(ActionKind.START), int(ActionKind.PREEMPT)
RESERVE, REPLICAS = int(ActionKind.RESERVE), int(ActionKind.REPLICAS)
RELEASE, DEFER = int(ActionKind.RELEASE), int(ActionKind.DEFER)
ROUNDS, SHARES = int(Preempt.ROUNDS), int(Order.SHARES)


@entry
def run(state: Any, packed: Any, until_us: int, resume: bool) -> bool:
    """Handle every instant up to and including `until_us`.

    Args:
        resume: continue with the decision of the present instant, for which targets were due.

    Returns:
        True if the policy must set its targets before the run can continue; then call again.
    """
    knobs = packed[0]
    while True:
        if resume:
            now = state.clock[0].now_us
            resume = False
        else:
            now = next_instant(state, knobs)
            if now > until_us:
                return False
            advance(state, knobs, now)
            if targets_due(state, knobs, now):
                return True
        decide(state, knobs, now, now % knobs.round_us == 0)
        carry_out(state, knobs, now)


@entry
def pass_time(state: Any, packed: Any, until_us: int) -> None:
    """Handle all events up to and including `until_us`, without a decision."""
    knobs = packed[0]
    now = next_instant(state, knobs)
    while now <= until_us:
        advance(state, knobs, now)
        now = next_instant(state, knobs)


@hot
def next_instant(state: Any, knobs: Any) -> int:
    """Return when something happens next: FOREVER_US if nothing ever will."""
    clock = state.clock[0]
    when = next_event_us(state)
    if clock.next_job < len(state.jobs):
        when = min(when, state.jobs[clock.next_job].submit_us)
    if clock.finished < len(state.jobs) and clock.next_outage < len(state.outages):
        when = min(when, state.outages[clock.next_outage].down_us)
    if knobs.preempt == ROUNDS and round_follows(clock, knobs):
        when = min(when, (clock.now_us // knobs.round_us + 1) * knobs.round_us)
    if clock.finished == len(state.jobs):
        return FOREVER_US
    return int(when)


@kernel
def round_follows(clock: Any, knobs: Any) -> bool:
    """Return whether there is anything for another round to decide."""
    if knobs.order == SHARES:
        waits = clock.pending > 0 and (clock.shares_due or not clock.settled)
        return bool(clock.running > 0 or waits)
    return bool(clock.running > 0 and (clock.pending > 0 or knobs.move_us > 0.0))


@hot
def advance(state: Any, knobs: Any, now: int) -> None:
    """Handle all events at `now`, without the decision."""
    clock = state.clock[0]
    clock.presence_us += float(now - clock.now_us) * (clock.arrivals - clock.ends)
    clock.now_us = now
    if len(state.steps) > 0:
        refresh(clock, state.steps, now)
    before = clock.arrivals + clock.ends + clock.failures + clock.repairs
    # 1. Ends, then repairs, then releases: ties are ordered that way.
    while next_event_us(state) == now:
        kind, subject = pop_event(state)
        if kind == REPAIR_EVENT:
            repair(state, knobs, subject, now)
        elif kind == RELEASE_EVENT:
            release_job(state, knobs, subject, now)
        else:
            finish(state, knobs, subject, now)
    # 2. Failures.
    while clock.next_outage < len(state.outages):
        outage = state.outages[clock.next_outage]
        if outage.down_us > now:
            break
        clock.next_outage += 1
        fail(state, knobs, outage.node, outage.up_us, now)
    # 3. Arrivals.
    while clock.next_job < len(state.jobs):
        if state.jobs[clock.next_job].submit_us > now:
            break
        clock.next_job += 1
        clock.arrivals += 1
        arrive(state, knobs, clock.next_job - 1, now)
    # 4. Jobs or nodes changed: targets may change, and a round may have something to do.
    if clock.arrivals + clock.ends + clock.failures + clock.repairs > before:
        clock.shares_due, clock.settled = 1, 0
    # 5. Jobs that waited too long in a lower queue.
    if promotes(knobs, now):
        promote_starved(state, knobs, now)


@hot
def arrive(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Submit a job: it waits for its predecessors, then for its array, or joins the queue."""
    job, run_ = state.jobs[job_id], state.runs[job_id]
    state.clock[0].arrived_us += job.estimate_us * job.devices * job.milli / 1000
    run_.status = HELD
    if run_.waiting_on == 0:
        admit_or_defer(state, knobs, job_id, now)


@hot
def finish(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """End a job: its work is done, or its time limit is reached."""
    job, run_, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    if natural_end(job, run_) == now:
        run_.status = DONE
        run_.done_us = job.work_us
    else:
        run_.status = TIMEOUT
        run_.done_us += progress(run_, now)
    note_end(state, job_id, now)
    account(state, job_id, now)
    release_devices(state, knobs, job_id, now)
    clock.finished += 1
    clock.ends += 1
    if knobs.order == HISTORY:
        learn(state, job_id)
    for at in range(job.successors, job.successors + job.successor_count):
        follower = state.links[at]
        state.runs[follower].waiting_on -= 1
        if state.runs[follower].waiting_on == 0 and state.runs[follower].status == HELD:
            admit_or_defer(state, knobs, follower, now)
    if job.group >= 0:
        group = state.groups[job.group]
        group.admitted -= 1
        if group.head >= 0:
            held = group.head
            group.head = state.runs[held].link
            admit(state, knobs, held, now)


@kernel
def fail(state: Any, knobs: Any, node_id: int, up_us: int, now: int) -> None:
    """Fail a node: its jobs fall back to their last checkpoint and queue again."""
    clock, node = state.clock[0], state.nodes[node_id]
    every = clock.checkpoint_every_us
    while node.first_row >= 0:
        job_id = first_job_on(state, node)
        run_ = state.runs[job_id]
        release(state, knobs, job_id, now)  # jobs that share its device fail with it
        run_.failures += 1
        kept = 0.0
        if every > 0:
            kept = (max(0, now - run_.ready_us) // every) * every * run_.rate
        cut_short(state, job_id, kept, now)
        queue.enqueue(state, knobs, job_id, now)
    take_down(state, node_id, now)
    clock.capacity_grew = 1
    clock.failures += 1
    push_event(state, up_us, REPAIR_EVENT, node_id)


@kernel
def take_down(state: Any, node_id: int, now: int) -> None:
    """Mark a node as down: it draws no power and takes no job; running jobs are left alone."""
    clock, node = state.clock[0], state.nodes[node_id]
    pool = state.pools[node.pool]
    touch(state, node_id, now)
    clock.power_w -= node.power_w
    node.power_w = 0.0
    node.idle_since_us = -1
    node.down = 1
    index.discard(state.bitmaps, pool, node.free, node_id - pool.first_node)
    forget(state.avail, state.scores, node_id)


@kernel
def first_job_on(state: Any, node: Any) -> int:
    """Return the job of lowest index on a node."""
    row_id = node.first_row
    job_id = state.rows[row_id].job
    while row_id >= 0:
        job_id = min(job_id, state.rows[row_id].job)
        row_id = state.rows[row_id].sibling
    return int(job_id)


@kernel
def repair(state: Any, knobs: Any, node_id: int, now: int) -> None:
    """Bring a node back, idle."""
    clock, node = state.clock[0], state.nodes[node_id]
    pool = state.pools[node.pool]
    touch(state, node_id, now)
    node.down = 0
    rest(node, knobs.sleep_us, now)
    node.power_w = pool.host_w + pool.capacity * pool.idle_w
    forget(state.avail, state.scores, node_id)
    clock.power_w += node.power_w
    index.insert(state.bitmaps, pool, node.free, node_id - pool.first_node)
    clock.capacity_grew = 1
    clock.repairs += 1


@hot
def carry_out(state: Any, knobs: Any, now: int) -> None:
    """Apply the plan; its devices are already taken or given back."""
    plan, count = state.plan, state.clock[0].actions
    last = -1
    for at in range(count):
        job_id = plan[at].job
        if plan[at].kind == START:
            if job_id != last:
                schedule_end(state, job_id)
            last = job_id
        elif plan[at].kind == PREEMPT:
            if state.runs[job_id].first_row < 0:
                queue.enqueue(state, knobs, job_id, now)
            else:  # it goes on elsewhere
                state.runs[job_id].moves += 1
    if state.clock[0].running == 0 and now % knobs.round_us == 0:
        state.clock[0].settled = 1


@kernel
def is_free_to_start(state: Any, job_id: int) -> bool:
    """Return whether the job can start: just preempted, or pending and now dequeued."""
    run_ = state.runs[job_id]
    if run_.status == RUNNING and run_.first_row < 0:
        state.clock[0].pending += 1  # as if it had gone through the queue
        return True
    return bool(run_.status == queue.PENDING and queue.remove(state, job_id))


@kernel
def enact(state: Any, knobs: Any, now: int) -> int:
    """Take and give back devices as planned, and apply the plan.

    For plans made on a copy of the state.

    Returns:
        -1, or the index of the first action that cannot be carried out.
    """
    count = state.clock[0].actions
    at = 0
    while at < count:
        action = state.plan[at]
        if action.kind == START:
            if not is_free_to_start(state, action.job) or not can_start_as_planned(state, at):
                return at
            first, at = at, start_as_planned(state, knobs, at, now)
            if state.plan[first].milli == GUEST:
                update_shared_speeds(state, action.node, action.mask, now)
        elif action.kind == PREEMPT:
            if state.runs[action.job].status != RUNNING or state.runs[action.job].first_row < 0:
                return at
            give_way(state, action.job, now)
            release_devices(state, knobs, action.job, now)
            at += 1
        elif action.kind == RESERVE:
            at = reserve_as_planned(state, at)
        elif action.kind == REPLICAS or action.kind == RELEASE or action.kind == DEFER:
            at += 1  # after preempted jobs are back in the queue
        elif adjust(state, knobs, at, now):
            at += 1
        else:
            return at
    carry_out(state, knobs, now)
    for at in range(count):
        action = state.plan[at]
        if action.kind == REPLICAS and not scale(state, knobs, action.job, action.level, now):
            return at
        if action.kind == RELEASE:
            if not is_deferred(state, action.job, now):
                return at
            release_job(state, knobs, action.job, now)
        if action.kind == DEFER:
            hold_back(state, action.job, int(action.gain), now)
    return -1


# Entry points for plain Python: they take the knobs packed as an array of one record -------


@entry
def next_us(state: Any, packed: Any) -> int:
    return next_instant(state, packed[0])


@entry
def advance_to(state: Any, packed: Any, now: int) -> bool:
    """Advance; return whether the policy must set its targets before the decision."""
    advance(state, packed[0], now)
    return targets_due(state, packed[0], now)


@entry
def enact_now(state: Any, packed: Any, now: int) -> int:
    return enact(state, packed[0], now)


@entry
def rebuild_queue(state: Any, packed: Any, new: Any) -> None:
    """Reorder the pending jobs by other knobs."""
    settle(state, packed, state.clock[0].now_us)
    clock = state.clock[0]
    for shape_id in range(len(state.shapes)):
        state.shapes[shape_id].pending = 0
    clock.window_count = 0
    clock.pending = 0
    for job_id in range(clock.next_job):
        if state.runs[job_id].status == queue.PENDING:
            queue.enqueue(state, new[0], job_id, clock.now_us)
        elif new[0].order == HISTORY and state.runs[job_id].status == RUNNING:
            predict(state, job_id)
    if new[0].order == FAIR and packed[0].order != FAIR:
        recount(state, RUNNING)
    for node_id in range(len(state.nodes)):
        node = state.nodes[node_id]
        if new[0].sleep_us != packed[0].sleep_us and node.idle_since_us >= 0:
            node.sleeps_us = node.idle_since_us + new[0].sleep_us
    drop_reservation(state)
    clock.capacity_grew = 1
