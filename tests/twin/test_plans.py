"""Plans of policies in plain Python: how they are made, and what the twin refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.core.plans import can_run, free_devices, pending_jobs, starts
from flyball.core.records import ACTION, records
from flyball.core.workload import Workload
from flyball.twin.plans import BadPlan, as_plan
from flyball.twin.twin import Twin

CLUSTER = Cluster("two", (NodeGroup("v", 1, "V100", 2), NodeGroup("k", 1, "K80", 2)))


def twin() -> Twin:
    """Return a twin in which job 0 runs on both devices of node 0, and jobs 1 and 2 wait."""
    workload = Workload.of(
        "w", [0, 0, 0, 9, 99], [50] * 5, [2, 1, 1, 1, 1], memory_mib=[0, 0, 14_000, 0, 0],
        device=0, device_names=("V100",),
    )  # fmt: skip
    started = Twin(CLUSTER, workload, Knobs())
    started.step(Planned(lambda state: starts(state, [(0, 0, [0, 1])])))
    return started


class Planned:
    """Decides by a function of the state."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def decide(self, state: Any, outlook: Any) -> Any:
        return self.plan(state)


@pytest.fixture
def small() -> Any:
    return Twin(CLUSTER, Workload.of("w", [0, 0], [50, 50], [2, 1]), Knobs())


def test_what_a_policy_reads(small: Any) -> None:
    small.step(Planned(lambda state: starts(state, [(0, 0, [0, 1])])))
    assert free_devices(small.state) == [[], [0, 1]]
    assert pending_jobs(small.state) == [1]
    assert can_run(small.state, 1, 1)


def test_starts_on_several_nodes_and_of_fractions() -> None:
    cluster = Cluster("two", (NodeGroup("v", 2, "V100", 2),))
    wide = Twin(cluster, Workload.of("w", [0, 0], [50, 50], [3, 1], milli=[1000, 500]), Knobs())
    wide.step(Planned(lambda state: starts(state, [(0, 0, [0, 1]), (0, 1, {1}), (1, 1, [0])])))
    assert free_devices(wide.state) == [[], []]
    assert (wide.state.runs.devices.tolist(), wide.state.clock[0].running) == ([3, 1], 2)


@pytest.mark.parametrize("entry", [7, (1, 2), (0, 0, 1), ("a", 0, [1]), (0, 0, [-1])])
def test_what_is_no_start(small: Any, entry: Any) -> None:
    with pytest.raises(BadInput, match="is not a start; write"):
        starts(small.state, [entry])


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (None, "returned None, not a plan"),
        ([], "returned a list"),
        (np.zeros(3), "returned an array of float64 with shape"),
        (records(99, ACTION), "99 actions, more than"),
    ],
)
def test_what_is_no_plan(small: Any, plan: Any, words: str) -> None:
    with pytest.raises(BadPlan, match=words):
        as_plan(plan, small.state)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("job", 2, "names job 2; they are 0 to 1"),
        ("job", -1, "names job -1"),
        ("node", 2, "names node 2; they are 0 to 1"),
        ("kind", 77, "names kind of action 77"),
    ],
)
def test_numbers_that_are_out_of_range(small: Any, field: str, value: int, words: str) -> None:
    plan = records(1, ACTION)
    plan[field] = value
    with pytest.raises(BadPlan, match=words):
        small.step(Planned(lambda state: plan))


def test_a_service_that_is_not_there(small: Any) -> None:
    plan = records(1, ACTION)
    plan["kind"] = ActionKind.REPLICAS
    with pytest.raises(BadPlan, match="names service 0; there are none"):
        as_plan(plan, small.state)


def test_a_plain_array_of_actions_is_a_plan(small: Any) -> None:
    plan = np.zeros(1, ACTION)
    plan["mask"], plan["milli"] = 0b11, 1000
    small.step(Planned(lambda state: plan))
    assert small.state.clock[0].running == 1


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ((0, 0, [0, 1]), "the job is running"),
        ((4, 1, [0]), "the job is future"),
        ((1, 1, [0, 1]), "asks for 1 devices, the plan gives it 2"),
        ((1, 0, [0]), r"devices \[0\] of node 0 are not free"),
        ((2, 1, [0]), "cannot run on devices of node 1"),
    ],
)
def test_why_a_start_is_refused(start: Any, words: str) -> None:
    with pytest.raises(BadPlan, match=words):
        twin().step(Planned(lambda state: starts(state, [start])))
