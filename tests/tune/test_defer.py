"""Jobs that wait for cheap or clean electricity, and budgets of a day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_compiled_is_reference import QUIET

from flyball.app import PolicySetting, build_twin
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.forecast import Forecast, Outlook
from flyball.core.knobs import Knobs
from flyball.core.records import ACTION, Records, records
from flyball.core.signals import DAY_US, HOUR_US, Signal
from flyball.core.state import State
from flyball.core.units import J_PER_KWH, to_us
from flyball.core.workload import Workload
from flyball.schedule.explain import explain
from flyball.schedule.policies.preset import Preset
from flyball.tune.defer import Defer, planned_hours
from flyball.tune.power import Power
from flyball.tune.signal_costs import costs_of, ration_w, relative_cost
from flyball.twin.inputs.cluster_file import parse_cluster
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

NOTHING = records(0, ACTION)
DEAR = np.array([10.0, 10.0, 2.0, 10.0, 10.0, 10.0])
ROOM = np.full(60, 8.0)


def hours_of(
    latest_h: list[float],
    run_h: list[float],
    devices: list[float],
    room: Any = ROOM,
    margin: float = 0.02,
) -> list[int]:
    latest, length, size = (np.array(column) for column in (latest_h, run_h, devices))
    hours, _savings = planned_hours(DEAR, room, latest, length, size, margin)
    return [int(hour) for hour in hours]


# The plan ----------------------------------------------------------------------------


def test_a_job_starts_in_the_cheapest_hour_that_it_can_reach() -> None:
    assert hours_of([3.0], [1.0], [1.0]) == [2]
    assert hours_of([1.5], [1.0], [1.0]) == [0]  # both hours cost the same
    assert hours_of([3.0], [2.0], [1.0]) == [1]  # hours 1 and 2 cost 12, as 2 and 3 do


def test_a_job_does_not_wait_for_less_than_the_margin() -> None:
    mean = float(DEAR.mean())
    saving = (10.0 - 2.0) / mean
    assert hours_of([3.0], [1.0], [1.0], margin=saving - 0.01) == [2]
    assert hours_of([3.0], [1.0], [1.0], margin=saving + 0.01) == [0]


def test_hours_without_room_are_left_out_and_the_first_planned_take_theirs() -> None:
    tight = ROOM.copy()
    tight[2] = 1.0
    assert hours_of([3.0, 3.0], [1.0, 1.0], [1.0, 1.0], tight) == [2, 0]
    assert hours_of([3.0], [1.0], [9.0]) == [0]  # no hour has room: it queues


def test_costs_are_money_or_carbon_or_both() -> None:
    price = Forecast((0.5,), np.full((1, 3), 0.2), np.full(3, 0.2), 3600.0)
    carbon = Forecast((0.5,), np.full((1, 3), 400.0), np.full(3, 400.0), 3600.0)
    both = Outlook(price=price, carbon=carbon)
    assert costs_of(0.1, 100.0, both, 0.0).tolist() == [0.1, 0.2, 0.2, 0.2]  # type: ignore[union-attr]
    weighed = costs_of(0.1, 100.0, both, 0.5)
    assert weighed is not None
    assert weighed.tolist() == pytest.approx([0.15, 0.4, 0.4, 0.4])
    assert costs_of(None, 100.0, both, 0.5).tolist() == [100.0, 400.0, 400.0, 400.0]  # type: ignore[union-attr]
    assert costs_of(0.1, None, Outlook(), 0.5) is None
    assert relative_cost(np.array([3.0, 1.0, 1.0, 1.0])) == 2.0
    assert relative_cost(np.array([-3.0, 1.0, 1.0, 5.0])) == 0.0


# In the twin -------------------------------------------------------------------------


def priced(day: list[float], nodes: int = 4, **more: Any) -> Cluster:
    groups = (NodeGroup("n", nodes, "V100", 4),)
    return Cluster("c", groups, price=Signal.profile(day, DAY_US), **more)


def deferring(
    cluster: Cluster,
    work: Workload,
    slack_s: float,
    tuner: Defer | None = None,
    every_s: float = 600.0,
) -> Twin:
    tuning = Tuning((tuner or Defer(),), Preset("p", "", Knobs()), every_s)
    return Twin(cluster, work, Knobs(), Effects(slack_s=slack_s), tuning=tuning)


CHEAP_AT_3 = [1.0] * 3 + [0.1] + [1.0] * 20


def test_a_job_waits_for_the_cheap_hour_and_is_explained_meanwhile() -> None:
    work = Workload.of("w", [0.0, 0.0], [3000.0, 3000.0], 1)
    twin = deferring(priced(CHEAP_AT_3), work, 6 * 3600.0)
    twin.run(to_us(3600.0))
    assert twin.state.runs.status.tolist() == [Status.HELD] * 2
    why = explain(twin.snapshot(), Knobs(), 0)
    assert why.token == "deferred"
    assert why.numbers["latest_in_s"] == 5 * 3600.0
    assert why.numbers["price_per_kwh"] == 1.0
    twin.run()
    assert (twin.state.runs.first_start_us == 3 * HOUR_US).all()


def test_without_the_tuner_a_deferrable_job_starts_at_its_latest_start() -> None:
    work = Workload.of("w", [0.0, 600.0], [60.0, 60.0], 1)
    twin = Twin(priced(CHEAP_AT_3), work, Knobs(), Effects(slack_s=1000.0))
    twin.run()
    assert twin.state.runs.first_start_us.tolist() == [to_us(1000.0), to_us(1600.0)]


def test_a_running_job_is_paused_for_a_cheaper_rest() -> None:
    work = Workload.of("w", [0.0], [4 * 3600.0], 1)
    day = [0.01] * 2 + [9.0] * 4 + [5.0] * 18  # to start now costs 18, at 06:00 20
    twin = deferring(priced(day), work, 8 * 3600.0, Defer(pause=0.1))
    twin.run()
    run = twin.state.runs[0]
    assert run.first_start_us == to_us(600.0)
    assert run.preemptions == 1  # its rest costs less from 06:00 on
    assert run.end_us > 6 * HOUR_US
    assert run.end_us <= run.deadline_us


@st.composite
def problems(draw: st.DrawFn) -> tuple[Cluster, Workload, float, float]:
    day = [draw(st.sampled_from((-1.0, 0.5, 1.0, 2.0, 5.0))) for _ in range(24)]
    size = draw(st.integers(1, 12))
    submit = [draw(st.integers(0, 30 * 3600)) for _ in range(size)]
    duration = [draw(st.sampled_from((60.0, 1800.0, 7200.0, 20000.5))) for _ in range(size)]
    cluster = priced(day, nodes=12)  # a device for each job: none ever queues
    work = Workload.of("w", submit, duration, draw(st.sampled_from((1, 2, 4))))
    slack_s = draw(st.sampled_from((900.0, 4 * 3600.0, 24 * 3600.0)))
    return cluster, work, slack_s, draw(st.sampled_from((0.0, 0.05)))


@given(problems())
@settings(max_examples=8, **QUIET)
def test_no_deadline_is_broken_by_deferral(
    problem: tuple[Cluster, Workload, float, float],
) -> None:
    cluster, work, slack_s, pause = problem
    twin = deferring(cluster, work, slack_s, Defer(pause=pause), 1800.0)
    twin.run()
    runs: Any = twin.state.runs
    assert (runs.status == Status.DONE).all()
    assert (runs.first_start_us <= work.submit_us + to_us(slack_s)).all()
    assert (runs.end_us <= runs.deadline_us).all()


# Caps and sleep that follow ------------------------------------------------------------


def tuned_state(value: float, **more: Any) -> State:
    work = Workload.of("w", [0.0], [7200.0], 1)
    twin = Twin(priced([value] + [1.0] * 23, **more), work, Knobs())
    twin.run(to_us(60.0))
    state = twin.snapshot()
    state.clock.now_us = to_us(60.0)
    return state


def ahead(values: list[float]) -> Outlook:
    rows = np.array([values] * 3)
    return Outlook(price=Forecast((0.05, 0.5, 0.95), rows, np.array(values), 3600.0))


def cap_of(plan: Records) -> int:
    return max((int(row.level) for row in plan if row.kind == ActionKind.CAP), default=0)


def test_caps_are_deeper_and_no_spare_node_is_awake_while_a_kwh_is_dear() -> None:
    power, outlook = Power(slowdown=0.06, follow=2.0, spare=1), ahead([1.0] * 36)
    dear = power.adjust(tuned_state(3.0), outlook, NOTHING)
    cheap = power.adjust(tuned_state(0.2), outlook, NOTHING)
    blind = Power(slowdown=0.06, spare=1).adjust(tuned_state(3.0), outlook, NOTHING)
    assert cap_of(dear) > cap_of(blind) > cap_of(cheap) == 0
    awake = [int((plan["kind"] == ActionKind.WAKE).sum()) for plan in (dear, cheap, blind)]
    asleep = [int((plan["kind"] == ActionKind.SLEEP).sum()) for plan in (dear, cheap, blind)]
    assert asleep == [3, 2, 2]
    assert awake == [0, 0, 0]


def test_a_budget_is_divided_over_the_rest_of_the_day() -> None:
    state = tuned_state(1.0, money_per_day=50.0)
    state.clock.now_us, state.clock.day_end_us = to_us(12 * 3600.0), DAY_US
    state.clock.spent_money = 26.0
    assert ration_w(state, ahead([1.0] * 36)) == pytest.approx(2000.0)  # 24 left for 12 h
    assert ration_w(state, ahead([2.0] * 36)) == pytest.approx(
        1000.0
    )  # each hour at its dearer end
    state.clock.spent_money = 60.0
    assert ration_w(state, ahead([1.0] * 36)) == 0.0
    assert ration_w(tuned_state(1.0), ahead([1.0] * 36)) == np.inf


@pytest.mark.parametrize("kind", ["money", "carbon"])
@given(
    day=st.lists(st.sampled_from((0.5, 1.0, 3.0)), min_size=24, max_size=24),
    times_idle=st.floats(1.05, 1.6),
    seed=st.integers(0, 5),
)
@settings(max_examples=5, **QUIET)
def test_no_day_costs_or_emits_more_than_its_budget(
    kind: str, day: list[float], times_idle: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cluster = priced(day, nodes=2)
    work = Workload.of("w", np.sort(rng.integers(0, 86400, 8)), rng.uniform(600, 20000, 8), 2)
    idle_kw = float(Twin(cluster, work, Knobs()).state.clock[0].power_w) / 1000.0
    budget = times_idle * idle_kw * sum(day)
    if kind == "money":
        cluster = replace(cluster, money_per_day=budget)
    else:  # in kg: the series is in grams
        grams = Signal.profile([1000.0 * value for value in day], DAY_US)
        cluster = replace(cluster, price=None, carbon=grams, carbon_kg_per_day=budget)
    keeper = Power(slowdown=0.0, spare=-1)
    tuning = Tuning((keeper,), Preset("p", "", Knobs()), 1800.0)
    twin = Twin(cluster, work, Knobs(), tuning=tuning)
    before, days = 0.0, 0
    while not twin.finished and days < 8:
        days += 1
        twin.run(days * DAY_US)
        mark = twin.mark(max(days * DAY_US, twin.now_us))
        spent = mark.money if kind == "money" else mark.carbon_g
        assert spent is not None
        spent /= 1.0 if kind == "money" else 1000.0
        assert spent - before <= budget * (1 + 1e-9)
        before = spent
    assert twin.state.runs.done_us.sum() > 0.0, "something ran within the budget"


def test_the_limit_of_the_draw_is_an_action_that_refuses_starts() -> None:
    cluster = priced([1.0] * 24, nodes=2)
    work = Workload.of("w", [0.0, 700.0], [50000.0, 600.0], 4)
    state = Twin(cluster, work, Knobs()).state
    idle_kw = float(state.clock[0].power_w) / 1000.0
    job_kw = 4 * float(state.rates.watts[0] - state.pools.idle_w[0]) / 1000.0
    cluster = replace(cluster, money_per_day=24 * (idle_kw + 1.1 * job_kw))
    twin = build_twin(cluster, work, PolicySetting("easy", Knobs()), Effects())
    twin.run(to_us(3600.0))
    assert twin.state.runs.status.tolist() == [Status.RUNNING, Status.PENDING]
    assert 0 < twin.state.clock[0].budget_w < 1000 * (idle_kw + 1.5 * job_kw)
    energy_j = twin.mark(to_us(3600.0)).energy_j
    assert twin.state.clock[0].spent_money == pytest.approx(energy_j / J_PER_KWH, rel=0.05)
    assert explain(twin.snapshot(), Knobs(), 1).token == "power-budget"


# Cluster files ------------------------------------------------------------------------

NODES = {"nodes": [{"name": "a", "device": "V100", "devices": 4}]}


def test_budgets_of_a_cluster_file() -> None:
    budget = {"money_per_day": 400, "carbon_kg_per_day": 90, "power_kw": 20}
    cluster = parse_cluster({**NODES, "price": 0.2, "carbon": 300, "budget": budget}, "f")
    assert cluster.money_per_day == 400.0
    assert cluster.carbon_kg_per_day == 90.0
    assert cluster.power_budget_w == 20_000.0
    with pytest.raises(BadInput, match="money_per_day needs the price of a kWh"):
        parse_cluster({**NODES, "budget": {"money_per_day": 4}}, "f")
    with pytest.raises(BadInput, match="states power_budget_kw and budget: power_kw"):
        parse_cluster({**NODES, "power_budget_kw": 2, "budget": {"power_kw": 4}}, "f")
