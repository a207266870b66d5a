"""Balance: which jobs move, for which gang, and when none do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Backfill, Knobs, Place
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.tune.balance import Balance, cheapest, moved_recently
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

NO_PLAN = records(0, ACTION)
SPREAD = Knobs(place=Place.SPREAD, backfill=Backfill.SKIP)


def state_of(nodes: int, devices: list[int], time_s: Any = 20_000.0, at_s: float = 100.0) -> State:
    """Jobs a second apart on nodes of four devices, spread; the last one waits."""
    cluster = Cluster("c", (NodeGroup("n", nodes, "V100", 4),))
    twin = Twin(cluster, Workload.of("w", np.arange(len(devices)), time_s, devices), SPREAD)
    twin.run(round(at_s * 1e6))
    state = twin.snapshot()
    assert state.runs.status.tolist() == [Status.RUNNING] * (len(devices) - 1) + [Status.PENDING]
    return state


def lines(plan: Records) -> list[tuple[str, int, int, str]]:
    return [
        (ActionKind(int(row.kind)).name, int(row.job), int(row.node), Reason(int(row.reason)).name)
        for row in plan
    ]


def test_one_moves_and_the_gang_starts_where_it_was() -> None:
    """Two and two are free: the job that is cheaper to restart goes to the other's node."""
    state = state_of(2, [2, 2, 4])
    state.jobs.restart_us[0] = 90_000_000
    plan = Balance().adjust(state, NO_OUTLOOK, NO_PLAN)
    assert lines(plan) == [
        ("PREEMPT", 1, -1, "MOVED"),
        ("START", 2, 1, "LET_IN"),
        ("START", 1, 0, "MOVED"),
    ]
    assert plan.gain[1] == pytest.approx(4 * 3600.0)  # four devices for the horizon
    assert plan.gain[0] == pytest.approx(4 * 3600.0 - 2 * 30.0)


def test_the_plan_can_be_carried_out() -> None:
    cluster = Cluster("c", (NodeGroup("n", 2, "V100", 4),))
    workload = Workload.of("w", [0, 1, 2], 20_000.0, [2, 2, 4])
    policy = Preset("spread", "", SPREAD)
    twin = Twin(cluster, workload, SPREAD, tuning=Tuning((Balance(),), policy))
    twin.run(61_000_000)
    assert (twin.state.runs.status == Status.RUNNING).all()
    assert twin.state.runs.preemptions.tolist() == [1, 0, 0]


def test_a_gang_over_several_nodes_gets_them_cleared() -> None:
    state = state_of(4, [1, 1, 1, 1, 12])
    plan = Balance().adjust(state, NO_OUTLOOK, NO_PLAN)
    moved = [row.job for row in plan if row.kind == ActionKind.PREEMPT]
    started = [row.node for row in plan if row.kind == ActionKind.START and row.job == 4]
    assert len(moved) == 3
    assert len(started) == 3


def test_no_moves_for_a_gang_that_fits_soon_anyway() -> None:
    """It would wait 9 s: 4 devices for 9 s are less than the restart of two."""
    state = state_of(2, [2, 2, 4], time_s=[11.0, 20_000.0, 20_000.0], at_s=10.0)
    assert len(Balance().adjust(state, NO_OUTLOOK, NO_PLAN)) == 0
    assert len(Balance(margin=0.1).adjust(state, NO_OUTLOOK, NO_PLAN)) == 3


def test_no_job_moves_unless_all_find_a_place() -> None:
    """Four are free, one on each node: a job of three fits nowhere else."""
    state = state_of(4, [3, 3, 3, 3, 4])
    assert len(Balance().adjust(state, NO_OUTLOOK, NO_PLAN)) == 0


def test_too_few_devices_in_total_help_no_gang() -> None:
    assert len(Balance().adjust(state_of(2, [2, 3, 4]), NO_OUTLOOK, NO_PLAN)) == 0


