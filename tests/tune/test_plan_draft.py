"""The board: what a plan leaves behind, changes to it, and the plan that comes of them."""

from __future__ import annotations

from tests.tune.plan_drafts import MIXED, NO_PLAN, jobs, lines, twin

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.records import ACTION, records
from flyball.schedule.policies.preset import Preset
from flyball.tune.plan_draft import Board

WHY = int(Reason.GREW)


def test_it_shows_who_runs_where() -> None:
    state = twin(jobs([4, 2, 8, 12], most=0)).state
    board = Board(state, NO_PLAN)
    assert board.active.tolist() == [0, 1, 2, 3]
    assert board.count.tolist() == [4, 2, 8, 0]
    assert board.pool.tolist()[3] == -1
    assert board.free.tolist() == state.nodes.free.tolist()
    assert len(board.plan()) == 0, "nothing changed, nothing to do"


def test_the_plan_it_is_given_counts_as_done() -> None:
    made = twin(jobs([4, 2, 8, 12], most=0), until_s=-1)
    made.step(Preset("p", "", made.knobs))  # the first job is there
    plan = Preset("p", "", made.knobs).decide(made.snapshot())
    board = Board(made.state, plan)
    assert board.plan().tolist() == plan.tolist()
    taken = made.state.nodes.free.sum() - board.free.sum()
    assert taken == sum(devices for kind, _, _, devices in lines(plan) if kind == "START")


def test_a_resize_is_a_stop_and_a_start() -> None:
    made = twin(jobs([4]))
    board = Board(made.state, NO_PLAN)
    board.stop(0, WHY, 3.0)
    assert board.pool[0] == -1 and board.free.sum() == 20
    assert board.start(0, 1, 8, WHY, 3.0, cap=2)
    plan = board.plan()
    assert lines(plan) == [("PREEMPT", 0, -1, 0), ("START", 0, 3, 8)]
    assert plan.gain.tolist() == [3.0, 3.0] and plan.reason.tolist() == [WHY, WHY]
    assert plan.level.tolist() == [0, 2]
    made._carry_out(plan, made.now_us)
    assert (made.state.runs[0].devices, made.state.runs[0].pool) == (8, 1)


def test_what_comes_back_to_its_place_costs_nothing() -> None:
    board = Board(twin(jobs([4, 2])).state, NO_PLAN)
    pool, count = int(board.pool[0]), int(board.count[0])
    board.stop(0, WHY, 1.0)
    assert board.start(0, pool, count, WHY, 1.0)
    assert len(board.plan()) == 0
    board.stop(0, WHY, 1.0)
    assert board.start(0, pool, count, WHY, 1.0, cap=3)
    plan = board.plan()
    assert (plan.kind.tolist(), plan.level.tolist()) == ([ActionKind.CAP], [3])


def test_packed_on_the_fewest_nodes_fullest_first() -> None:
    board = Board(twin(jobs([2, 9, 9, 9], most=0)).state, NO_PLAN)  # 2 of the first T4 node held
    assert board.count.tolist()[:2] == [2, 9]
    for job in (0, 1):
        board.stop(job, WHY, 0.0)
    assert board.start(0, 0, 2, WHY, 0.0)
    assert board.start(2, 0, 1, WHY, 0.0) and board.free.tolist() == [1, 4, 4, 8]
    assert board.start(1, 0, 9, WHY, 0.0) and board.free.tolist() == [0, 0, 0, 8]
    assert not board.start(3, 0, 1, WHY, 0.0), "no room"
    assert not board.start(3, 1, 9, WHY, 0.0), "more than the pool has"
    assert board.room(1, 8) and not board.room(0, 1) and board.free_in(1) == 8
    assert board.nodes_of(1) == [1, 2, 0] and board.held_on(1, 0) == 1


def test_a_planned_start_can_be_taken_back() -> None:
    state = twin(jobs([4, 4]), until_s=0.5).state
    state.runs.status[1] = Status.PENDING
    start = records(1, ACTION)
    start.kind, start.job, start.node, start.mask, start.milli = ActionKind.START, 1, 3, 15, 1000
    board = Board(state, start)
    assert (board.pool[1], board.count[1], board.free[3]) == (1, 4, 4)
    board.stop(1, WHY, 0.0)
    assert (board.pool[1], board.count[1], board.free[3]) == (-1, 0, 8)
    assert len(board.plan()) == 0


