"""A decision that sees only the first jobs of each shape decides as if it saw them all."""

from __future__ import annotations

import random

import pytest

from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import JobColumns
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import Demand, cluster_of
from flyball.core.events import Event, Submitted
from flyball.core.live import LiveNode
from flyball.schedule.policies.registry import get_policy

NODES = [LiveNode(name, "CPU1", 4, 4, 8192) for name in ("a", "b")]
START_US = 1_700_000_000_000_000
POLICIES = ("fifo", "fifo-skip", "easy", "sjf", "saf", "srtf", "las", "tiresias", "qssf", "fair")


def crowd(seed: int, count: int) -> list[Event]:
    """Draw many jobs of few shapes, some with dependencies, in order of submission."""
    rng = random.Random(seed)
    events: list[Event] = []
    for job in range(1, count + 1):
        spec = {
            "argv": ["x"],
            "user": rng.choice("ab"),
            "tenant": rng.choice(["", "t"]),
            "cpus": rng.choice([1, 1, 2, 4, 8]),
            "estimate_s": rng.choice([10.0, 60.0]),
            "priority": rng.choice([0.0, 0.0, 1.0]),
        }
        if rng.random() < 0.03 and job > 1:
            spec["after"] = [["afterany", rng.randrange(1, job)]]
        time_us = START_US + job * 1000
        events.append(Submitted(time_us, job, spec))
    return events


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_first_jobs_of_each_shape_are_enough(policy: str, seed: int) -> None:
    live_state, columns = LiveState(), JobColumns(Demand(NODES))
    live_state.watchers.append(columns.update)
    decider = Decider(
        live_state, columns, cluster_of(NODES, "two"), policy, get_policy(policy).knobs
    )
    for number, event in enumerate(crowd(seed, 400), 1):
        live_state.absorb(number, live_state.fold([event]), [event])
    now_us = START_US + 10**9
    some, some_ids = decider.view_with({}, decider.most)
    every, every_ids = decider.view_with({})
    assert len(every_ids) == 400
    assert len(some_ids) < 400
    plans = [
        decider.make(view, ids, now_us, False)[1]
        for view, ids in ((some, some_ids), (every, every_ids))
    ]
    assert plans[0] == plans[1]
    assert plans[0]
