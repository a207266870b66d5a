"""Is anybody worse off for sharing? Tenants on one cluster against each on a cluster of its own.

A tenant's *finish-time fairness* here is its mean completion time on the shared cluster over its
mean completion time alone on the nodes of its quota, under the better of `fifo-skip` and
`easy` there: at most 1 means that sharing cost it nothing. The measure of single jobs
(`finish_time_fairness`, against an even split between all jobs present) is given beside it; it
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
from flyball.twin.generate import generate
from flyball.twin.inputs.traces.describe import device_seconds

NODES, DEVICES = 2, 8
"""Of each tenant's own."""
DEMANDS = (2.2, 0.6, 0.5, 0.3)
"""What the tenants ask for, relative to their quotas, before it is scaled to the load."""
JOBS, DAYS = 600, 7.0
ALONE = "fifo-skip,easy"


@dataclass(frozen=True)
class FairnessCase:
    """One draw: the tenants' own workloads, and all of them together."""

    own: tuple[Workload, ...]
    together: Workload


def names() -> tuple[str, ...]:
    return tuple(f"tenant{at + 1}" for at in range(len(DEMANDS)))


def shared_cluster() -> Cluster:
    """Eight nodes, a quarter of them each tenant's by quota; borrowing is free."""
    group = NodeGroup("n", NODES * len(DEMANDS), "V100", DEVICES)
    quotas = tuple(Tenant(name, NODES * DEVICES) for name in names())
    return Cluster("shared", (group,), tenants=quotas)


def own_cluster() -> Cluster:
    """What a quota comes to as a cluster of its own."""
    return Cluster("own", (NodeGroup("n", NODES, "V100", DEVICES),))


def draw(load: float, seed: int) -> FairnessCase:
    """A generated week of each tenant, together at this load on the shared cluster."""
    factor = load * len(DEMANDS) / sum(DEMANDS)
    own = tuple(_week(demand * factor, 1_000 * seed + at, at) for at, demand in enumerate(DEMANDS))
    columns = ("submit_us", "duration_us", "devices", "tenant")
    joined = {each: np.concatenate([getattr(one, each) for one in own]) for each in columns}
    order = np.argsort(joined["submit_us"], kind="stable")
    joined = {name: values[order] for name, values in joined.items()}
    return FairnessCase(own, _workload("together", joined))


def _week(load: float, seed: int, tenant: int) -> Workload:
    """A tenant's week: its durations are scaled to the load on its own nodes."""
    made = generate("mixed", seed, jobs=JOBS, days=DAYS)
    made = replace(made, devices=np.minimum(made.devices, NODES * DEVICES))
    offered_s = load * NODES * DEVICES * DAYS * S_PER_DAY
    factor = offered_s / float(device_seconds(made).sum())
    columns = {
        "submit_us": made.submit_us,
        "duration_us": np.maximum(1e6, made.duration_us * factor),
        "devices": made.devices,
        "tenant": np.full(len(made), tenant),
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


def run(policies: str, load: float, seeds: int, note: Callable[[str], None]) -> dict[str, Any]:
    """Every figure of `flyball bench fairness`."""
    chosen, alone = policy_settings(policies, []), policy_settings(ALONE, [])
    warm(note)
    rows: dict[str, list[dict[str, Any]]] = {each.name: [] for each in chosen}
    for seed in range(seeds):
        note(f"seed {seed}")
        case = draw(load, seed)
        own_s = [_best_alone_s(workload, alone) for workload in case.own]
        for policy in chosen:
            results = build_twin(shared_cluster(), case.together, policy, Effects()).replay()
            rows[policy.name].append(_seed_row(results, own_s))
    return {
        "load": load,
        "seeds": seeds,
        "tenants": list(names()),
        "policies": [_summed(name, per_seed) for name, per_seed in rows.items()],
    }


def _best_alone_s(workload: Workload, policies: Sequence[PolicySetting]) -> float:
    """Mean completion of a tenant on its own nodes, under the best of the policies."""
    runs = (build_twin(own_cluster(), workload, each, Effects()).replay() for each in policies)
    return min(float(completions_s(each).mean()) for each in runs)


def _seed_row(results: Results, own_s: Sequence[float]) -> dict[str, Any]:
    shared_s = [float(_of(results, completions_s(results), at).mean()) for at in range(len(own_s))]
    rho = [_of(results, finish_time_fairness(results), at) for at in range(len(own_s))]
    return {
        "ratio": [ours / theirs for ours, theirs in zip(shared_s, own_s, strict=True)],
        "job_rho_p95": [float(np.percentile(each, 95)) for each in rho],
        "job_rho_max": [float(each.max()) for each in rho],
        "completion_h": float(completions_s(results).mean()) / S_PER_HOUR,
        "preemptions": int(results.preemptions.sum()),
    }


def _of(results: Results, values: Floats, tenant: int) -> Floats:
    """The values of one tenant's jobs; every job ended."""
    mine: Floats = values[results.tenant == tenant]
    return mine


def _summed(name: str, per_seed: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = np.array([each["ratio"] for each in per_seed])
    return {
        "policy": name,
        "worst": float(ratios.max()),
        "by_tenant": ratios.mean(axis=0).tolist(),
        "worst_by_tenant": ratios.max(axis=0).tolist(),
        "job_rho_p95": float(np.max([each["job_rho_p95"] for each in per_seed])),
        "job_rho_max": float(np.max([each["job_rho_max"] for each in per_seed])),
        "completion_h": float(np.mean([each["completion_h"] for each in per_seed])),
        "preemptions": float(np.mean([each["preemptions"] for each in per_seed])),
        "per_seed": per_seed,
    }
