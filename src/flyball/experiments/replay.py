"""Many replays at once: policies x seeds, on every core.

The i-th seed drives whatever is drawn at random (errors of estimates, node failures), the
same for each policy, so differences between policies are paired by seed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, Twin, build_twin, warm
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import FlyballError
from flyball.core.intervals import paired
from flyball.core.metrics import Summary, summarise
from flyball.core.results import Results
from flyball.core.workload import Workload
from flyball.experiments.adjustments import Adjustment, Watch
from flyball.experiments.own_policy.failure import PolicyFailed
from flyball.experiments.recorded import Closeness, closeness
from flyball.experiments.tuning.classes import (
    ClassFigures,
    Followed,
    class_figures,
    follow,
    results_of,
)
from flyball.experiments.workers import POOL_PAYS_S, Workers, usable_cores
from flyball.tune.registry import defers, resizes

Task = tuple[int, int]  # policy, seed


def or_nan(value: float | None) -> float:
    """Return a metric as a number, NaN = the cluster has no such signal."""
    return math.nan if value is None else value


COMPARED: tuple[tuple[str, Callable[[Summary], float]], ...] = (
    ("completion_s", lambda summary: summary.completion_s.mean),
    ("wait_s", lambda summary: summary.wait_s.mean),
    ("work_per_window", lambda summary: summary.work_per_window),
    ("utilisation", lambda summary: summary.utilisation),
    ("energy_kwh", lambda summary: summary.energy_kwh),
    ("energy_per_work", lambda summary: summary.energy_per_work),
    ("cost", lambda summary: summary.cost),
    ("money", lambda summary: or_nan(summary.money)),
    ("carbon_g", lambda summary: or_nan(summary.carbon_g)),
)
"""Metrics that are compared between policies, seed by seed."""
BILLED = ("money", "carbon_g")
"""Those of clusters with a price or a carbon intensity only."""


@dataclass(frozen=True)
class Run:
    """The outcome of one policy under one seed, and how long the twin took.

    Attributes:
        results: the raw results; None if they are not kept.
        adjustments: what tuners did, if they were watched.
        closeness: to the starts that the trace recorded; None if it has none.
        by_class: figures by workload class; None if they were not asked for.
    """

    policy: str
    seed: int
    summary: Summary
    run_s: float
    results: Results | None = field(default=None, repr=False)
    adjustments: tuple[Adjustment, ...] = field(default=(), repr=False)
    closeness: Closeness | None = field(default=None, repr=False)
    by_class: ClassFigures | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return one entry of the JSON's `results`."""
        head = {"policy": self.policy, "seed": self.seed}
        return {**head, **self.summary.as_dict(), "run_s": round(self.run_s, 6)}


@dataclass(frozen=True)
class ReplayCase:
    """Holds what all runs share. `workloads` has one entry per seed, or one for all of them.

    `notes` lists what was left out, assumed or scaled when they were read.

    A policy without tuners runs every job as its user set it: on the devices it asks for,
    alone on them, with its own batch.
    """

    cluster: Cluster
    workloads: tuple[Workload, ...]
    policies: tuple[PolicySetting, ...]
    effects: Effects
    seeds: int = 1
    keep: str = "none"  # which raw results to keep: none, first (seed), all
    watch: bool = False  # whether to write down what tuners do
    notes: tuple[str, ...] = ()
    with_record: bool = True  # whether to compare with the starts that a trace recorded
    with_classes: bool = False  # whether to have figures by workload class
    fetch_share: float = 0.0  # part of a bandwidth-limited job's time in which it fetches its data

    def tasks(self) -> list[tuple[int, int]]:
        """Return (policy, seed) of every run, policy by policy."""
        return [(p, s) for p in range(len(self.policies)) for s in range(self.seeds)]

    def build(self, policy: int, seed: int) -> Twin:
        """Return the twin of one run, before its first event."""
        effects = replace(self.effects, seed=self.effects.seed + seed)
        tuning = self.policies[policy].tuning
        if tuning is None:
            effects = replace(effects, share_limit=1)
        if tuning is None or not any(map(resizes, tuning.names)):
            effects = replace(effects, elastic=False)
        if tuning is None or not any(map(defers, tuning.names)):
            effects = replace(effects, slack_s=0.0)
        if self.policies[policy].pathways and tuning is not None and "share" in tuning.names:
            effects = replace(effects, share_limit=max(2, effects.share_limit))
        workload = self._followed(policy, seed).workload
        return build_twin(self.cluster, workload, self.policies[policy], effects)

    def _followed(self, policy: int, seed: int) -> Followed:
        """Return the jobs of one seed, on their pathways if those of the policy follow them."""
        workload = self.workload(seed)
        if self.policies[policy].pathways:
            return follow(workload, self.fetch_share)
        return Followed(workload, np.arange(len(workload)))

    def workload(self, seed: int) -> Workload:
        """Return the jobs of one seed."""
        return self.workloads[seed if len(self.workloads) > 1 else 0]

    def run(self, policy: int, seed: int, twin: Twin | None = None) -> Run:
        """Run one policy under one seed in this process; `twin` if it is built already."""
        began = time.perf_counter()
        twin = twin or self.build(policy, seed)
        watch = Watch(self.cluster, self.workload(seed)) if self.watch and twin.tuning else None
        if watch is not None and twin.tuning is not None:
            twin.tuning = watch.over(twin.tuning)
        results = replay(twin, self.policies[policy])
        rows = self._followed(policy, seed).rows
        if len(rows) < len(results.submit_us):  # without the transfers
            results = results_of(results, rows)
        run_s = time.perf_counter() - began
        kept = self.keep == "all" or (self.keep == "first" and seed == 0)
        return Run(
            self.policies[policy].name,
            seed,
            summarise(results),
            run_s,
            results if kept else None,
            tuple(watch.adjustments) if watch is not None else (),
            closeness(self.workload(seed), results) if self.with_record else None,
            class_figures(self.workload(seed), results) if self.with_classes else None,
        )