def test_a_guest_joins_and_holds_the_device_when_the_holder_leaves() -> None:
    state = twin(jobs([1, 1, 1], most=0), effects=Effects(share_limit=2), until_s=0.5).state
    state.runs.status[1:] = Status.PENDING
    board = Board(state, NO_PLAN)
    free = board.free.sum()
    assert board.join(1, 0, int(Reason.SHARED), 0.3)
    assert board.free.sum() == free and board.guests(0) == [1] and board.guests(1) == [0]
    plan = board.plan()
    assert plan.milli.tolist() == [0] and lines(plan)[0][0] == "START"
    board.stop(0, WHY, 0.0)
    assert board.free.sum() == free, "the guest holds the device now"
    assert board.plan().milli.tolist() == [0, 1000]
    board.stop(1, WHY, 0.0)
    assert board.free.sum() == free + 1
    assert not board.join(2, 1, int(Reason.SHARED), 0.0), "nobody is there"


def test_the_power_budget_holds() -> None:
    free = twin(jobs([8])).state
    watts = float(free.rates.watts[1]) - float(free.pools.idle_w[1])
    idle = float(free.clock[0].power_w) - float(free.runs.devices[0]) * (
        float(free.rates.watts[free.runs.pool[0]]) - float(free.pools.idle_w[free.runs.pool[0]])
    )
    tight = Cluster("tight", MIXED.groups, power_budget_w=idle + 2.5 * watts)
    board = Board(twin(jobs([1]), tight).state, NO_PLAN)
    board.stop(0, WHY, 0.0)
    assert not board.start(0, 1, 3, WHY, 0.0)
    assert board.start(0, 1, 2, WHY, 0.0)


def test_hosts_are_not_overbooked() -> None:
    small = Cluster("small", (NodeGroup("a", 2, "T4", 4, cpus=4),))
    asked = jobs([2, 2, 2], cpu_milli=4000, model=0)  # all cores of a node for half its devices
    board = Board(twin(asked, small).state, NO_PLAN)
    assert board.count.tolist() == [2, 2, 0]
    board.stop(1, WHY, 0.0)
    assert board.start(1, 0, 1, WHY, 0.0)
    assert board.free.tolist() == [2, 3], "the first node has devices but no cores"
    assert not board.start(2, 0, 2, WHY, 0.0)
    assert board.start(2, 0, 1, WHY, 0.0)


def test_sleep_wake_replicas_and_unknown_rows_come_last() -> None:
    state = twin(jobs([4])).state
    reserve = records(1, ACTION)
    reserve.kind, reserve.job, reserve.node = ActionKind.RESERVE, 0, 1
    board = Board(state, reserve)
    board.replicas(5, 3, 0.1)
    board.wake(2, 0.2)
    board.sleep(1, 0.3)
    board.set_cap(0, 4, int(Reason.CAPPED), 0.4)
    plan = board.plan()
    assert [ActionKind(int(kind)).name for kind in plan.kind] == [
        "CAP", "SLEEP", "WAKE", "REPLICAS", "RESERVE",
    ]  # fmt: skip
    assert plan.level.tolist() == [4, 0, 0, 3, 0] and plan.job.tolist()[3] == 5


def test_an_awake_node_is_taken_before_a_sleeping_one() -> None:
    state = twin(jobs([4]), settings=("sleep_s=10",)).state
    state.clock.now_us = 100_000_000
    board = Board(state, NO_PLAN)
    asleep = [node for node in range(3) if board.asleep(node)]
    assert len(asleep) == 2, "those without the job"
    board.stop(0, WHY, 0.0)
    assert board.start(0, 0, 2, WHY, 0.0)
    assert board.nodes_of(0)[0] not in asleep


def test_a_node_that_is_down_takes_nothing() -> None:
    state = twin(jobs([1])).state
    state.nodes.down[:3] = 1
    board = Board(state, NO_PLAN)
    assert board.free.tolist()[:3] == [0, 0, 0] and not board.room(0, 1)
