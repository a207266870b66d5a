"""Completion time with the market against the best policy without tuners, on Sia's ground.

Workloads of Sia and Pollux on the mixed cluster at two loads, with exact estimates of run times and
with log-normal errors of sigma 1. The settings of `Weights(completion=1)` were chosen on `newtrace`
alone; the workloads here are others. The baseline of a row is the best of `POLICIES` for its
family, load and error, chosen afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import numpy as np

from flyball.app import Twin, policy_settings
from flyball.core.effects import Effects
from flyball.core.metrics import finish_time_fairness, summarise
from flyball.core.results import Results
from flyball.core.workload import Workload
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning.families import workload
from flyball.experiments.tuning.mixed import CLUSTER, CODE, RESIZE_S, Measured
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.schedule.policies.preset import Preset
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import Weights
from flyball.twin.tuning import Tuning

POLICIES = ("srtf", "las", "max-min-het", "tuned")
NUMBERS = {"philly": (1, 2, 3, 4), "saturn": (1,), "pollux": (1, 2, 3, 4)}
LOADS = (0.8, 1.3)
SIGMAS = (0.0, 1.0)
FAIR = "srtf"
"""The policy that fairness is compared with."""
ROUND_S = 60.0
"""Time between rounds: as in `FAIR`, and the default of `--tune-every`. A job of 20 s that waits
for a round of 120 s is served in several times its length."""
BAR = -10.0
ELASTIC_SHARE = 0.8
MARKET = Weights(work=0.0, energy=0.0, completion=1.0).elastic(Elastic())
CODES = (*CODE, "experiments/tuning/completion.py")
Case = tuple[str, int, float, float]
"""Family, number of its workload, load, sigma of estimates."""


def measure(case: Case) -> dict[str, Measured]:
    """Run every policy and the market on one workload."""
    family, number, load, sigma = case
    jobs = workload(family, (number,), load, 0)
    effects = Effects(restart_s=(RESIZE_S,) * 3, adaptive_batch=True, estimate_sigma=sigma)
    out = {name: plain(name, jobs, effects) for name in POLICIES}
    knobs = policy_settings("easy", [])[0].knobs
    tuning = Tuning((MARKET,), Preset("easy", "", knobs), ROUND_S, between=False)
    elastic = with_elastic_jobs(jobs, ELASTIC_SHARE, 0)
    out["market"] = figures(Twin(CLUSTER, elastic, knobs, effects, tuning=tuning).replay())
    return out


def plain(name: str, jobs: Workload, effects: Effects) -> Measured:
    """Measure a policy without tuners."""
    policy = policy_settings(name, [])[0]
    twin = Twin(CLUSTER, jobs, policy.knobs, effects, allocator=policy.allocator)
    return figures(twin.replay())


def figures(results: Results) -> Measured:
    """Return the figures of a run that are compared."""
    fairness = finish_time_fairness(results)
    return {
        "completion": summarise(results).completion_s.mean,
        "p95": float(np.quantile(fairness, 0.95)),
        "p99": float(np.quantile(fairness, 0.99)),
        "preemptions": float(results.preemptions.max()),
    }


def rows(progress: Callable[[str], None], runs: RunFile | None = None) -> list[Row]:
    """Measure the rows of `flyball bench tune` about completion time."""
    version, kept = source_version(CODES), {} if runs is None else runs.records
    results: dict[Case, dict[str, Measured]] = {}
    for case in cases():
        key = key_of("completion", version, case)
        if key in kept:
            results[case] = kept[key]["result"]
            continue
        progress("{}/{} at load {:g}, sigma {:g}".format(*case))
        results[case] = measure(case)
        if runs is not None:
            runs.append({"key": key, "result": results[case]})
    out: list[Row] = []
    for sigma in SIGMAS:
        for load in LOADS:
            for family in (*NUMBERS, "all families"):
                chosen = [
                    result
                    for (name, _, at_load, at_sigma), result in results.items()
                    if (at_load, at_sigma) == (load, sigma) and family in (name, "all families")
                ]
                out += family_rows(f"{family}, estimates off by sigma {sigma:g}", load, chosen)
    return out


def cases() -> list[Case]:
    """Return every case, family by family."""
    return [
        (family, number, load, sigma)
        for family, numbers in NUMBERS.items()
        for number in numbers
        for load in LOADS
        for sigma in SIGMAS
    ]


def family_rows(case: str, load: float, results: list[dict[str, Measured]]) -> list[Row]:
    """Return the change in completion time, and fairness and preemptions beside `FAIR`'s."""

    def score(name: str) -> float:
        return fmean(float(np.log(result[name]["completion"])) for result in results)

    best = min(POLICIES, key=score)
    changes = [
        100.0 * (result["market"]["completion"] / result[best]["completion"] - 1.0)
        for result in results
    ]
    row = tuning_row(case, load, f"best plain: {best}", "completion_pct", mean_95(changes), BAR)
    out = [{**row, "least": min(changes), "most": max(changes), "n": len(changes)}]
    for metric in ("p95", "p99", "preemptions"):
        name = "worst preemptions of a job" if metric == "preemptions" else f"fairness {metric}"
        pick = max if metric == "preemptions" else fmean
        for arm in ("market", FAIR):
            value = pick(result[arm][metric] for result in results)
            out.append(tuning_row(case, load, arm, name, (value, value, value)))
    return out
