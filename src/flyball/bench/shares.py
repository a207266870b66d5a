"""Cost of the share policies: one decision with many active jobs, and a replayed week.

A decision is all the work between a change and the new plan: the policy's targets (its
linear programmes) and the round that realises them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, build_twin, policy_settings, warm
from flyball.bench.figure import Figure
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Order
from flyball.core.metrics import summarise
from flyball.core.units import S_PER_DAY
from flyball.core.workload import Workload
from flyball.experiments.replay import replay
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
WEEK_FIGURES = (
    ("wall time", "wall_s", "s"),
    ("decisions", "decisions", ""),
    ("mean completion", "completion_h", "h"),
    ("utilisation", "utilisation", ""),
    ("preemptions", "preemptions", ""),
)
"""Name, key and unit of the figures of a replayed week."""


def big_cluster() -> Cluster:
    """Return a cluster of 1,000 nodes of four types."""
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
    """Return a week of 10,000 jobs, its durations scaled to keep the big cluster busy."""
    workload = generate("mixed", seed, jobs=WEEK_JOBS, days=WEEK_DAYS)
    offered_s = LOAD * big_cluster().device_count * WEEK_DAYS * S_PER_DAY
    factor = offered_s / float(device_seconds(workload).sum())
    return replace(workload, duration_us=workload.duration_us * factor)


def crowd(jobs: int, seed: int = 0) -> Workload:
    """Return jobs of the same kind, all submitted at time 0."""
    workload = generate("mixed", seed, jobs=jobs, days=WEEK_DAYS)
    return replace(workload, submit_us=np.zeros(jobs, np.int64))


def share_policies(names: str) -> list[PolicySetting]:
    """Return those of the policies named (none = all) that set shares.

    Raises:
        BadInput: none of them does, or there is no such policy.
    """
    policies = policy_settings(names or "all", [])
    policies = [policy for policy in policies if policy.knobs.order == Order.SHARES]
    if not policies:
        raise BadInput(f"no policy of {names!r} sets shares", "see `flyball policies`")
    return policies


def steps(policies: Sequence[PolicySetting]) -> int:
    """Return the number of times that `run` reports progress."""
    return len(policies) * (len(SIZES) + 1)


def run(
    policies: Sequence[PolicySetting], note: Note, done: Note = lambda _step: None
) -> dict[str, Any]:
    """Measure everything that `flyball bench shares` reports.

    Args:
        policies: that set shares.
        note: receives what is being measured.
        done: receives the name of each step that is over; there are `steps(policies)`.
    """
    warm(note)
    _first_use(policies)
    decisions, weeks = [], []
    for policy in policies:
        for jobs in SIZES:
            decisions.append(decision(policy, jobs, note))
            done(f"{policy.name}, {jobs:,} jobs")
    for policy in policies:
        weeks.append(replayed(policy, note))
        done(f"{policy.name}, a week")
    return {"decisions": decisions, "weeks": weeks}


def figures(result: dict[str, Any]) -> list[Figure]:
    """Return what `run` measured as figures with the policy as their label; none has a bar."""
    decisions = [
        Figure(name, row[key], "ms", labels=(row["policy"],))
        for row in result["decisions"]
        for name, key in (
            (f"decision with {row['active']:,} active jobs", "decision_ms"),
            (f"targets of that decision, {row['active']:,} jobs", "targets_ms"),
        )
    ]
    weeks = [
        Figure(f"week of {row['jobs']:,} jobs: {name}", row[key], unit, labels=(row["policy"],))
        for row in result["weeks"]
        for name, key, unit in WEEK_FIGURES
    ]
    return [*decisions, *weeks]


def _first_use(policies: Sequence[PolicySetting]) -> None:
    """Load the solver and compile the code that only decisions use."""
    for policy in policies:
        decision(policy, 10, lambda _: None)


def decision(policy: PolicySetting, jobs: int, note: Note) -> dict[str, Any]:
    """Measure a first decision with this many active jobs; the fastest of a few counts."""
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
    """Measure the week of 10,000 jobs on 1,000 nodes."""
    note(f"{policy.name}: a week of {WEEK_JOBS:,} jobs on {big_cluster().node_count:,} nodes")
    began = time.perf_counter()
    twin = build_twin(big_cluster(), week(), policy, Effects())
    summary = summarise(replay(twin, policy))
    return {
        "policy": policy.name,
        "jobs": summary.jobs,
        "wall_s": round(time.perf_counter() - began, 3),
        "decisions": int(twin.state.clock[0].decisions),
        "completion_h": round(summary.completion_s.mean / 3600, 3),
        "utilisation": round(summary.utilisation, 4),
        "preemptions": summary.preemptions,
    }
