"""What tuning is worth on a mixed cluster: Sia's workloads at several loads.

Load is arriving work over what a rigid cluster can do whose jobs take any device: with D devices
of a type on which a job takes E device-seconds on average it ends sum(D / E) jobs a second. It is
set by stretching the arrivals. Everything is measured in the same window, 10 to 100 % of the
arrival span, with the energy of all nodes, idle and host included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np

from flyball.app import Twin, policy_settings
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.intervals import paired
from flyball.core.metrics import finish_time_fairness, summarise
from flyball.core.protocols import Tuner
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.core.workload import Workload
from flyball.experiments.kept_runs import run_kept
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.schedule.policies.preset import Preset
from flyball.tune.elastic import Elastic
from flyball.tune.power import Power
from flyball.twin.inputs.traces import sia
from flyball.twin.tables.rates import find_profiles, rate_table
from flyball.twin.tuning import Tuning

CLUSTER = Cluster(
    "mixed",
    (
        NodeGroup("t4", 6, "T4", 4),
        NodeGroup("rtx", 3, "RTX2080Ti", 8),
        NodeGroup("a100", 2, "A100-40GB", 8),
    ),
)
WORKLOADS = tuple(f"newtrace/{number}" for number in range(6, 11))
"""Workloads of 48 hours and 960 jobs each; those of 160 jobs are over before a queue has settled.
Settings were chosen on the first five of this family; these are the others."""
TUNERS: tuple[Tuner, ...] = (
    Elastic(),
    Power(slowdown=0.12, spare=0, round_s=120.0),
)
ROUND_S = 120.0
RESIZE_S = 60.0
SLEEPS = "sleep_s=300"
Measured = dict[str, float]
CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "tune/**/*.py"),
    *("experiments/tuning/mixed.py", "experiments/tuning/tuned.py", "data/*.toml", "data/*.csv"),
)
"""Patterns of the sources that a run depends on."""


@dataclass(frozen=True)
class MixedCase:
    """Describes one setting, compared with a policy without tuning.

    Attributes:
        load: see the top of this module.
        baseline: a policy, with settings after it.
        work: least gain of work in percent; None = no bar.
        energy, completion: most change of energy per work and of completion, in percent.
        elastic: part of the jobs that may be resized.
        adaptive: whether the batch follows the devices.
        error: spread of the errors of believed speeds.
        resize_s: set-up time after a resize.
        rigid: a policy without tuning that takes the place of the tuned one.
    """

    name: str
    load: float
    baseline: tuple[str, ...] = ("easy",)
    work: float | None = None
    energy: float | None = None
    completion: float | None = None
    elastic: float = 0.8
    adaptive: bool = True
    error: float = 0.0
    resize_s: float = RESIZE_S
    rigid: str = ""


CASES = (
    MixedCase("saturated, adaptive batch", 1.3, work=25.0, energy=-30.0),
    MixedCase("saturated, batch as the user set it", 1.3, work=25.0, energy=-30.0, adaptive=False),
    MixedCase("saturated, rigid shortest-first", 1.3, rigid="sjf"),
    MixedCase("saturated, rigid jobs", 1.3, elastic=0.0),
    MixedCase("far above, adaptive batch", 1.6, work=38.7, energy=-42.3),
    MixedCase("far above, batch as the user set it", 1.6, adaptive=False),
    MixedCase("far above, rigid shortest-first", 1.6, rigid="sjf"),
    MixedCase("against strict FIFO, adaptive batch", 1.2, ("fifo",), 38.7, -42.3),
    MixedCase("against strict FIFO, batch as the user set it", 1.2, ("fifo",), adaptive=False),
    MixedCase("half-loaded, adaptive batch", 0.5, energy=-25.0, completion=0.0),
    MixedCase("half-loaded, baseline sleeps too", 0.5, ("easy", SLEEPS)),
    MixedCase("half elastic, speeds 25 % off, 120 s a resize", 1.3, ("easy",), 14.0, -20.0, None,
         0.5, True, 0.25, 120.0),
    MixedCase("resize 180 s", 1.3, resize_s=180.0),
    MixedCase("resize 30 s", 1.3, resize_s=30.0),
)  # fmt: skip


@cache
def workload(part: str, load: float) -> Workload:
    """Return a workload of Sia's with its arrivals stretched to a load."""
    return stretched(sia.read(shared_data("sia_pollux", "workloads.csv.gz"), [], part), load)


def stretched(jobs: Workload, load: float) -> Workload:
    """Return the same jobs with their arrivals stretched to a load."""
    since_us = jobs.submit_us - jobs.submit_us[0]
    stretch = least_us(jobs) / (load * float(since_us[-1]))
    return replace(jobs, submit_us=np.rint(since_us * stretch).astype(np.int64))


