"""Share policies with default knobs decide as they did before they could follow Gavel.

The numbers were recorded with the code before those knobs. Only policies whose targets need no
solver are here: their schedules are the same on every machine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.workload import Workload

CLUSTER = Cluster(
    "mixed",
    (
        NodeGroup("v", 2, "V100", 4),
        NodeGroup("p", 3, "P100", 4),
        NodeGroup("k", 2, "K80", 8),
    ),
)
NEW_KNOBS = ("types", "shuffle_seed", "starts", "leftover", "turns", "optimum")


@dataclass(frozen=True)
class Drawn:
    """Draws targets for the active jobs by the instant."""

    def targets(self, state: State) -> Floats:
        now_us, runs = int(state.clock[0].now_us), state.runs
        active = np.isin(runs.status, (Status.PENDING, Status.RUNNING))
        numbers = (np.arange(len(runs) * 3).reshape(-1, 3) * 7919 + now_us // 10_000_000) % 5
        return np.where(active[:, None], np.maximum(0, numbers - 1) / 4.0, 0.0)


def jobs() -> Workload:
    at = np.arange(120)
    return Workload.of(
        "fixed",
        (at * 37) % 2_000,
        30 + (at * at * 13) % 1_500,
        np.array((1, 1, 2, 1, 4, 8))[at % 6],
        kind=at % 4,
    )


def setting(name: str) -> PolicySetting:
    if name in ("max-min", "fifo-fast"):
        return policy_settings(name, ["round_s=120"])[0]
    knobs = Knobs(
        order=Order.SHARES,
        preempt=Preempt.ROUNDS,
        round_s=120.0,
        solve_s=300.0,
        backfill=Backfill.STRICT if name == "strict" else Backfill.SKIP,
    )
    return PolicySetting(name, knobs, Drawn())


def digest(name: str) -> str:
    twin = build_twin(CLUSTER, jobs(), setting(name), Effects())
    twin.run()
    runs: Any = twin.state.runs
    columns = (runs.first_start_us, runs.end_us, runs.preemptions, runs.pool)
    text = repr([np.asarray(column).astype(np.int64).tolist() for column in columns])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


RECORDED = {
    "max-min": "fc11e20ef2e59726",
    "fifo-fast": "7606002e975b8311",
    "skip": "0bce0ac08e09fe64",
    "strict": "f18ff6580488c74e",
}


@pytest.mark.parametrize("name", RECORDED)
def test_default_knobs_decide_as_recorded(name: str) -> None:
    assert digest(name) == RECORDED[name]


def test_the_switches_towards_gavel_are_off_by_default() -> None:
    defaults = {field.name: field.default for field in fields(Knobs) if field.name in NEW_KNOBS}
    assert defaults == dict.fromkeys(NEW_KNOBS, 0)


def test_a_switch_changes_the_recorded_schedule() -> None:
    # Else the records above could not tell whether a default is in force.
    for change in ("types=shuffled", "starts=rounds", "leftover=by-pool"):
        policy = setting("skip")
        knobs = policy.knobs.with_settings([change])
        twin = build_twin(CLUSTER, jobs(), PolicySetting("skip", knobs, Drawn()), Effects())
        default = build_twin(CLUSTER, jobs(), policy, Effects())
        twin.run()
        default.run()
        assert twin.state.runs.end_us.tolist() != default.state.runs.end_us.tolist(), change
