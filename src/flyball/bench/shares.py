"""What the share policies cost: one decision with many active jobs, and a replayed week.

A decision is all that stands between a change and the new plan: the policy's targets (its
linear programmes) and the round that realises them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, build_twin, policy_settings, warm
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Order
from flyball.core.metrics import summarise
from flyball.core.units import S_PER_DAY
from flyball.core.workload import Workload
from flyball.schedule.kernel import decide_now
from flyball.schedule.shares.targets import set_targets
from flyball.twin.generate import generate
from flyball.twin.inputs.traces.describe import device_seconds
from flyball.twin.kernel import advance_to

Note = Callable[[str], None]
SIZES = (1_000, 10_000)
"""Active jobs of a measured decision."""
REPEATS = 3
WEEK_JOBS = 10_000
WEEK_DAYS = 7.0
LOAD = 1.0


def big_cluster() -> Cluster:
    """1,000 nodes of four types."""
    return Cluster(
        "four types",
        (
            NodeGroup("a", 100, "A100", 8),
            NodeGroup("v", 300, "V100", 8),
            NodeGroup("p", 300, "P100", 4),
            NodeGroup("k", 300, "K80", 8),
        ),
    )


def week(seed: int = 0) -> Workload:
    """A generated week of 10,000 jobs, its durations scaled to keep the big cluster busy."""
    made = generate("mixed", seed, jobs=WEEK_JOBS, days=WEEK_DAYS)
    offered_s = LOAD * big_cluster().device_count * WEEK_DAYS * S_PER_DAY
    factor = offered_s / float(device_seconds(made).sum())
    return replace(made, duration_us=made.duration_us * factor)


def crowd(jobs: int, seed: int = 0) -> Workload:
    """As many jobs of the same kind, all there at once."""
    made = generate("mixed", seed, jobs=jobs, days=WEEK_DAYS)
    return replace(made, submit_us=np.zeros(jobs, np.int64))


def run(names: str, note: Note) -> dict[str, Any]:
    """Every figure of `flyball bench shares`."""
    policies = policy_settings(names or "all", [])
    policies = [each for each in policies if each.knobs.order == Order.SHARES]
    if not policies:
        raise BadInput(f"no policy of {names!r} sets shares", "see `flyball policies`")
    warm(note)
    _first_use(policies)
    return {
        "decisions": [decision(policy, jobs, note) for policy in policies for jobs in SIZES],
        "weeks": [replayed(policy, note) for policy in policies],
    }


def _first_use(policies: Sequence[PolicySetting]) -> None:
    """Load the solver and compile what a decision alone needs."""
    for policy in policies:
        decision(policy, 10, lambda _: None)


def decision(policy: PolicySetting, jobs: int, note: Note) -> dict[str, Any]:
    """The fastest of a few first decisions with so many active jobs."""
    note(f"{policy.name}: a decision with {jobs:,} active jobs")
    best = (float("inf"), 0.0)
    for seed in range(REPEATS):
        twin = build_twin(big_cluster(), crowd(jobs, seed), policy, Effects())
        packed = policy.knobs.pack()
        advance_to(twin.state, packed, twin.next_us)
        assert policy.allocator is not None
        began = time.perf_counter()
        targets = policy.allocator.targets(twin.state)
        solved = time.perf_counter()
        set_targets(twin.state, targets)
        decide_now(twin.state, packed)
        best = min(best, (time.perf_counter() - began, solved - began))
    return {
        "policy": policy.name,
        "active": jobs,
        "decision_ms": round(1e3 * best[0], 3),
        "targets_ms": round(1e3 * best[1], 3),
    }


def replayed(policy: PolicySetting, note: Note) -> dict[str, Any]:
    """The week of 10,000 jobs on 1,000 nodes."""
    note(f"{policy.name}: a week of {WEEK_JOBS:,} jobs on {big_cluster().node_count:,} nodes")
    began = time.perf_counter()
    twin = build_twin(big_cluster(), week(), policy, Effects())
    summary = summarise(twin.replay())
    return {
        "policy": policy.name,
        "jobs": summary.jobs,
        "wall_s": round(time.perf_counter() - began, 3),
        "decisions": int(twin.state.clock[0].decisions),
        "completion_h": round(summary.completion_s.mean / 3600, 3),
        "utilisation": round(summary.utilisation, 4),
        "preemptions": summary.preemptions,
    }
