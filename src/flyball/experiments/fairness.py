"""Measures whether sharing makes a tenant worse off: one cluster against one for each tenant.

A tenant's *finish-time fairness* here is its mean completion time on the shared cluster over its
mean completion time alone on the nodes of its quota, under the better of `fifo-skip` and
`easy` there: at most 1 means that sharing cost it nothing. The measure of single jobs
(`finish_time_fairness`, against an even split between all jobs present) is reported too; it
has a long tail under any policy that does not preempt at once, since a job of a minute that
waits an hour for devices counts 60.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, build_twin, policy_settings, warm
from flyball.core.cluster import Cluster, NodeGroup, Tenant
from flyball.core.effects import Effects
from flyball.core.metrics import completions_s, finish_time_fairness
from flyball.core.results import Floats, Results
from flyball.core.units import S_PER_DAY, S_PER_HOUR
from flyball.core.workload import Workload
from flyball.experiments.replay import replay
from flyball.twin.generate import generate
from flyball.twin.inputs.traces.describe import device_seconds

NODES, DEVICES = 2, 8
"""Nodes in each tenant's quota, and devices per node."""
DEMANDS = (2.2, 0.6, 0.5, 0.3)
"""Demand of each tenant relative to its quota, before it is scaled to the load."""
JOBS, DAYS = 600, 7.0
ALONE = "fifo-skip,easy"
"""Policies of the tenants' own clusters; the better one counts."""


@dataclass(frozen=True)
class FairnessCase:
    """One draw: the workload of each tenant, and all of them together."""

    own: tuple[Workload, ...]
    together: Workload


def names() -> tuple[str, ...]:
    """Return the names of the tenants."""
    return tuple(f"tenant{at + 1}" for at in range(len(DEMANDS)))


def shared_cluster() -> Cluster:
    """Return a cluster of eight nodes with a quota of a quarter for each tenant."""
    group = NodeGroup("n", NODES * len(DEMANDS), "V100", DEVICES)
    quotas = tuple(Tenant(name, NODES * DEVICES) for name in names())
    return Cluster("shared", (group,), tenants=quotas)


def own_cluster() -> Cluster:
    """Return a cluster of the size of one quota."""
    return Cluster("own", (NodeGroup("n", NODES, "V100", DEVICES),))


def draw(load: float, seed: int) -> FairnessCase:
    """Generate a week of each tenant, together at this load on the shared cluster."""
    factor = load * len(DEMANDS) / sum(DEMANDS)
    own = tuple(_week(demand * factor, 1_000 * seed + at, at) for at, demand in enumerate(DEMANDS))
    columns = ("submit_us", "duration_us", "devices", "tenant")
    joined = {name: np.concatenate([getattr(part, name) for part in own]) for name in columns}
    order = np.argsort(joined["submit_us"], kind="stable")
    joined = {name: values[order] for name, values in joined.items()}
    return FairnessCase(own, _workload("together", joined))


def _week(load: float, seed: int, tenant: int) -> Workload:
    """Generate a tenant's week, its durations scaled to the load on the nodes of its quota."""
    week = generate("mixed", seed, jobs=JOBS, days=DAYS)
    week = replace(week, devices=np.minimum(week.devices, NODES * DEVICES))
    offered_s = load * NODES * DEVICES * DAYS * S_PER_DAY
    factor = offered_s / float(device_seconds(week).sum())
    columns = {
        "submit_us": week.submit_us,
        "duration_us": np.maximum(1e6, week.duration_us * factor),
        "devices": week.devices,
        "tenant": np.full(len(week), tenant),
    }
    return _workload(names()[tenant], columns)


def _workload(name: str, columns: dict[str, Any]) -> Workload:
    return Workload.of(
        name,
        columns["submit_us"] / 1e6,
        columns["duration_us"] / 1e6,
        columns["devices"],
        tenant=columns["tenant"],
        tenants=names(),
        kind=0,
    )


def steps(policies: Sequence[PolicySetting], seeds: int) -> int:
    """Return the number of times that `run` reports progress."""
    return seeds * (len(policies) + 1)


def run(
    policies: Sequence[PolicySetting],
    load: float,
    seeds: int,
    note: Callable[[str], None],
    done: Callable[[str], None] = lambda _step: None,
) -> dict[str, Any]:
    """Measure everything that `flyball bench fairness` reports.

    Args:
        policies: of the shared cluster.
        load: of all tenants on the shared cluster.
        seeds: number of generated weeks.
        note: receives the seed that is being run.
        done: receives the name of each step that is over; there are `steps(policies, seeds)`.
    """
    alone = policy_settings(ALONE, [])
    warm(note)
    rows: dict[str, list[dict[str, Any]]] = {policy.name: [] for policy in policies}
    for seed in range(seeds):
        note(f"seed {seed}")
        case = draw(load, seed)
        own_s = [_best_alone_s(workload, alone) for workload in case.own]
        done(f"alone, seed {seed}")
        for policy in policies:
            twin = build_twin(shared_cluster(), case.together, policy, Effects())
            rows[policy.name].append(_seed_row(replay(twin, policy), own_s))
            done(f"{policy.name}, seed {seed}")
    return {
        "load": load,
        "seeds": seeds,
        "tenants": list(names()),
        "policies": [_summed(name, per_seed) for name, per_seed in rows.items()],
    }


def _best_alone_s(workload: Workload, policies: Sequence[PolicySetting]) -> float:
    """Return the mean completion of a tenant alone, under the best of the policies."""
    runs = (
        replay(build_twin(own_cluster(), workload, policy, Effects()), policy)
        for policy in policies
    )
    return min(float(completions_s(results).mean()) for results in runs)


def _seed_row(results: Results, own_s: Sequence[float]) -> dict[str, Any]:
    shared_s = [float(_of(results, completions_s(results), at).mean()) for at in range(len(own_s))]
    rho = [_of(results, finish_time_fairness(results), at) for at in range(len(own_s))]
    return {
        "ratio": [ours / theirs for ours, theirs in zip(shared_s, own_s, strict=True)],
        "job_rho_p95": [float(np.percentile(values, 95)) for values in rho],
        "job_rho_max": [float(values.max()) for values in rho],
        "completion_h": float(completions_s(results).mean()) / S_PER_HOUR,
        "preemptions": int(results.preemptions.sum()),
    }


def _of(results: Results, values: Floats, tenant: int) -> Floats:
    """Return the values of one tenant's jobs; every job ended."""
    mine: Floats = values[results.tenant == tenant]
    return mine


def _summed(name: str, per_seed: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = np.array([row["ratio"] for row in per_seed])
    return {
        "policy": name,
        "worst": float(ratios.max()),
        "by_tenant": ratios.mean(axis=0).tolist(),
        "worst_by_tenant": ratios.max(axis=0).tolist(),
        "job_rho_p95": float(np.max([row["job_rho_p95"] for row in per_seed])),
        "job_rho_max": float(np.max([row["job_rho_max"] for row in per_seed])),
        "completion_h": float(np.mean([row["completion_h"] for row in per_seed])),
        "preemptions": float(np.mean([row["preemptions"] for row in per_seed])),
        "per_seed": per_seed,
    }
