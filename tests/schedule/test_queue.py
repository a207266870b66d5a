"""The queue: jobs come out in order whether they stand in the window or in the heaps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule import queue
from flyball.twin.build import build_state

pytestmark = [
    pytest.mark.nojit,
    pytest.mark.skipif(
        not config.DISABLE_JIT, reason="inner kernel functions run only with NUMBA_DISABLE_JIT=1"
    ),
]

EASY: dict[str, Any] = {"order": Order.SHORTEST, "backfill": Backfill.EASY}
DURATIONS = st.lists(st.integers(1, 6), min_size=1, max_size=20)


def queued(durations: list[int], knobs: Knobs, arrivals: list[int] | None = None) -> State:
    """Jobs of two shapes in the queue, in this order of arrival."""
    size = len(durations)
    workload = Workload.of(
        "case", [0.0] * size, durations, [1 + at % 2 for at in range(size)], kind=0
    )
    cluster = Cluster("case", (NodeGroup("n", 1, "V100", 2),))
    state = build_state(cluster, workload, knobs, Effects())
    for job in arrivals if arrivals is not None else range(size):
        queue.enqueue(state, knobs.pack()[0], job, 0)
    return state


def window(state: State) -> list[int]:
    ties: list[int] = state.window.tie[: state.clock[0].window_count].tolist()
    return ties


def in_order(durations: list[int]) -> list[int]:
    return sorted(range(len(durations)), key=lambda job: (durations[job], job))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(DURATIONS, st.integers(1, 25), st.data())
def test_the_window_holds_the_first(durations: list[int], depth: int, data: st.DataObject) -> None:
    knobs = Knobs(**EASY, depth=depth)
    arrivals = data.draw(st.permutations(range(len(durations))))
    state = queued(durations, knobs, arrivals)
    assert state.clock[0].pending == len(durations)
    queue.refill_window(state, knobs.pack()[0])
    assert window(state) == in_order(durations)[:depth]
    heaps = int(state.shapes.pending.sum())
    assert heaps + len(window(state)) == len(durations)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(DURATIONS, st.integers(1, 25), st.data())
def test_any_job_can_be_taken_out(durations: list[int], depth: int, data: st.DataObject) -> None:
    knobs = Knobs(**EASY, depth=depth)
    state = queued(durations, knobs)
    gone = data.draw(st.sampled_from(range(len(durations))))
    assert queue.remove(state, gone)
    assert not queue.remove(state, gone)
    state.clock[0].pending -= 1
    queue.refill_window(state, knobs.pack()[0])
    assert window(state) == [job for job in in_order(durations) if job != gone][:depth]


def test_without_a_window_the_heaps_give_the_first() -> None:
    knobs = Knobs(order=Order.SHORTEST)
    durations = [5, 3, 2, 3, 9]
    state = queued(durations, knobs)
    assert state.clock[0].window_count == 0
    assert (state.runs.status == Status.PENDING).all()
    jobs = []
    while (shape_id := queue.first_shape(state, False, False)) >= 0:
        shape = state.shapes[shape_id]
        jobs.append(int(state.queue[shape.begin].tie))
        queue.drop_first(state, shape)
    assert jobs == in_order(durations)


def test_blocked_and_passed_shapes_are_left_out() -> None:
    state = queued([1, 2], Knobs(order=Order.SHORTEST))
    first, second = state.jobs.shape_id
    assert queue.first_shape(state, True, True) == first
    state.shapes[first].blocked = 1
    assert queue.first_shape(state, True, False) == second
    assert queue.first_shape(state, False, True) == first
    state.shapes[second].passed = 1
    assert queue.first_shape(state, True, True) == -1
    queue.forget_failures(state)
    assert queue.first_shape(state, True, True) == first


def test_gaps_are_closed() -> None:
    state = queued([1, 2, 3, 4], Knobs(**EASY))
    state.window.tie[[0, 2]] = -1
    queue.close_gaps(state, 0)
    assert window(state) == [1, 3]


def test_gaps_before_the_first_one_are_not_looked_for() -> None:
    state = queued([1, 2, 3, 4], Knobs(**EASY))
    state.window.tie[[1, 3]] = -1
    queue.close_gaps(state, 1)
    assert window(state) == [0, 2]
