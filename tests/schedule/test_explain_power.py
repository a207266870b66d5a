"""A wait caused by the power budget is explained as such, at every budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.schedule.explain_cases import EASY, SKIP, STRICT, Case, jobs, nodes

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Place
from flyball.core.state import State, clone
from flyball.core.workload import Workload
from flyball.schedule.explain import explain_pending
from flyball.schedule.kernel import decide_now
from flyball.twin.build import unfit_jobs
from flyball.twin.twin import Twin

GROUPS = [nodes(2, 4, "T4"), nodes(2, 4, "V100", "b")]
HOLD = Knobs(place=Place.HOLD, hold_s=600.0)
POLICIES = {"strict": STRICT, "skip": SKIP, "easy": EASY, "hold": HOLD}


def drawn_workload() -> Workload:
    rng = np.random.default_rng(3)
    rows = [
        (float(10 * at), float(rng.integers(50, 900)), int(rng.choice((1, 1, 2, 4, 8))))
        for at in range(24)
    ]
    return jobs(*rows)


def idle_w() -> float:
    return float(Twin(Cluster("c", tuple(GROUPS)), jobs((0, 1, 1)), SKIP).state.clock[0].power_w)


def started(state: State, knobs: Knobs, budget_w: float, pools: Any) -> list[int]:
    """The jobs that a decision would start now, in this state, with another budget."""
    copy = clone(state)
    clock: Any = copy.clock[0]
    clock.budget_w, clock.capacity_grew = budget_w, 1
    copy.shapes.pools = pools
    decide_now(copy, knobs.pack())
    was_pending = state.runs.status == Status.PENDING
    return np.flatnonzero(was_pending & (copy.runs.status == Status.RUNNING)).tolist()


def check(case: Case, knobs: Knobs, workload: Workload) -> int:
    """Compare every reason with what happens without the budget; count those due to it."""
    state, power = case.twin.state, 0
    unlimited = Twin(Cluster("c", tuple(GROUPS)), workload, knobs).state.shapes.pools
    freed = started(state, knobs, 0.0, unlimited)
    freed_as_reserved = started(state, knobs, 0.0, state.shapes.pools)
    assert started(state, knobs, float(state.clock[0].budget_w), state.shapes.pools) == []
    first_freed = 1 << 60
    for place, answer in enumerate(explain_pending(state, knobs, case.names)):
        if answer.job in freed:
            first_freed = min(first_freed, place)
            power += 1
            assert answer.token == "power-budget", answer
            need_w = answer.numbers["budget_at_least_w"] * (1 + 1e-9)
            assert answer.job in started(state, knobs, need_w, unlimited)
        elif answer.token == "power-budget":  # a reservation or a job before it would change too
            assert answer.job in freed_as_reserved or first_freed < place
        if answer.token == "power-budget":
            check_numbers(answer.sentence, answer.numbers, state)
    return power


def check_numbers(sentence: str, numbers: dict[str, Any], state: State) -> None:
    clock = state.clock[0]
    assert (numbers["drawn_w"], numbers["budget_w"]) == (clock.power_w, clock.budget_w)
    beyond_w = numbers.get("head_added_w", numbers["added_w"]) + numbers["drawn_w"]
    assert beyond_w > clock.budget_w or "head" in numbers
    assert " power budget" in sentence and "more" in sentence


@pytest.mark.parametrize("name", POLICIES)
def test_budget_is_named_exactly_where_it_binds(name: str) -> None:
    knobs, everything, base_w, power = POLICIES[name], drawn_workload(), idle_w(), 0
    for budget_w in (base_w + 60, base_w + 200, base_w + 500, base_w + 900, base_w + 2000, 1e6):
        cluster = Cluster("c", tuple(GROUPS), budget_w)
        unfit = unfit_jobs(cluster, everything, knobs, Effects()).values()
        keep = np.setdiff1d(np.arange(len(everything)), np.concatenate([[], *unfit]))
        workload = everything.take(keep.astype(np.int64))
        for at_s in (0.0, 60.0, 150.0, 260.0):
            case = Case(GROUPS, workload, knobs, at_s, budget_w)
            waits = check(case, knobs, workload)
            assert waits == 0 or budget_w < 1e6
            power += waits
    assert power > 10


def test_budget_below_idle_power_is_refused_by_name() -> None:
    for budget_w in (1.0, idle_w() / 2, idle_w() - 1):
        with pytest.raises(BadInput, match="power budget"):
            Twin(Cluster("c", tuple(GROUPS), budget_w), drawn_workload(), SKIP)


def test_devices_that_the_budget_excludes_are_named() -> None:
    workload = jobs((0, 100, 8), (0, 50, 4))
    answer = Case(GROUPS, workload, SKIP, budget_w=idle_w() + 500).why(1)
    assert answer.token == "power-budget"
    assert " more on b0; " in answer.sentence
    assert answer.numbers["types_within_budget"] == ["T4"]


def test_job_behind_one_that_waits_for_power() -> None:
    workload = jobs((0, 100, 1), (0, 50, 4), (0, 50, 1))
    case = Case([nodes(2, 4)], workload, STRICT)
    alone_w = float(Case([nodes(2, 4)], jobs((0, 100, 1)), STRICT).twin.state.clock[0].power_w)
    case = case.changed(budget_w=alone_w + 800)
    answer = case.why(2)
    assert answer.token == "power-budget"
    assert answer.sentence.startswith("Comes after j1, which would draw ")
    assert answer.numbers["head"] == "j1"
