"""The runs of a comparison: each is run once, and kept in a `run_file` as soon as it ends.

The key of a run is built from all that it depends on: the scenario, the policy and its knobs, the
seed, and the code. A comparison that was interrupted continues where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flyball.app import PolicySetting
from flyball.core.errors import FlyballError
from flyball.core.workload import Workload
from flyball.experiments.compare.bounds import lower_bounds
from flyball.experiments.compare.fairness import fairness_record
from flyball.experiments.run_file import Record, RunFile, key_of, source_version
from flyball.experiments.scenarios import Scenario
from flyball.experiments.unfit import fitting
from flyball.experiments.workers import Workers

BOUND = -1
"""Stands for a policy: computes the lower bounds of a scenario and seed."""

CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "app.py"),
    *(
        "experiments/replay.py",
        "experiments/scenarios.py",
        "experiments/unfit.py",
        "experiments/compare/bounds.py",
        "experiments/compare/fairness.py",
        "experiments/compare/priced_bound.py",
    ),
    *("data/*.toml", "data/*.csv", "data/clusters.yaml"),
)
"""Patterns of the sources that a run depends on besides its scenario, knobs and seed."""


def code_version() -> str:
    """Return the package's version and a digest of the sources that runs depend on."""
    return source_version(CODE)


@dataclass(frozen=True)
class ComparePlan:
    """Scenarios x policies x seeds.

    Attributes:
        must_fit: policies that every job must be able to start under; jobs that cannot are left out
            of all runs. Empty = every job runs, and one that cannot is an error.
    """

    scenarios: tuple[Scenario, ...]
    policies: tuple[PolicySetting, ...]
    seeds: tuple[int, ...]
    must_fit: tuple[PolicySetting, ...] = ()

    def tasks(self) -> list[tuple[int, int, int]]:
        """Return (seed, scenario, policy or BOUND) of every run, seed by seed.

        The runs that are done early are then a complete comparison over fewer seeds.
        """
        arms = [*range(len(self.policies)), BOUND]
        scenarios = range(len(self.scenarios))
        return [(seed, at, arm) for seed in self.seeds for at in scenarios for arm in arms]

    def key(self, seed: int, scenario: int, arm: int) -> str:
        """Return the key of a run; two runs with the same key have the same result."""
        policy = None if arm == BOUND else self.policies[arm]
        parts = [
            code_version(),
            self.scenarios[scenario].text(),
            seed,
            None if policy is None else [policy.name, policy.knobs.as_dict()],
        ]
        if policy is not None and policy.version:
            parts.append(policy.version)
        if self.must_fit:
            parts.append(sorted({policy.knobs.cap for policy in self.must_fit}))
        return key_of(*parts)

    def attempt(self, seed: int, scenario: int, arm: int) -> Record:
        """Return a run, or `{"failed": reason}` if the twin refuses the policy on the scenario."""
        try:
            return self.run(seed, scenario, arm)
        except FlyballError as error:
            return {"failed": str(error)}

    def without(self, failed: Mapping[str, str]) -> ComparePlan:
        """Return the same plan without some policies."""
        kept = tuple(policy for policy in self.policies if policy.name not in failed)
        return replace(self, policies=kept)

    def run(self, seed: int, scenario: int, arm: int) -> Record:
        """Run one task in this process and return it as a line of the file."""
        chosen = self.scenarios[scenario]
        record: Record = {"key": self.key(seed, scenario, arm), "scenario": chosen.name}
        began = time.perf_counter()
        workload, left_out = self._workload(chosen, seed)
        if arm == BOUND:
            bounds = lower_bounds(chosen.make_cluster(), workload, chosen.make_effects(seed))
            record |= {"seed": seed, "jobs": len(workload), "bounds": bounds.as_dict()}
            if self.must_fit:
                record["left_out"] = left_out
        else:
            case = chosen.case(self.policies[arm], seed)
            done = replace(case, workloads=(workload,), keep="all").run(0, 0)
            assert done.results is not None
            record |= {"seed": seed, "policy": done.policy, "summary": done.summary.as_dict()}
            record |= fairness_record(done.results)
        return {**record, "run_s": round(time.perf_counter() - began, 6)}

    def _workload(self, scenario: Scenario, seed: int) -> tuple[Workload, dict[str, int]]:
        """Return the jobs of a run, and how many were left out, by the reason."""
        workload = scenario.make_workload(seed)
        if not self.must_fit:
            return workload, {}
        effects = scenario.make_effects(seed)
        return fitting(workload, scenario.make_cluster(), self.must_fit, effects)


@dataclass(frozen=True)
class _Attempts:
    """Runs tasks in workers; a run that is refused does not end the others."""

    plan: ComparePlan

    @property
    def run(self) -> Callable[..., Record]:
        return self.plan.attempt


def run_plan(
    plan: ComparePlan,
    runs: RunFile,
    workers: int | None = None,
    done: Callable[[Record], None] | None = None,
    failed: dict[str, str] | None = None,
) -> list[Record]:
    """Return every run of the plan in the order of its tasks, from the file or run now.

    Args:
        plan: what to run.
        runs: keeps the runs.
        workers: processes at most; None = as many as cores.
        done: receives each run, when it is read or done.
        failed: receives the policies that a scenario refuses, with the reason; their runs are left
            out of the result. None = the first refusal ends all runs.

    Raises:
        FlyballError: a run was refused, and `failed` is None or it is the bound's.
    """
    keys = {task: plan.key(*task) for task in plan.tasks()}
    left = []
    for task, key in keys.items():
        if key not in runs.records:
            left.append(task)
        elif done is not None:
            done(runs.records[key])
    refused: dict[str, str] = {}
    with Workers(_Attempts(plan), workers) as crew:
        for (_, scenario, arm), record in crew.run(left):
            if "failed" in record:
                if failed is None or arm == BOUND:
                    raise FlyballError(record["failed"])
                about = f"on {plan.scenarios[scenario].name}: {record['failed']}"
                refused.setdefault(plan.policies[arm].name, about)
                continue
            runs.append(record)
            if done is not None:
                done(record)
    if failed is not None:
        failed.update(refused)
    kept = plan.without(refused)
    return [runs.records[kept.key(*task)] for task in kept.tasks()]
