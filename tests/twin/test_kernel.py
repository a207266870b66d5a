"""The entry points of the clock, one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import config

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status, TwinEventKind
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.records import OUTAGE, records
from flyball.core.state import CHANGED, State
from flyball.core.units import FOREVER_US, to_us
from flyball.core.workload import Workload
from flyball.schedule.kernel import decide_now
from flyball.twin import events, kernel, totals
from flyball.twin.build import build_state

pytestmark = pytest.mark.nojit

KNOBS = Knobs()
PACKED = KNOBS.pack()


def state_of(submit_s: list[float], duration_s: list[float], knobs: Knobs = KNOBS) -> State:
    """Jobs for one device each on two nodes of one V100."""
    cluster = Cluster("case", (NodeGroup("n", 2, "V100", 1),))
    workload = Workload.of("case", submit_s, duration_s, kind=0)
    return build_state(cluster, workload, knobs, Effects())


def test_next_instant_is_the_earliest_of_all() -> None:
    state = state_of([0, 50], [100, 10])
    assert kernel.next_us(state, PACKED) == 0
    kernel.run(state, PACKED, 0, False)
    assert kernel.next_us(state, PACKED) == to_us(50)  # the second arrival
    outages = records(1, OUTAGE)
    outages[0] = (to_us(20), to_us(30), 1)
    broken = state._replace(outages=outages)
    assert kernel.next_us(broken, PACKED) == to_us(20)
    kernel.run(broken, PACKED, to_us(20), False)
    assert kernel.next_us(broken, PACKED) == to_us(30)  # its repair
    kernel.run(broken, PACKED, FOREVER_US - 1, False)
    assert kernel.next_us(broken, PACKED) == FOREVER_US
    assert broken.clock[0].now_us == to_us(100)


def test_a_round_is_due_while_jobs_wait_and_run() -> None:
    knobs = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=7.0)
    packed = knobs.pack()
    state = state_of([0, 0, 1], [100, 100, 100], knobs)
    kernel.run(state, packed, 0, False)
    assert kernel.next_us(state, packed) == to_us(1)
    kernel.run(state, packed, to_us(1), False)
    assert kernel.next_us(state, packed) == to_us(7)


def test_advance_handles_events_but_decides_nothing() -> None:
    state = state_of([0, 0, 0], [10, 10, 10])
    kernel.advance_to(state, PACKED, 0)
    clock = state.clock[0]
    assert (clock.arrivals, clock.pending, clock.running, clock.decisions) == (3, 3, 0, 0)
    decide_now(state, PACKED)
    assert (clock.pending, clock.running, clock.actions) == (1, 2, 2)
    assert (state.runs.end_us == -1).all()  # the decision does not schedule ends


def test_ends_come_before_repairs_at_one_instant() -> None:
    outages = records(1, OUTAGE)
    outages[0] = (to_us(5), to_us(10), 1)
    state = state_of([0, 6], [10, 10])._replace(outages=outages)
    kernel.run(state, PACKED, to_us(10), False)
    # Both nodes are free at 10. The job that waits takes the lowest.
    assert state.runs[1].since_us == to_us(10)
    assert state.rows[state.runs[1].first_row].node == 0


def test_totals_change_nothing() -> None:
    state = state_of([0], [100])
    kernel.run(state, PACKED, 0, False)
    before = {name: getattr(state, name).copy() for name in CHANGED}
    work_us, energy_j, busy_us, *_ = totals.totals_at(state, PACKED, to_us(40))
    assert work_us == pytest.approx(40e6)
    assert energy_j == pytest.approx(40 * (332 + 116))
    assert busy_us == 40e6
    assert all(np.array_equal(getattr(state, name), array) for name, array in before.items())


def test_settle_books_what_totals_sees() -> None:
    state = state_of([0], [100])
    kernel.run(state, PACKED, 0, False)
    seen = totals.totals_at(state, PACKED, to_us(40))
    totals.settle(state, PACKED, to_us(40))
    assert state.nodes.energy_j.sum() == pytest.approx(seen[1])
    assert state.nodes.busy_us.sum() == seen[2]
    assert totals.totals_at(state, PACKED, to_us(40)) == pytest.approx(seen)


def test_pending_jobs_are_reordered() -> None:
    state = state_of([0, 0, 1, 1, 1], [100, 100, 30, 20, 10])
    kernel.run(state, PACKED, to_us(1), False)
    shortest = Knobs(order=Order.SHORTEST, backfill=Backfill.EASY).pack()
    kernel.rebuild_queue(state, PACKED, shortest)
    clock = state.clock[0]
    assert (clock.pending, clock.window_count) == (3, 3)
    assert state.window.tie[:3].tolist() == [4, 3, 2]
    kernel.run(state, shortest, FOREVER_US - 1, False)
    assert state.runs.first_start_us.tolist() == [0, 0, to_us(110), to_us(100), to_us(100)]


def test_a_node_that_fails_is_in_no_bitmap() -> None:
    outages = records(2, OUTAGE)
    outages[0] = (to_us(1), to_us(3), 0)
    outages[1] = (to_us(2), to_us(3), 1)
    state = state_of([0, 0], [10, 10])._replace(outages=outages)
    kernel.run(state, PACKED, to_us(2), False)
    assert not state.bitmaps.any()
    assert state.clock[0].power_w == pytest.approx(0.0)
    assert (state.runs.status == Status.PENDING).all()
    kernel.run(state, PACKED, to_us(3), False)
    assert (state.runs.status == Status.RUNNING).all()
    assert state.runs.failures.tolist() == [1, 1]


@pytest.mark.skipif(
    not config.DISABLE_JIT, reason="inner kernel functions run only with NUMBA_DISABLE_JIT=1"
)
def test_only_ends_can_be_stale() -> None:
    state = state_of([0], [10])
    kernel.run(state, PACKED, 0, False)
    clock = state.clock[0]
    events.push_event(state, to_us(5), TwinEventKind.END, 0)  # an end that is no longer true
    events.push_event(state, to_us(6), TwinEventKind.REPAIR, 1)
    assert clock.event_count == 3
    events.compact_events(state)
    assert clock.event_count == 2
    events.push_event(state, to_us(5), TwinEventKind.END, 0)
    assert events.next_event_us(state) == to_us(6)
    assert clock.event_count == 2
    assert tuple(events.pop_event(state)) == (TwinEventKind.REPAIR, 1)
    assert tuple(events.pop_event(state)) == (TwinEventKind.END, 0)
    assert events.next_event_us(state) == FOREVER_US