def test_moves_in_an_hour_are_bounded() -> None:
    """A job that restarted recently counts, and is not moved again itself."""
    state = state_of(2, [2, 2, 4])
    assert moved_recently(state) == 0
    state.runs.preemptions[0] = 1
    assert moved_recently(state) == 1
    assert len(Balance(per_hour=1).adjust(state, NO_OUTLOOK, NO_PLAN)) == 0
    plan = Balance(per_hour=2).adjust(state, NO_OUTLOOK, NO_PLAN)
    assert ("PREEMPT", 1, -1, "MOVED") in lines(plan)


def test_a_job_that_was_moved_often_stays() -> None:
    state = state_of(2, [2, 2, 4])
    state.runs.preemptions[:2] = 3
    state.runs.began_us[:2] -= 2 * 3_600_000_000
    assert moved_recently(state) == 0
    assert len(Balance(moves=3).adjust(state, NO_OUTLOOK, NO_PLAN)) == 0
    assert len(Balance(moves=4).adjust(state, NO_OUTLOOK, NO_PLAN)) == 3


def test_the_head_that_holds_a_reservation_is_the_only_winner() -> None:
    state = state_of(2, [2, 2, 4])
    plan = records(1, ACTION)
    plan.kind, plan.job, plan.node = ActionKind.RESERVE, 7, -1
    assert Balance().adjust(state, NO_OUTLOOK, plan) is plan
    plan.job = 2
    assert len(Balance().adjust(state, NO_OUTLOOK, plan)) == 4  # the reservation stays in the plan


def test_the_state_is_left_as_it_is() -> None:
    state = state_of(2, [2, 2, 4])
    before = state.arena.copy()
    Balance().adjust(state, NO_OUTLOOK, NO_PLAN)
    assert (state.arena == before).all()


def test_cheapest_is_exact() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        count, need = int(rng.integers(0, 6)), int(rng.integers(0, 9))
        sizes = rng.integers(1, 5, count).tolist()
        costs = rng.integers(1, 20, count).astype(float).tolist()
        ways = [
            (sum(costs[at] for at in some), sum(sizes[at] for at in some))
            for size in range(count + 1)
            for some in itertools.combinations(range(count), size)
            if sum(sizes[at] for at in some) >= need
        ]
        clearing = cheapest(list(range(count)), sizes, costs, need)
        if not ways:
            assert clearing is None
        else:
            assert clearing is not None
            assert clearing.cost == min(ways)[0]
            assert sum(sizes[at] for at in clearing.jobs) == clearing.devices >= need


def test_many_rounds_keep_the_bounds() -> None:
    """In every plan moved jobs restart at once, a winner starts, and the hourly limit holds."""
    rng = np.random.default_rng(3)
    size = 150
    workload = Workload.of(
        "w",
        np.sort(rng.integers(0, 40_000, size)),
        rng.lognormal(8.0, 1.0, size),
        rng.choice((1, 1, 2, 3, 4, 8), size),
    )
    cluster = Cluster("c", (NodeGroup("n", 5, "V100", 4),))
    rule, moves = Balance(per_hour=3), []

    def check(now: int, plan: Records) -> None:
        mine = plan[plan.reason == Reason.MOVED]
        stopped = set(mine.job[mine.kind == ActionKind.PREEMPT].tolist())
        assert stopped == set(mine.job[mine.kind == ActionKind.START].tolist())
        if stopped:
            assert (plan.reason == Reason.LET_IN).any()
        moves.extend([now] * len(stopped))

    easy = Preset("spread", "", SPREAD)
    tuning = Tuning((rule,), easy, note=check)
    twin = Twin(cluster, workload, SPREAD, Effects(checkpoint_s=5.0), tuning=tuning)
    twin.run()
    assert twin.finished
    assert len(moves) > 5
    for begin in moves:
        assert sum(begin <= move < begin + 3_600_000_000 for move in moves) <= rule.per_hour
    assert twin.state.runs.preemptions.max() <= rule.moves
