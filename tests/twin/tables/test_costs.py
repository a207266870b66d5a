"""Costs by application against cases worked by hand, in both twins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.costs import AppCosts, Costs
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Backfill, Knobs
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.twin.build import build_state
from flyball.twin.reference.run import Reference
from flyball.twin.tables.costs import largest_set_up_s, load_costs, names
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

S = 1_000_000
COSTS = Costs(
    "hand",
    {"bert": AppCosts(120.0, 1.5), "cifar10": AppCosts(50.0, 2.0)},
    AppCosts(30.0),
    first_part=1.0,
)
CLUSTER = Cluster("c", (NodeGroup("t4", 2, "T4", 4),))


def workload(*models: str, duration_s: float = 100.0, **rest: Any) -> Workload:
    return Workload.of(
        "w",
        np.zeros(len(models)),
        duration_s,
        **{"devices": 1, **rest},
        model=np.arange(len(models)),
        models=models,
        device=0,
        device_names=("T4",),
    )


def ends_s(effects: Effects, jobs: Workload, knobs: Knobs | None = None) -> list[float]:
    """Return when jobs end, which both twins must agree on."""
    knobs = knobs or Knobs()
    twin = Twin(CLUSTER, jobs, knobs, effects)
    twin.run()
    plain = Reference(build_state(CLUSTER, jobs, knobs, effects), knobs)
    plain.run()
    assert [job.end_us for job in plain.jobs] == twin.state.runs.end_us.tolist()
    return [float(end_us) / S for end_us in twin.state.runs.end_us]


def test_an_application_pays_its_set_up_and_its_slowdown_from_the_first_start_on() -> None:
    jobs = workload("bert:12", "cifar10:128", "LM:20")
    assert ends_s(Effects(costs=COSTS), jobs) == [120 + 150, 50 + 200, 30 + 100]


def test_a_first_start_costs_its_part_of_a_restart() -> None:
    half = replace(COSTS, first_part=0.5)
    assert ends_s(Effects(costs=half), workload("bert:12")) == [60 + 150]
    free = replace(COSTS, first_part=0.0)
    assert ends_s(Effects(costs=free), workload("bert:12")) == [150]


def test_without_costs_a_first_start_is_free_and_nothing_is_slowed_down() -> None:
    assert ends_s(Effects(), workload("bert:12", "cifar10:128")) == [100, 100]


def test_backfill_counts_the_set_up_of_a_first_start() -> None:
    # Job 1 needs both nodes when job 0 ends at 30 + 100; job 2 would take 30 + 90 of that, job 3
    # 30 + 110. Only job 2 may go ahead of job 1.
    jobs = Workload.of(
        "w", [0.0, 1.0, 2.0, 2.0], [100.0, 10.0, 90.0, 110.0], [4, 8, 4, 4],
        model=0, models=("LM:20",), device=0, device_names=("T4",),
    )  # fmt: skip
    twin = Twin(CLUSTER, jobs, Knobs(backfill=Backfill.EASY), Effects(costs=COSTS, network=False))
    twin.run()
    first_s = (twin.state.runs.first_start_us / S).tolist()
    assert first_s[2] == 2.0
    assert first_s[1] == 130.0
    assert first_s[3] > 130.0
    ends_s(Effects(costs=COSTS, network=False), jobs, Knobs(backfill=Backfill.EASY))


@dataclass(frozen=True)
class Move:
    """Moves job 0 to `devices` of the other node in the round at 100 s."""

    devices: int

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        if int(state.clock[0].now_us) != 100 * S:
            return plan
        node = int(state.rows[state.runs[0].first_row].node)
        moves = records(2, ACTION)
        moves.kind = ActionKind.PREEMPT, ActionKind.START
        moves.node, moves.milli = (-1, 1 - node), 1000
        moves.mask = 0, (1 << self.devices) - 1
        return moves


def moved_end_s(costs: Costs, devices: int, least: int, most: int, to: int) -> float:
    """Return the end of a job of `devices` that goes on with `to` devices at 100 s."""
    jobs = workload("cifar10:128", duration_s=300.0, devices=devices)
    jobs = replace(jobs, least=np.array([least]), most=np.array([most]))
    plans: dict[int, list[Records]] = {}
    tuning = Tuning(
        (Move(to),), Preset("p", "", Knobs()), 100.0,
        note=lambda now, plan: plans.setdefault(now, []).append(plan.copy()),
    )  # fmt: skip
    effects = Effects(costs=costs)
    twin = Twin(CLUSTER, jobs, Knobs(), effects, tuning=tuning)
    twin.run()
    plain = Reference(build_state(CLUSTER, jobs, Knobs(), effects), Knobs(), plans=plans)
    plain.run()
    assert plain.jobs[0].end_us == int(twin.state.runs.end_us[0])
    return float(twin.state.runs.end_us[0]) / S


def test_a_move_in_the_same_shape_is_free_only_where_costs_say_so() -> None:
    free = replace(COSTS, free_moves=True)
    # 50 s of set-up, then 600 s of work: 50 of them are done at 100 s.
    assert moved_end_s(free, 2, 2, 2, 2) == 650.0
    assert moved_end_s(COSTS, 2, 2, 2, 2) == 100 + 50 + 550


def test_a_free_move_does_not_shorten_a_set_up_under_way() -> None:
    slow = replace(COSTS, free_moves=True, applications={"cifar10": AppCosts(130.0, 2.0)})
    assert moved_end_s(slow, 2, 2, 2, 2) == 130 + 600


def test_another_number_of_devices_is_another_shape() -> None:
    free = replace(COSTS, free_moves=True)
    end_s = moved_end_s(free, 1, 1, 2, 2)
    jobs = workload("cifar10:128", duration_s=300.0)
    jobs = replace(jobs, least=np.array([1]), most=np.array([2]))
    twin = Twin(CLUSTER, jobs, Knobs(), Effects(costs=free))
    held = twin.state.ranges[0]
    rate = float(twin.state.points[int(held.first) + 2 - int(held.least)].packed)
    assert end_s == pytest.approx(100 + 50 + 550 / rate, abs=1e-5)


class Table:
    """Run times for the twin: twice as fast on two devices, and 5 % slower across nodes."""

    def rigid_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        return None if devices > 4 else 400.0 / devices * (1.05 if across else 1.0)

    def elastic_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        rigid_s = self.rigid_s(model, device, devices, across)
        return None if rigid_s is None else rigid_s / 2

    def steps_per_s(self, model: str, device: str, devices: int, across: bool) -> float:
        return 3.0


def test_tabulated_run_times_replace_the_speed_model() -> None:
    jobs = replace(workload("cifar10:128", duration_s=200.0, devices=2), most=np.array([5]))
    jobs = replace(jobs, least=np.array([1]))
    effects = Effects(costs=replace(COSTS, run_times=Table()), adaptive_batch=True)
    state = build_state(CLUSTER, jobs, Knobs(), effects)
    assert float(state.rates[0].packed) == 1.0
    assert float(state.rates[0].spread) == pytest.approx(1 / 1.05)
    assert float(state.rates[0].steps) == 3.0
    # By the best batch: 200 s on one device, 50 on four, none on five.
    assert state.points.packed.tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0, 0.0])


def test_presets_have_the_figures_of_their_simulators() -> None:
    sia, pollux = load_costs("sia"), load_costs("pollux")
    assert names() == ["sia", "pollux"]
    assert sia.of("imagenet") == AppCosts(250.0, 1.2)
    assert sia.of("cifar10") == AppCosts(50.0, 1.8)
    assert sia.of("somebody's") == AppCosts(30.0, 1.0)
    assert pollux.of("imagenet") == AppCosts(30.0, 1.0)
    assert (sia.first_part, sia.free_moves, sia.round_s) == (1.0, True, 60.0)
    assert (pollux.first_part, pollux.free_moves, pollux.round_s) == (1.0, False, 60.0)
    assert largest_set_up_s(Effects(costs=sia)) == 250.0


def test_costs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UnknownName, match="sia"):
        load_costs("sai")
    with pytest.raises(BadInput, match="slowdown"):
        replace(COSTS, others=AppCosts(1.0, 0.0))
    with pytest.raises(BadInput, match="first_part"):
        replace(COSTS, first_part=-1.0)
