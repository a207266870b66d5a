"""Each effect of tuning against a case worked by hand: the figures come from the state's tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Reason, Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Place, Preempt
from flyball.core.protocols import Outlook
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.tune.plan_draft import PlanDraft
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

S = 1_000_000
WHY = int(Reason.MOVED)
Orders = dict[int, Callable[[PlanDraft], Any]]


@dataclass(frozen=True)
class Script:
    """A tuner that runs the function set for each instant (in seconds)."""

    orders: Orders = field(default_factory=dict)

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        draft = PlanDraft(state, plan)
        order = self.orders.get(draft.now_us // S)
        if order is not None:
            order(draft)
        return draft.plan()


def twin_of(
    workload: Workload,
    orders: Orders,
    effects: Effects | None = None,
    knobs: Knobs | None = None,
    nodes: int = 1,
    **rest: Any,
) -> Twin:
    cluster = Cluster("c", (NodeGroup("t4", nodes, "T4", 4),))
    knobs = knobs or Knobs()
    tuning = Tuning((Script(orders),), Preset("p", "", knobs), 100.0, **rest)
    effects = effects or Effects(restart_s=(10.0, 10.0, 10.0))
    return Twin(cluster, workload, knobs, effects, tuning=tuning)


def jobs(size: int = 1, duration_s: Any = 1000.0, model: str = "cifar10:256", **rest: Any) -> Any:
    columns = {"devices": 1, "model": 0, "models": (model,), "device": 0, "device_names": ("T4",)}
    return Workload.of("w", np.zeros(size), duration_s, **{**columns, **rest})


def point(twin: Twin, count: int) -> float:
    """Return the progress per microsecond of job 0 on `count` devices."""
    held = twin.state.ranges[twin.state.jobs[0].curve]
    return float(twin.state.points[held.first + count - held.least].packed)


def test_a_job_that_grows_pays_for_the_restart_and_then_runs_along_its_curve() -> None:
    def grow(draft: PlanDraft) -> None:
        draft.stop(0, WHY, 0.0)
        assert draft.start(0, 0, 4, WHY, 0.0)

    twin = twin_of(jobs(least=1, most=4), {100: grow})
    twin.run()
    # 100 s alone at speed 1, then 10 s of restart, then the rest four wide.
    left_us = (1000 - 100) * S
    assert twin.state.runs[0].end_us == 110 * S + math.ceil(left_us / point(twin, 4))
    assert 1.0 < point(twin, 4) < 4.0
    run = twin.state.runs[0]
    assert run.service_us == 100 * S + 4 * (run.end_us - 100 * S)
    assert (run.preemptions, run.attempt, run.devices) == (1, 2, 4)


def test_a_checkpoint_is_written_out_of_the_end_of_the_slice() -> None:
    def shrink(draft: PlanDraft) -> None:
        draft.stop(0, WHY, 0.0)
        assert draft.start(0, 0, 1, WHY, 0.0)

    effects = Effects(restart_s=(10.0, 10.0, 10.0), checkpoint_s=5.0)
    twin = twin_of(jobs(least=1, most=4), {100: shrink}, effects)
    twin.state.runs[0].done_us = 0.0
    twin.run()
    assert twin.state.runs[0].attempt == 1  # it was where it should go: nothing happened

    def two(draft: PlanDraft) -> None:
        draft.stop(0, WHY, 0.0)
        assert draft.start(0, 0, 2, WHY, 0.0)

    twin = twin_of(jobs(least=1, most=4), {100: two}, effects)
    twin.run()
    left_us = (1000 - 95) * S
    assert twin.state.runs[0].end_us == 110 * S + math.ceil(left_us / point(twin, 2))
    assert twin.state.runs[0].lost_us == 5 * S


def test_a_cap_slows_and_saves_from_its_instant_on() -> None:
    level = 4
    order = {200: lambda draft: draft.set_cap(0, level, WHY, 0.0)}
    twin = twin_of(jobs(), order)
    twin.run()
    cap = twin.state.caps[level]
    assert cap.slowdown > 1.0
    assert twin.state.runs[0].end_us == 200 * S + math.ceil((1000 - 200) * S / (1 / cap.slowdown))
    rate, pool = twin.state.rates[0], twin.state.pools[0]
    idle_w = pool.host_w + 4 * pool.idle_w
    drawn = (idle_w + (rate.watts - pool.idle_w)) * 200
    capped_w = idle_w + (rate.watts * cap.power - pool.idle_w)
    drawn += capped_w * (twin.state.runs[0].end_us / S - 200)
    assert twin.state.nodes[0].energy_j == pytest.approx(drawn, rel=1e-12)


def test_the_common_cap_is_the_least_there_is() -> None:
    order = {200: lambda draft: draft.set_cap(0, 0, WHY, 0.0)}
    twin = twin_of(jobs(), order, knobs=Knobs(cap=0.8))
    twin.run()
    slowdown = float(twin.state.caps[4].slowdown)
    assert twin.state.runs[0].end_us == math.ceil(1000 * S / (1 / slowdown))
    assert CAP_LEVELS == 11


def test_a_guest_slows_its_host_and_is_slowed_and_holds_the_device_next() -> None:
    workload = jobs(6, devices=1, model="LM (batch size 20)", device_names=("V100",))
    cluster = Cluster("c", (NodeGroup("v", 1, "V100", 4),))
    knobs = Knobs()
    script = Script({100: lambda draft: draft.join(5, 0, WHY, 0.0)})
    tuning = Tuning((script,), Preset("p", "", knobs), 100.0, between=False)
    # Rounds alone decide; four jobs start at 0 by the first decision of the policy.
    twin = Twin(cluster, workload, knobs, Effects(share_limit=2), tuning=tuning)
    twin.run(100 * S)
    runs = twin.state.runs
    speed = float(twin.state.pairs[0])
    assert 0.5 < speed < 1.0
    assert runs[5].status == Status.RUNNING
    assert runs[0].slow == runs[5].slow == speed
    assert twin.state.nodes[0].used_milli == 4000  # a guest takes no capacity
    twin.run()
    # Both did their work at the same speed side by side from 100 s on; job 0 began at 100 s too.
    began = 100 * S
    assert runs[0].end_us == runs[5].end_us == began + math.ceil(1000 * S / speed)


def test_a_job_left_alone_regains_its_speed() -> None:
    rest: dict[str, Any] = {"model": "LM (batch size 20)", "device_names": ("V100",)}
    workload = jobs(2, duration_s=np.array([300.0, 1000.0]), **rest)
    cluster = Cluster("c", (NodeGroup("v", 1, "V100", 1),))
    script = Script({100: lambda draft: draft.join(1, 0, WHY, 0.0)})
    tuning = Tuning((script,), Preset("p", "", Knobs()), 100.0)
    twin = Twin(cluster, workload, Knobs(), Effects(share_limit=2), tuning=tuning)
    twin.run()
    speed = float(twin.state.pairs[0])
    ends = twin.state.runs.end_us
    assert ends[0] == 100 * S + math.ceil(200 * S / speed)
    done = (ends[0] - 100 * S) * speed
    assert ends[1] == ends[0] + math.ceil(1000 * S - done)
    row = twin.state.rows[0]
    assert row.milli in (0, 1000)
    assert twin.state.nodes[0].busy_us == ends[1]  # one device, however many jobs


def test_a_node_sent_to_sleep_draws_less_and_a_start_waits_for_it() -> None:
    workload = jobs(2, duration_s=50.0)
    late = Workload.of(
        "w", [0.0, 250.0], 50.0, model=0, models=workload.models, device=0, device_names=("T4",)
    )
    twin = twin_of(late, {100: lambda draft: draft.sleep(0, 0.0)})
    twin.run()
    pool = twin.state.pools[0]
    assert twin.state.runs[1].end_us == 250 * S + pool.wake_us + 50 * S
    assert twin.state.nodes[0].asleep_us == 150 * S


def test_a_node_woken_ahead_is_ready_when_the_job_comes() -> None:
    late = Workload.of(
        "w", [0.0, 700.0], 50.0, model=0, models=("cifar10:256",), device=0, device_names=("T4",)
    )
    orders: Orders = {
        100: lambda draft: draft.sleep(0, 0.0),
        400: lambda draft: draft.wake(0, 0.0),
    }
    twin = twin_of(late, orders)
    twin.run()
    pool = twin.state.pools[0]
    ready_us = max(700 * S, 400 * S + int(pool.wake_us))
    assert twin.state.runs[1].end_us == ready_us + 50 * S
    assert twin.state.nodes[0].asleep_us == 300 * S


def test_a_move_lets_a_gang_in() -> None:
    """Two nodes with three of four devices taken each: one job moves, and four wide fits."""
    workload = jobs(3, devices=np.array([3, 1, 4]), duration_s=1000.0)

    def move(draft: PlanDraft) -> None:
        assert not draft.room(0, 4)
        draft.stop(1, WHY, 0.0)
        assert draft.start(2, 0, 4, int(Reason.MADE_ROOM), 0.0)
        assert draft.start(1, 0, 1, WHY, 0.0)

    # Spread puts the second job on the empty node, so that no node is wholly free.
    twin = twin_of(workload, {100: move}, knobs=Knobs(place=Place.SPREAD), nodes=2)
    twin.run()
    runs = twin.state.runs
    assert runs[2].first_start_us == 100 * S
    assert runs[1].end_us == 100 * S + 10 * S + 900 * S


def test_a_service_scales_and_ends() -> None:
    workload = jobs(3, duration_s=1e6, group=0, group_limits=(1,))
    orders: Orders = {
        100: lambda draft: draft.replicas(0, 3, 0.0),
        200: lambda draft: draft.replicas(0, 1, 0.0),
        300: lambda draft: draft.replicas(0, -1, 0.0),
    }
    twin = twin_of(workload, orders)
    twin.run(150 * S)
    assert (twin.state.runs.status == Status.RUNNING).sum() == 3
    twin.run(250 * S)
    assert twin.state.runs.status.tolist() == [Status.RUNNING, Status.HELD, Status.HELD]
    assert twin.state.nodes[0].used_milli == 1000
    twin.run()
    assert twin.finished
    assert twin.now_us == 300 * S
    # One for 300 s and two for 100 s: the fourth device was never used.
    assert twin.state.nodes[0].busy_us == (300 + 2 * 100) * S


def test_a_budget_holds_when_a_cap_is_lifted() -> None:
    """The kernel applies caps as planned; the tuners keep the budget (see their tests)."""
    twin = twin_of(jobs(4), {100: lambda draft: draft.set_cap(0, 6, WHY, 0.0)})
    twin.run(50 * S)
    before = float(twin.state.clock[0].power_w)
    twin.run(100 * S)
    saved = float(twin.state.rates[0].watts) * (1 - float(twin.state.caps[6].power))
    assert twin.state.clock[0].power_w == pytest.approx(before - saved, rel=1e-12)
    assert twin.state.clock[0].peak_power_w == before


@pytest.mark.parametrize("order", [Order.SHARES, Order.FAIR])
def test_orders_that_count_devices_as_asked_are_refused(order: Order) -> None:
    knobs = Knobs(order=order, preempt=Preempt.ROUNDS)
    tuning = Tuning((Script(),), Preset("p", "", knobs))
    with pytest.raises(BadInput, match="do not go with tuners"):
        tuning.check(knobs)


def test_sharing_does_not_go_with_preemption() -> None:
    with pytest.raises(BadInput, match="sharing of devices"):
        twin_of(jobs(), {}, Effects(share_limit=2), Knobs(preempt=Preempt.ROUNDS))


def test_what_tuners_see_is_what_they_may_know() -> None:
    effects = Effects(speed_error=0.3, adaptive_batch=True)
    twin = twin_of(jobs(least=1, most=4), {}, effects)
    seen = twin.visible()
    assert np.isnan(seen.jobs.work_us).all()
    assert seen.points is twin.state.guesses
    assert not np.array_equal(twin.state.points.packed, seen.points.packed)
    twin.run(300 * S)
    true, guess = point(twin, 1), float(twin.state.guesses.packed[0])
    assert twin.state.learned[0] == pytest.approx(true / guess)
