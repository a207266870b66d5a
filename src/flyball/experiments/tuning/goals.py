"""Each goal of `Weights` alone against the best plain policy, in the metric of that goal.

Workloads of Sia and Pollux on the mixed cluster, with the German day-ahead price of a kWh and the
carbon intensity of Texas at the time. Plain policies run as they are and with idle nodes asleep;
the best of them is chosen afterwards for each metric and load. No job may be deferred: with slack
the weights of money and carbon save more (part `signals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

import numpy as np

from flyball.app import Twin, policy_settings
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.metrics import summarise
from flyball.core.results import Results
from flyball.core.workload import Workload
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning.families import PLAIN, workload
from flyball.experiments.tuning.mixed import CLUSTER, CODE, RESIZE_S, ROUND_S, Measured
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.experiments.tuning.signals import Place, begin_us
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.schedule.policies.preset import Preset
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import Weights
from flyball.tune.power import Power
from flyball.twin.tuning import Tuning

NUMBERS = {"philly": (1, 2, 3, 4), "saturn": (1,), "pollux": (1, 2, 3, 4)}
LOADS = (0.5, 0.8, 1.3)
ELASTIC_SHARE = 0.8
PRICE = Place("price", "DE", True)
CARBON = Place("carbon", "ERCO", True)
NOTHING = dict.fromkeys(("work", "energy", "completion", "money", "carbon"), 0.0)
GOALS = {name: Weights(**{**NOTHING, name: 1.0}) for name in NOTHING}
MORE_IS_BETTER = ("work",)
CODES = (*CODE, "experiments/tuning/goals.py")
Case = tuple[str, int, float]
"""Family, number of its workload, load."""


@cache
def cluster() -> Cluster:
    """Return the mixed cluster with a price and a carbon intensity."""
    return replace(CLUSTER, price=PRICE.signal, carbon=CARBON.signal)


def measure(case: Case) -> dict[str, Measured]:
    """Run every plain policy, and the tuners by each goal, on one workload."""
    family, number, load = case
    jobs = workload(family, (number,), load, 0)
    jobs = replace(jobs, origin_us=begin_us(PRICE, number))
    return measure_on(jobs, cluster())


def measure_on(jobs: Workload, cluster: Cluster) -> dict[str, Measured]:
    """Run every arm on these jobs."""
    effects = Effects(restart_s=(RESIZE_S,) * 3, adaptive_batch=True)
    out = {}
    for name, *settings in PLAIN:
        knobs = policy_settings(name, settings)[0].knobs
        out[" ".join((name, *settings))] = figures(Twin(cluster, jobs, knobs, effects).replay())
    knobs = policy_settings("easy", [])[0].knobs
    elastic = with_elastic_jobs(jobs, ELASTIC_SHARE, 0)
    for goal, weights in GOALS.items():
        tuners = (weights.elastic(Elastic()), weights.power(Power(round_s=ROUND_S)))
        tuning = Tuning(tuners, Preset("easy", "", knobs), ROUND_S, between=False)
        out[goal] = figures(Twin(cluster, elastic, knobs, effects, tuning=tuning).replay())
    return out


def figures(results: Results) -> Measured:
    """Return the metric of each goal."""
    summary = summarise(results)
    assert summary.money_per_work is not None, "the cluster has a price"
    assert summary.carbon_g_per_work is not None, "and a carbon intensity"
    return {
        "work": summary.work_per_window,
        "energy": summary.energy_per_work,
        "completion": summary.completion_s.mean,
        "money": summary.money_per_work,
        "carbon": summary.carbon_g_per_work,
    }


def rows(progress: Callable[[str], None], runs: RunFile | None = None) -> list[Row]:
    """Measure the rows of `flyball bench tune` about single goals."""
    version, kept = source_version(CODES), {} if runs is None else runs.records
    results: dict[Case, dict[str, Measured]] = {}
    for case in cases():
        key = key_of("goals", version, case)
        if key in kept:
            results[case] = kept[key]["result"]
            continue
        progress("{}/{} at load {:g}".format(*case))
        results[case] = measure(case)
        if runs is not None:
            runs.append({"key": key, "result": results[case]})
    return [row for load in LOADS for row in rows_at(load, results)]


def cases() -> list[Case]:
    """Return every case, family by family."""
    return [
        (family, number, load)
        for family, numbers in NUMBERS.items()
        for number in numbers
        for load in LOADS
    ]


def rows_at(load: float, results: dict[Case, dict[str, Measured]]) -> list[Row]:
    """Return the change of each goal's metric against the best plain policy at a load."""
    out = []
    chosen = [result for (_, _, at), result in results.items() if at == load]
    for goal in GOALS:
        sign = 1.0 if goal in MORE_IS_BETTER else -1.0

        def score(name: str, goal: str = goal, sign: float = sign) -> float:
            return sign * fmean(float(np.log(result[name][goal])) for result in chosen)

        best = max((" ".join(policy) for policy in PLAIN), key=score)
        changes = [100.0 * (result[goal][goal] / result[best][goal] - 1.0) for result in chosen]
        metric = "energy_per_work_pct" if goal == "energy" else f"{goal}_pct"
        case = f"weight on {goal} alone"
        out.append(tuning_row(case, load, f"best plain: {best}", metric, mean_95(changes), bar=0.0))
    return out