def least_us(jobs: Workload) -> float:
    """Return how long a rigid cluster that takes any device needs for all jobs."""
    profiles = find_profiles(jobs)
    devices: Floats = np.array([group.count * group.devices for group in CLUSTER.groups], float)
    rates = rate_table(profiles, CLUSTER, True).packed.reshape(-1, len(devices))
    need_us = (jobs.devices * jobs.duration_us)[:, None] / rates[profiles.of_job]
    return float(len(jobs) / (devices / need_us.mean(axis=0)).sum())


def measure(case: MixedCase, part: str) -> tuple[Measured, Measured]:
    """Measure a case and its baseline on one workload."""
    jobs = workload(part, case.load)
    seed = WORKLOADS.index(part) if part in WORKLOADS else 0
    effects = Effects(
        restart_s=(case.resize_s,) * 3,
        adaptive_batch=case.adaptive,
        speed_error=case.error,
        seed=seed,
    )
    elastic = with_elastic_jobs(jobs, case.elastic, seed)
    return tuned_run(case, elastic, effects), plain_run(case.baseline, jobs, effects)


def plain_run(policy: tuple[str, ...], jobs: Workload, effects: Effects) -> Measured:
    """Measure a policy without tuners."""
    knobs = policy_settings(policy[0], list(policy[1:]))[0].knobs
    return _figures(Twin(CLUSTER, jobs, knobs, effects))


def tuned_run(case: MixedCase, jobs: Workload, effects: Effects) -> Measured:
    """Measure the tuners, or the rigid policy of a case."""
    if case.rigid:
        return plain_run((case.rigid,), jobs, effects)
    knobs = policy_settings("easy", [])[0].knobs
    tuning = Tuning(TUNERS, Preset("easy", "", knobs), ROUND_S, between=False)
    return _figures(Twin(CLUSTER, jobs, knobs, effects, tuning=tuning))


def _figures(twin: Twin) -> Measured:
    results = twin.replay()
    summary = summarise(results)
    return {
        "work": summary.work_per_window,
        "energy_per_work": summary.energy_per_work,
        "completion": summary.completion_s.mean,
        "most_changes": float(results.preemptions.max()),
        "mean_changes": float(results.preemptions.mean()),
        "worst_fairness": float(finish_time_fairness(results).max()),
        "unfinished": float((results.end_us < 0).sum()),
    }


class _Runner:
    """Runs single cases in worker processes."""

    def run(self, case: int, part: str) -> tuple[Measured, Measured]:
        """Run one case on one workload."""
        return measure(CASES[case], part)


def rows(
    progress: Callable[[str], None], workers: int | None = None, runs: RunFile | None = None
) -> list[Row]:
    """Run every case on every workload; rows are gains in percent with their paired intervals.

    Args:
        progress: receives the name of each run.
        workers: processes at most; None = as many as cores.
        runs: keeps each run, and has those of an earlier attempt.

    Raises:
        DataAbsent: the workloads are not there.
    """
    shared_data("sia_pollux", "workloads.csv.gz")
    tasks = [(at, part) for at in range(len(CASES)) for part in WORKLOADS]
    keys = {(at, part): key_of(source_version(CODE), asdict(CASES[at]), part) for at, part in tasks}

    def done(task: tuple[int, str]) -> None:
        case, part = CASES[task[0]], task[1]
        progress(f"{case.name} at load {case.load:g}, {part}")

    pairs = run_kept(_Runner(), keys, runs, done, workers)
    out: list[Row] = []
    for at, case in enumerate(CASES):
        out += case_rows(case, [pairs[at, part] for part in WORKLOADS])
    return out


def case_rows(case: MixedCase, pairs: list[tuple[Measured, Measured]]) -> list[Row]:
    bars = {"work": case.work, "energy_per_work": case.energy, "completion": case.completion}
    out = [_gain(case, name, bar, pairs) for name, bar in bars.items()]
    for name in ("most_changes", "mean_changes", "worst_fairness", "unfinished"):
        values = [mine[name] for mine, _ in pairs]
        value = max(values) if name != "mean_changes" else fmean(values)
        out.append(_row(case, name, value, min(values), max(values), None))
    return out


def _gain(
    case: MixedCase, name: str, bar: float | None, pairs: list[tuple[Measured, Measured]]
) -> Row:
    """Return the row of a change in percent, paired by workload."""
    changes = [100.0 * (mine[name] / base[name] - 1.0) for mine, base in pairs]
    value, low, high = paired(changes, [0.0] * len(changes))
    return _row(case, f"{name}_pct", value, low, high, bar)


def _row(
    case: MixedCase, metric: str, value: float, low: float, high: float, bar: float | None
) -> Row:
    estimate = (round(value, 3), round(low, 3), round(high, 3))
    return tuning_row(case.name, case.load, " ".join(case.baseline), metric, estimate, bar)
