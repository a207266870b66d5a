"""The number of replicas: what is needed, what is learned, and the resulting actions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs
from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.physics.serving import Target
from flyball.tune.replicas import OUTCOME, Replicas, Settings, fresh, learn, wanted
from flyball.twin.twin import Twin

CARRIED: Floats = np.linspace(0.0, 1000.0, 101)
"""Rates that 0 to 100 replicas carry: ten requests per second each."""
MINUTE_US = 60_000_000


def outcome(arrived: float, late: float = 0.0, now_us: int = MINUTE_US) -> Records:
    rows = records(1, OUTCOME)
    rows[0] = (now_us, MINUTE_US, arrived, arrived, late)
    return rows


def count(upper: float, memory: Records, ordered: int = 0, now_us: int = 0, **more: object) -> int:
    settings = Settings(**more)  # type: ignore[arg-type]
    counts = wanted(
        np.array([upper]), memory, np.array([ordered]), CARRIED[None, :], now_us, settings
    )
    return int(counts[0])


def margin(memory: Records) -> float:
    return math.exp(memory["margin"][0])


def test_the_forecast_times_the_margin() -> None:
    memory = fresh(1, Settings(first_margin=1.2))
    assert count(100.0, memory) == 12
    assert count(101.0, memory) == 13
    assert count(1e9, memory) == 100  # as many as there can be


def test_the_highest_rate_seen_decays_slowly() -> None:
    settings = Settings(first_margin=1.0, half_life_s=600.0)
    memory = learn(fresh(1, settings), outcome(100.0 * 60), settings)
    assert memory["level_rps"][0] == 100.0
    for _ in range(10):
        memory = learn(memory, outcome(0.0), settings)
    assert memory["level_rps"][0] == pytest.approx(50.0)
    assert count(20.0, memory, first_margin=1.0) == math.ceil(5.0 * margin(memory))
    assert count(80.0, memory, first_margin=1.0) == math.ceil(8.0 * margin(memory))


def test_the_margin_rises_when_requests_are_late_and_falls_slowly() -> None:
    settings = Settings(gain=0.02, spared=0.5, first_margin=1.2)
    calm = learn(fresh(1, settings), outcome(600.0), settings)
    missed = learn(fresh(1, settings), outcome(600.0, late=600.0), settings)
    assert math.log(margin(calm) / 1.2) == pytest.approx(-0.02 * 0.005)
    assert math.log(margin(missed) / 1.2) == pytest.approx(0.02 * 0.995)


def test_the_margin_stays_within_its_limits() -> None:
    settings = Settings(gain=5.0, margins=(0.9, 2.0))
    high = low = fresh(1, settings)
    for _ in range(40):
        high = learn(high, outcome(600.0, late=600.0), settings)
        low = learn(low, outcome(600.0), settings)
    assert margin(high) == pytest.approx(2.0)
    assert margin(low) == pytest.approx(0.9)


def test_learning_leaves_the_memory_it_was_given() -> None:
    memory = fresh(3)
    before = memory.tobytes()
    rows = records(3, OUTCOME)
    rows["span_us"], rows["arrived"], rows["started"] = MINUTE_US, 60.0, 60.0
    assert learn(memory, rows).tobytes() != before
    assert memory.tobytes() == before


def test_the_long_run_is_what_is_allowed_whatever_comes() -> None:
    """Late whenever a wild rate beats the margin; the share of that is learned, not known."""
    settings = Settings(target=Target(0.9, 15.0), spared=0.0, gain=0.05, half_life_s=1.0)
    draw = np.random.default_rng(1)
    memory, late = fresh(1, settings), 0
    rounds = 20_000
    for index in range(rounds):
        wild = draw.lognormal(0.0, 0.2 if index < rounds / 2 else 0.4)
        missed = wild > margin(memory)
        late += missed
        memory = learn(memory, outcome(600.0, late=600.0 * missed), settings)
    assert late / rounds == pytest.approx(0.1, abs=0.002)


def test_a_small_step_down_is_not_taken() -> None:
    memory = fresh(1, Settings(first_margin=1.0))
    assert count(490.0, memory, ordered=50, step_down=0.02) == 50
    assert count(480.0, memory, ordered=50, step_down=0.02) == 48
    assert count(510.0, memory, ordered=50, step_down=0.02) == 51


def test_zero_only_where_allowed_and_after_a_while() -> None:
    settings = Settings(to_zero=True, idle_s=600.0)
    memory = learn(fresh(1, settings), outcome(60.0), settings)
    asked = MINUTE_US
    assert count(0.0, memory, now_us=asked + 599_000_000, to_zero=True, idle_s=600.0) == 1
    assert count(0.0, memory, now_us=asked + 600_000_000, to_zero=True, idle_s=600.0) == 0
    assert count(5.0, memory, now_us=asked + 600_000_000, to_zero=True, idle_s=600.0) == 1
    assert count(0.0, memory, now_us=asked + 600_000_000, to_zero=False, idle_s=600.0) == 1


def test_services_do_not_touch_each_other() -> None:
    memory = fresh(2, Settings(first_margin=1.0))
    both = np.array([CARRIED, CARRIED * 2])
    counts = wanted(np.array([100.0, 100.0]), memory, np.array([0, 0]), both, 0)
    assert counts.tolist() == [10, 5]


# As a tuner ------------------------------------------------------------------------


def serving(limit: int) -> State:
    """A service of eight possible replicas of two devices, `limit` of them running."""
    work = Workload.of(
        "w", np.zeros(8), 20_000.0, 2, device_names=("T4",), device=0,
        group=np.zeros(8, np.int64), group_limits=(limit,),
    )  # fmt: skip
    cluster = Cluster("c", (NodeGroup("n", 4, "T4", 4),))
    twin = Twin(cluster, work, Knobs())
    twin.run(1_000_000)
    return twin.state


def ahead(*upper: float) -> Outlook:
    """A forecast by the minute."""
    high = np.array(upper)
    forecast = Forecast((0.5, 0.95), np.array([high / 2, high]), high / 2, 60.0)
    return Outlook(requests={0: forecast})


def tuner(state: State) -> Replicas:
    memory = fresh(1, Settings(first_margin=1.0))
    return Replicas(0, 2, 180.0, CARRIED[:9], memory)


def test_the_plan_sets_the_replicas_with_a_reason() -> None:
    state = serving(3)
    plan = tuner(state).adjust(state, ahead(99.0, 99.0, 55.0, 99.0), records(0, ACTION))
    assert len(plan) == 1
    row = plan[0]
    assert (row.kind, row.reason) == (ActionKind.REPLICAS, Reason.SCALED)
    assert (row.job, row.level) == (0, 6)  # 55 a second in three minutes, ten each
    assert row.gain == -6.0  # three more of two devices


def test_no_change_leaves_the_plan_alone() -> None:
    state = serving(3)
    plan = records(0, ACTION)
    assert tuner(state).adjust(state, ahead(0.0, 0.0, 30.0), plan) is plan


def test_adjusting_is_pure() -> None:
    state = serving(3)
    one = tuner(state)
    before = state.arena.tobytes(), one.memory.tobytes()
    first = one.adjust(state, ahead(80.0), records(0, ACTION))
    again = one.adjust(state, ahead(80.0), records(0, ACTION))
    assert first.tobytes() == again.tobytes()
    assert (state.arena.tobytes(), one.memory.tobytes()) == before


def test_without_a_forecast_what_was_seen_counts() -> None:
    state = serving(3)
    one = tuner(state)
    one.memory["level_rps"] = 45.0
    assert one.adjust(state, NO_OUTLOOK, records(0, ACTION))[0].level == 5
