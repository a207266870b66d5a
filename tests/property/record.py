"""What the twins did, in a form that can be compared: used by every test of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.twin.strategies import Problem

from flyball.core.codes import ActionKind
from flyball.core.knobs import Knobs
from flyball.core.protocols import Outlook
from flyball.core.records import Records
from flyball.core.state import CHANGED, State
from flyball.core.units import FOREVER_US
from flyball.schedule.policies.preset import Preset
from flyball.twin.twin import Twin

Schedule = list[tuple[int, int, int, tuple[tuple[int, int, int], ...]]]
"""(instant, kind, job, rows of (node, mask, milli)) of every start and preemption in order."""


def twin_of(problem: Problem) -> Twin:
    """The problem's twin before its first event."""
    return Twin(
        problem.cluster, problem.workload, problem.knobs, problem.effects, problem.allocator
    )


def preset(knobs: Knobs) -> Preset:
    """Any knobs as a policy, for the stepping path."""
    return Preset("drawn", "whatever was drawn", knobs)


def actions(now_us: int, plan: Records) -> Schedule:
    """A plan's starts and preemptions; the rows of one start are put together."""
    out: Schedule = []
    before = -1
    for action in plan:
        job = int(action.job)
        if action.kind == ActionKind.PREEMPT:
            out.append((now_us, int(action.kind), job, ()))
            before = -1
        elif action.kind == ActionKind.START:
            row = (int(action.node), int(action.mask), int(action.milli))
            if job == before:
                out[-1] = (*out[-1][:3], (*out[-1][3], row))
            else:
                out.append((now_us, int(action.kind), job, (row,)))
            before = job
    return out


def plan_of(state: State) -> Records:
    """The plan of the last decision."""
    plan: Records = state.plan[: state.clock[0].actions]  # type: ignore[assignment]
    return plan


def run_recorded(twin: Twin) -> Schedule:
    """Run to the end, one instant at a time, and say what was decided.

    A job of no length ends at the instant it starts, in a second pass with its own decision.
    The compiled loop keeps only the last plan of an instant, so such an instant is gone through
    again by stepping, which must come to the same state.
    """
    schedule: Schedule = []
    while (now_us := twin.next_us) < FOREVER_US:
        again, decisions = twin.clone(), int(twin.state.clock[0].decisions)
        twin.run(now_us)
        if twin.state.clock[0].decisions == decisions + 1:
            schedule += actions(now_us, plan_of(twin.state))
        else:
            schedule += step_recorded(again, preset(twin.knobs), now_us)
            assert np.array_equal(again.state.runs, twin.state.runs)
    return schedule


def step_recorded(twin: Twin, policy: Preset, until_us: int = FOREVER_US - 1) -> Schedule:
    """The same through the stepping path."""
    schedule: Schedule = []
    while twin.next_us <= until_us:
        plan = twin.step(policy)
        assert plan is not None
        schedule += actions(twin.now_us, plan)
    return schedule


class Keeper:
    """A policy that passes on another's plans and keeps the snapshots it was shown."""

    def __init__(self, policy: Preset) -> None:
        self.policy = policy
        self.snapshots: list[State] = []

    def decide(self, state: State, outlook: Outlook) -> Records:
        self.snapshots.append(state)
        return self.policy.decide(state, outlook)


OUTCOME = (
    *("status", "first_start_us", "end_us", "done_us", "service_us", "energy_j", "lost_us"),
    "waking_us",
    *("preemptions", "failures", "attempt", "waiting_on", "pool"),
)
ACCOUNT = ("power_w", "energy_j", "busy_us", "asleep_us", "since_us", "idle_since_us")
COUNTS = (
    *("now_us", "arrivals", "starts", "ends", "preemptions", "failures", "repairs"),
    *("decisions", "finished", "power_w", "peak_power_w"),
)


def summary(state: State) -> dict[str, list[Any]]:
    """Everything a run leaves behind, to the last bit, whatever its internal order."""
    parts = ((state.runs, OUTCOME), (state.nodes, ACCOUNT), (state.clock, COUNTS))
    return {
        f"{name} {at}": array[name].tolist()
        for at, (array, names) in enumerate(parts)
        for name in names
    }


def same_bytes(a: State, b: State) -> bool:
    """Whether all that a run changes is the same in both."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in CHANGED)
