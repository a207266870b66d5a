"""The plan draft: the cluster after a plan, changes to it, and the resulting plan."""

from __future__ import annotations

from tests.tune.plan_drafts import MIXED, NO_PLAN, jobs, lines, twin

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.records import ACTION, records
from flyball.schedule.policies.preset import Preset
from flyball.tune.plan_draft import PlanDraft

WHY = int(Reason.GREW)


def test_it_shows_which_job_runs_where() -> None:
    state = twin(jobs([4, 2, 8, 12], most=0)).state
    draft = PlanDraft(state, NO_PLAN)
    assert draft.active.tolist() == [0, 1, 2, 3]
    assert draft.count.tolist() == [4, 2, 8, 0]
    assert draft.pool.tolist()[3] == -1
    assert draft.free.tolist() == state.nodes.free.tolist()
    assert len(draft.plan()) == 0, "nothing changed, nothing to do"


def test_the_plan_it_is_given_counts_as_done() -> None:
    result = twin(jobs([4, 2, 8, 12], most=0), until_s=-1)
    result.step(Preset("p", "", result.knobs))  # the first job is there
    plan = Preset("p", "", result.knobs).decide(result.snapshot())
    draft = PlanDraft(result.state, plan)
    assert draft.plan().tolist() == plan.tolist()
    taken = result.state.nodes.free.sum() - draft.free.sum()
    assert taken == sum(devices for kind, _, _, devices in lines(plan) if kind == "START")


def test_a_resize_is_a_stop_and_a_start() -> None:
    result = twin(jobs([4]))
    draft = PlanDraft(result.state, NO_PLAN)
    draft.stop(0, WHY, 3.0)
    assert draft.pool[0] == -1 and draft.free.sum() == 20
    assert draft.start(0, 1, 8, WHY, 3.0, cap=2)
    plan = draft.plan()
    assert lines(plan) == [("PREEMPT", 0, -1, 0), ("START", 0, 3, 8)]
    assert plan.gain.tolist() == [3.0, 3.0] and plan.reason.tolist() == [WHY, WHY]
    assert plan.level.tolist() == [0, 2]
    result._carry_out(plan, result.now_us)
    assert (result.state.runs[0].devices, result.state.runs[0].pool) == (8, 1)


def test_a_job_back_in_its_place_causes_no_action() -> None:
    draft = PlanDraft(twin(jobs([4, 2])).state, NO_PLAN)
    pool, count = int(draft.pool[0]), int(draft.count[0])
    draft.stop(0, WHY, 1.0)
    assert draft.start(0, pool, count, WHY, 1.0)
    assert len(draft.plan()) == 0
    draft.stop(0, WHY, 1.0)
    assert draft.start(0, pool, count, WHY, 1.0, cap=3)
    plan = draft.plan()
    assert (plan.kind.tolist(), plan.level.tolist()) == ([ActionKind.CAP], [3])


def test_packed_on_the_fewest_nodes_fullest_first() -> None:
    # Two devices of the first T4 node are held.
    draft = PlanDraft(twin(jobs([2, 9, 9, 9], most=0)).state, NO_PLAN)
    assert draft.count.tolist()[:2] == [2, 9]
    for job in (0, 1):
        draft.stop(job, WHY, 0.0)
    assert draft.start(0, 0, 2, WHY, 0.0)
    assert draft.start(2, 0, 1, WHY, 0.0) and draft.free.tolist() == [1, 4, 4, 8]
    assert draft.start(1, 0, 9, WHY, 0.0) and draft.free.tolist() == [0, 0, 0, 8]
    assert not draft.start(3, 0, 1, WHY, 0.0), "no room"
    assert not draft.start(3, 1, 9, WHY, 0.0), "more than the pool has"
    assert draft.room(1, 8) and not draft.room(0, 1) and draft.free_in(1) == 8
    assert draft.nodes_of(1) == [1, 2, 0]


def test_a_planned_start_can_be_taken_back() -> None:
    state = twin(jobs([4, 4]), until_s=0.5).state
    state.runs.status[1] = Status.PENDING
    start = records(1, ACTION)
    start.kind, start.job, start.node, start.mask, start.milli = ActionKind.START, 1, 3, 15, 1000
    draft = PlanDraft(state, start)
    assert (draft.pool[1], draft.count[1], draft.free[3]) == (1, 4, 4)
    draft.stop(1, WHY, 0.0)
    assert (draft.pool[1], draft.count[1], draft.free[3]) == (-1, 0, 8)
    assert len(draft.plan()) == 0