def replay(twin: Twin, policy: PolicySetting) -> Results:
    """Run a twin to its end and return the results; an error names the policy.

    Raises:
        FlyballError: the policy leaves jobs waiting for ever, or its plan cannot be carried out.
    """
    try:
        return twin.replay(policy.decider)
    except PolicyFailed:
        raise  # names the file and the line
    except FlyballError as error:
        where = getattr(policy.decider, "place", policy.name)
        raise FlyballError(f"{where}: {error.args[0]}", error.remedy) from None


def run_all(
    case: ReplayCase,
    workers: int | None = None,
    done: Callable[[Run], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> list[Run]:
    """Run every policy under every seed and return the runs in the order of `ReplayCase.tasks`.

    Args:
        case: what to run.
        workers: processes at most; None = as many as cores.
        done: receives each run as it ends.
        note: receives what takes long before the first run.

    Raises:
        FlyballError: a workload that cannot be run; the error of the first run that failed.
    """
    # 1. Refuse what cannot be run; then compile once, so that no two workers do it.
    left = sorted(case.tasks(), key=lambda task: (task[1], task[0]))
    twin: Twin | None = case.build(*left[0])
    warm(note)
    # 2. Begin with one seed of each policy, to estimate how long the rest will take.
    limit = min(workers or usable_cores(), len(left))
    runs: dict[Task, Run] = {}
    spent_s = 0.0
    while left and (limit == 1 or not runs or spent_s / len(runs) * len(left) < POOL_PAYS_S):
        task = left.pop(0)
        began = time.perf_counter()
        runs[task] = case.run(*task, twin)
        twin = None
        spent_s += time.perf_counter() - began
        if done is not None:
            done(runs[task])
    # 3. If the rest would take long, send it to workers.
    with Workers(case, limit) as crew:
        for task, run in crew.send(left):
            runs[task] = run
            if done is not None:
                done(run)
    return [runs[task] for task in case.tasks()]


def differences(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return each policy less the first one, paired by seed, with 95 % confidence intervals.

    `percent` is (mean, low, high) of the change of each seed relative to the first policy.
    """
    base, *others = by_policy(runs)
    return changes(runs, dict.fromkeys(others, base))


def changes(runs: Sequence[Run], against: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each policy of `against` less the one it maps to, as `differences` does."""
    runs_of = by_policy(runs)
    out = []
    for other, base in against.items():
        row: dict[str, Any] = {"policy": other, "against": base}
        for name, value in COMPARED:
            ours = [value(run.summary) for run in runs_of[other]]
            theirs = [value(run.summary) for run in runs_of[base]]
            if any(map(math.isnan, ours)) and name in BILLED:
                continue  # the cluster has no such signal
            mean, low, high = paired(ours, theirs)
            row[name] = {"mean": mean, "low": low, "high": high}
            if all(theirs):
                moved = [100 * (a - b) / b for a, b in zip(ours, theirs, strict=True)]
                row[name]["percent"] = list(paired(moved, [0.0] * len(moved)))
        out.append(row)
    return out


def by_policy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each policy, in order."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.policy, []).append(run)
    return by_name
