"""Caps, the budget and sleep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs
from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import ACTION, CAP_LEVELS, Records, records
from flyball.core.state import State
from flyball.core.units import US_PER_S, to_us
from flyball.core.workload import JobClass, Workload
from flyball.tune.power import Power
from flyball.twin.twin import Twin

NOTHING = records(0, ACTION)
COMPUTE = int(JobClass.COMPUTE_INTENSIVE)


def state_of(
    devices: list[int],
    groups: tuple[NodeGroup, ...] = (NodeGroup("n", 4, "V100", 1),),
    durations: float = 7200.0,
    budget_w: float = 0.0,
    now_s: float = 60.0,
    **columns: Any,
) -> State:
    """A cluster some time after all jobs were submitted at once."""
    columns = {"kind": COMPUTE, **columns}
    work = Workload.of("w", [0.0] * len(devices), [durations] * len(devices), devices, **columns)
    twin = Twin(Cluster("c", groups, budget_w), work, Knobs())
    twin.run(to_us(now_s))
    state = twin.snapshot()
    state.clock.now_us = to_us(now_s)
    return state


def adjusted(state: State, power: Power, outlook: Outlook = NO_OUTLOOK) -> Records:
    before = state.arena.copy()
    plan = power.adjust(state, outlook, NOTHING)
    assert (state.arena == before).all()
    return plan


def levels(plan: Records) -> dict[int, int]:
    return {int(row.job): int(row.level) for row in plan if row.kind == ActionKind.CAP}


def nodes(plan: Records, kind: ActionKind) -> list[int]:
    return [int(row.node) for row in plan if row.kind == kind]


CAPS_ONLY = Power(spare=-1)


def test_a_job_gets_the_cap_of_least_node_energy_within_the_limit() -> None:
    state = state_of([1])
    caps: Any = state.caps[:CAP_LEVELS]
    host_w = float(state.pools.host_w[0])
    watts = float(state.rates.watts[0])
    energy = caps.slowdown * (watts * caps.power + host_w)
    allowed = np.flatnonzero(caps.slowdown <= 1.06)
    best = int(allowed[energy[allowed].argmin()])
    plan = adjusted(state, CAPS_ONLY)
    assert levels(plan) == {0: best}
    assert best == 2  # at 90 % of the draw, 5 % slower
    assert plan[0].reason == Reason.CAPPED
    assert plan[0].gain == pytest.approx(watts * (1 - caps.power[best]))


def test_no_slowdown_no_cap_and_the_same_cap_is_not_set_twice() -> None:
    state = state_of([1])
    assert not len(adjusted(state, Power(slowdown=0.0, spare=-1)))
    state.runs.cap[0] = 2
    assert not len(adjusted(state, CAPS_ONLY))
    plan = adjusted(state, Power(slowdown=0.0, spare=-1))
    assert levels(plan) == {0: 0} and plan[0].reason == Reason.UNCAPPED


def test_a_looser_limit_saves_more_energy_and_never_less() -> None:
    state = state_of([1])
    caps: Any = state.caps[:CAP_LEVELS]
    energy = caps.slowdown * (state.rates.watts[0] * caps.power + state.pools.host_w[0])
    chosen = [
        levels(adjusted(state, Power(slowdown=slowdown, spare=-1))).get(0, 0)
        for slowdown in (0.0, 0.03, 0.06, 0.1, 0.3)
    ]
    assert chosen == sorted(chosen)
    assert (np.diff(energy[chosen]) <= 0).all()


def test_a_time_limit_that_a_cap_would_break_forbids_it() -> None:
    """7200 s of work: 5 % more is 7560 s, within 0.9 of 9000 s, not of 8000 s."""
    assert levels(adjusted(state_of([1], limit_us=int(9000 * US_PER_S)), CAPS_ONLY)) == {0: 2}
    assert levels(adjusted(state_of([1], limit_us=int(8000 * US_PER_S)), CAPS_ONLY)) == {}


# The budget ---------------------------------------------------------------------------


def drawn_w(state: State, chosen: dict[int, int]) -> float:
    """What the cluster draws with these caps."""
    pools = state.pools[state.nodes.pool]
    total = float((pools.host_w + pools.capacity * pools.idle_w).sum())
    for job in np.flatnonzero(state.runs.first_row >= 0):
        power = float(state.caps[chosen.get(int(job), 0)].power)
        watts = float(state.rates.watts[state.jobs.profile[job]])
        total += float(state.runs.devices[job]) * (watts * power - float(state.pools.idle_w[0]))
    return total


def test_no_cap_slows_a_job_while_another_must_start_soon() -> None:
    state = state_of([4, 4])  # the second waits
    assert levels(adjusted(state, CAPS_ONLY)) == {0: 2}
    for spare_h, capped in ((5.9, False), (6.1, True)):
        deadline_us = int(state.clock.now_us[0]) + to_us(7200.0 + 3600.0 * spare_h)
        state.runs.deadline_us[1] = deadline_us
        assert levels(adjusted(state, CAPS_ONLY)) == ({0: 2} if capped else {})
    state.runs.deadline_us[1], state.runs.cap[0] = to_us(7200.0), 2
    assert levels(adjusted(state, CAPS_ONLY)) == {0: 0}, "a cap that is there is lifted"


def test_the_budget_is_kept_by_caps_that_cost_least() -> None:
    free = state_of([1, 1, 1, 1])
    full_w = drawn_w(free, {})
    state = state_of([1, 1, 1, 1])
    state.clock.budget_w = 0.85 * full_w
    chosen = levels(adjusted(state, CAPS_ONLY))
    assert drawn_w(state, chosen) <= 0.85 * full_w
    assert drawn_w(state, levels(adjusted(free, CAPS_ONLY))) > 0.85 * full_w
    assert max(chosen.values()) - min(chosen.values()) <= 1  # alike jobs share the burden


def test_caps_make_room_for_a_job_that_has_a_device_but_no_watts() -> None:
    """Four nodes, watts for three and a half: stronger caps, and the fourth fits."""
    three = drawn_w(state_of([1, 1, 1]), {})
    watts = float(state_of([1]).rates.watts[0]) - 45.0
    state = state_of([1, 1, 1, 1], budget_w=three + 0.5 * watts)
    assert (state.runs.first_row >= 0).sum() == 3
    tight = levels(adjusted(state, CAPS_ONLY))
    assert drawn_w(state, tight) + watts <= state.clock[0].budget_w
    # Nothing is gained where the devices are taken as well.
    busy = state_of([1, 1, 1, 1], (NodeGroup("n", 3, "V100", 1),))
    busy.clock.budget_w = drawn_w(busy, {}) + 0.5 * watts
    assert set(levels(adjusted(busy, CAPS_ONLY)).values()) == {2}


# Sleep --------------------------------------------------------------------------------


def ahead(*devices: float) -> Outlook:
    """A forecast by the minute; the upper quantile is half as much again."""
    mean = np.array(devices)
    return Outlook(load=Forecast((0.5, 0.9), np.stack([mean, 1.5 * mean]), mean, 60.0))


def test_idle_nodes_beyond_the_spare_sleep() -> None:
    state = state_of([1])
    assert nodes(adjusted(state, Power(spare=3)), ActionKind.SLEEP) == []
    plan = adjusted(state, Power(spare=1))
    assert nodes(plan, ActionKind.SLEEP) == [2, 3]
    (row,) = (action for action in plan if action.kind == ActionKind.SLEEP and action.node == 3)
    pool = state.pools[0]
    assert row.gain == pytest.approx(pool.host_w + pool.idle_w - pool.sleep_w)
    assert row.reason == Reason.SENT_TO_SLEEP


def test_the_upper_quantile_keeps_nodes_awake_if_it_comes_soon_enough() -> None:
    """Waking takes 300 s: two devices expected in five minutes count, in an hour not."""
    state = state_of([1])
    soon = ahead(1, 1, 1, 1, 1, 2, 2)
    assert nodes(adjusted(state, Power(spare=0), soon), ActionKind.SLEEP) == [3]
    late = ahead(*([0.5] * 30), 2)
    assert nodes(adjusted(state, Power(spare=0), late), ActionKind.SLEEP) == [1, 2, 3]


def test_sleeping_nodes_wake_ahead_of_demand() -> None:
    state = state_of([1])
    state.nodes.sleeps_us[1:] = 0  # idle since the start: asleep
    assert nodes(adjusted(state, Power(spare=0)), ActionKind.WAKE) == []
    plan = adjusted(state, Power(spare=0), ahead(2.0))
    assert nodes(plan, ActionKind.WAKE) == [1, 2]
    assert nodes(plan, ActionKind.SLEEP) == []
    assert nodes(adjusted(state, Power(spare=1), ahead(2.0)), ActionKind.WAKE) == [1, 2, 3]


def test_the_pool_that_does_most_for_a_watt_stays_awake() -> None:
    groups = (NodeGroup("k", 1, "K80", 1), NodeGroup("v", 1, "V100", 1))
    state = state_of([1], groups, now_s=60.0, durations=1.0)
    assert (state.runs.first_row < 0).all()
    assert nodes(adjusted(state, Power(spare=1)), ActionKind.SLEEP) == [0]


def test_down_nodes_and_nodes_of_the_plan_are_left_alone() -> None:
    state = state_of([1])
    state.nodes.down[3] = 1
    assert nodes(adjusted(state, Power(spare=0)), ActionKind.SLEEP) == [1, 2]
    assert not len(adjusted(state_of([1]), Power(slowdown=0.0, spare=-1)))


def test_a_round_at_a_thousand_nodes() -> None:
    """Every cap changes, the worst case; how long it takes is in `flyball bench parts`."""
    groups = (NodeGroup("n", 1000, "V100", 8),)
    state = state_of([1] * 4000 + [8] * 300, groups)
    assert len(levels(adjusted(state, Power()))) == 4300