def test_a_guest_joins_and_holds_the_device_when_the_holder_leaves() -> None:
    state = twin(jobs([1, 1, 1], most=0), effects=Effects(share_limit=2), until_s=0.5).state
    state.runs.status[1:] = Status.PENDING
    draft = PlanDraft(state, NO_PLAN)
    free = draft.free.sum()
    assert draft.join(1, 0, int(Reason.SHARED), 0.3)
    assert draft.free.sum() == free and draft.guests(0) == [1] and draft.guests(1) == [0]
    plan = draft.plan()
    assert plan.milli.tolist() == [0] and lines(plan)[0][0] == "START"
    draft.stop(0, WHY, 0.0)
    assert draft.free.sum() == free, "the guest holds the device now"
    assert draft.plan().milli.tolist() == [0, 1000]
    draft.stop(1, WHY, 0.0)
    assert draft.free.sum() == free + 1
    assert not draft.join(2, 1, int(Reason.SHARED), 0.0), "no job is there"


def test_the_power_budget_holds() -> None:
    free = twin(jobs([8])).state
    watts = float(free.rates.watts[1]) - float(free.pools.idle_w[1])
    idle = float(free.clock[0].power_w) - float(free.runs.devices[0]) * (
        float(free.rates.watts[free.runs.pool[0]]) - float(free.pools.idle_w[free.runs.pool[0]])
    )
    tight = Cluster("tight", MIXED.groups, power_budget_w=idle + 2.5 * watts)
    draft = PlanDraft(twin(jobs([1]), tight).state, NO_PLAN)
    draft.stop(0, WHY, 0.0)
    assert not draft.start(0, 1, 3, WHY, 0.0)
    assert draft.start(0, 1, 2, WHY, 0.0)


def test_hosts_are_not_overbooked() -> None:
    small = Cluster("small", (NodeGroup("a", 2, "T4", 4, cpus=4),))
    asked = jobs([2, 2, 2], cpu_milli=4000, model=0)  # all cores of a node for half its devices
    draft = PlanDraft(twin(asked, small).state, NO_PLAN)
    assert draft.count.tolist() == [2, 2, 0]
    draft.stop(1, WHY, 0.0)
    assert draft.start(1, 0, 1, WHY, 0.0)
    assert draft.free.tolist() == [2, 3], "the first node has devices but no cores"
    assert not draft.start(2, 0, 2, WHY, 0.0)
    assert draft.start(2, 0, 1, WHY, 0.0)


def test_sleep_wake_replicas_and_unknown_rows_come_last() -> None:
    state = twin(jobs([4])).state
    reserve = records(1, ACTION)
    reserve.kind, reserve.job, reserve.node = ActionKind.RESERVE, 0, 1
    draft = PlanDraft(state, reserve)
    draft.replicas(5, 3, 0.1)
    draft.wake(2, 0.2)
    draft.sleep(1, 0.3)
    draft.set_cap(0, 4, int(Reason.CAPPED), 0.4)
    plan = draft.plan()
    assert [ActionKind(int(kind)).name for kind in plan.kind] == [
        "CAP", "SLEEP", "WAKE", "REPLICAS", "RESERVE",
    ]  # fmt: skip
    assert plan.level.tolist() == [4, 0, 0, 3, 0] and plan.job.tolist()[3] == 5


def test_an_awake_node_is_taken_before_a_sleeping_one() -> None:
    state = twin(jobs([4]), settings=("sleep_s=10",)).state
    state.clock.now_us = 100_000_000
    draft = PlanDraft(state, NO_PLAN)
    asleep = [node for node in range(3) if draft.asleep(node)]
    assert len(asleep) == 2, "those without the job"
    draft.stop(0, WHY, 0.0)
    assert draft.start(0, 0, 2, WHY, 0.0)
    assert draft.nodes_of(0)[0] not in asleep


def test_a_node_that_is_down_takes_nothing() -> None:
    state = twin(jobs([1])).state
    state.nodes.down[:3] = 1
    draft = PlanDraft(state, NO_PLAN)
    assert draft.free.tolist()[:3] == [0, 0, 0] and not draft.room(0, 1)
