"""The runs of a comparison: each is made once, and kept in a `run_file` as soon as it ends.

The key of a run is made of all that it depends on: the scenario, the policy and its knobs, the
seed, and the code. A comparison that was broken off goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flyball.app import PolicySetting
from flyball.core.errors import FlyballError
from flyball.experiments.compare.bounds import lower_bounds
from flyball.experiments.run_file import Record, RunFile, key_of, source_version
from flyball.experiments.scenarios import Scenario
from flyball.experiments.workers import Workers

BOUND = -1
"""In place of a policy: the lower bounds of a scenario and seed."""

CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "app.py"),
    *(
        "experiments/replay.py",
        "experiments/scenarios.py",
        "experiments/compare/bounds.py",
        "experiments/compare/priced_bound.py",
    ),
    *("data/*.toml", "data/*.csv", "data/clusters.yaml"),
)
"""What the result of a run may depend on besides its scenario, knobs and seed."""


def code_version() -> str:
    """The package's version and a digest of the sources that runs depend on."""
    return source_version(CODE)


@dataclass(frozen=True)
class ComparePlan:
    """Scenarios x policies x seeds."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[PolicySetting, ...]
    seeds: tuple[int, ...]

    def tasks(self) -> list[tuple[int, int, int]]:
        """(seed, scenario, policy or BOUND) of every run, seed by seed.

        What is there after a while is then a whole comparison over fewer seeds.
        """
        arms = [*range(len(self.policies)), BOUND]
        scenarios = range(len(self.scenarios))
        return [(seed, at, arm) for seed in self.seeds for at in scenarios for arm in arms]

    def key(self, seed: int, scenario: int, arm: int) -> str:
        """Two runs with the same key have the same result."""
        policy = None if arm == BOUND else self.policies[arm]
        return key_of(
            code_version(),
            self.scenarios[scenario].text(),
            seed,
            None if policy is None else [policy.name, policy.knobs.as_dict()],
        )

    def attempt(self, seed: int, scenario: int, arm: int) -> Record:
        """One run, or `{"failed": reason}` if the twin refuses the policy on the scenario."""
        try:
            return self.run(seed, scenario, arm)
        except FlyballError as error:
            return {"failed": str(error)}

    def without(self, failed: Mapping[str, str]) -> ComparePlan:
        """The same without some policies."""
        kept = tuple(each for each in self.policies if each.name not in failed)
        return replace(self, policies=kept)

    def run(self, seed: int, scenario: int, arm: int) -> Record:
        """One run, here and now, as a line of the file."""
        chosen = self.scenarios[scenario]
        record: Record = {"key": self.key(seed, scenario, arm), "scenario": chosen.name}
        began = time.perf_counter()
        if arm == BOUND:
            workload, effects = chosen.make_workload(seed), chosen.make_effects(seed)
            bounds = lower_bounds(chosen.make_cluster(), workload, effects)
            record |= {"seed": seed, "jobs": len(workload), "bounds": bounds.as_dict()}
        else:
            done = chosen.case(self.policies[arm], seed).run(0, 0)
            record |= {"seed": seed, "policy": done.policy, "summary": done.summary.as_dict()}
        return {**record, "run_s": round(time.perf_counter() - began, 6)}


@dataclass(frozen=True)
class _Attempts:
    """Sent to workers: a run that is refused does not end the others."""

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
    """Every run of the plan in the order of its tasks, made or found in the file.

    Args:
        plan: what to run.
        runs: where runs are kept.
        workers: processes at most; None = as many as cores.
        done: told of each run, when it is found or made.
        failed: takes the policies that a scenario refuses, with the reason; their runs are left
            out of the result. None = the first refusal ends it all.

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
