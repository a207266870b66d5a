"""What tuning is worth on every family of Pollux's and Sia's workloads, not only on one.

The tuners' settings were chosen on `newtrace/1` to `5`. A family is judged workload by workload
or *joined*: its workloads one after the other as one long history, because 160 jobs are over
before a queue has settled. Every row has the gain over EASY and over the best policy without
tuners, chosen afterwards for that family, load and metric: the strongest baseline there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.intervals import paired
from flyball.core.shared_data import shared_data
from flyball.core.workload import COLUMNS, Workload
from flyball.experiments.kept_runs import run_kept
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning.mixed import (
    CLUSTER,
    CODE,
    Measured,
    MixedCase,
    plain_run,
    stretched,
    tuned_run,
)
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.twin.inputs.traces import sia

CODES = (*CODE, "experiments/tuning/families.py")
EASY, FIFO = "easy", "fifo"
SLEEPS = "sleep_s=300"
POLICIES = ("easy", "sjf", "saf", "srtf", "las", "ect", "tuned")
PLAIN = tuple((name, *more) for name in POLICIES for more in ((), (SLEEPS,)))
"""Policies without tuners, each as it is and with idle nodes asleep; the best of them counts."""
BASELINES = (*PLAIN, (FIFO,))
"""Policies that run beside the tuners."""
METRICS = {"work": 1, "energy_per_work": -1, "completion": -1}
"""Metrics that are compared; 1 = more is better, -1 = less is better."""


@dataclass(frozen=True)
class Family:
    """Describes a family of similar workloads.

    Attributes:
        path: of the file, in the shared data.
        part: name of a workload within the file, from its number.
        count: number of workloads, numbered from 1.
        set_with: numbers of those that the tuners' settings were chosen on.
    """

    path: tuple[str, str]
    part: str
    count: int
    set_with: tuple[int, ...] = ()


SIA = ("sia_pollux", "workloads.csv.gz")
FAMILIES = {
    "philly": Family(SIA, "philly/{}", 8),
    "saturn": Family(SIA, "saturn/{}", 10),
    "pollux": Family(("pollux", "workloads.csv.gz"), "{}", 4),
    "newtrace": Family(SIA, "newtrace/{}", 10, (1, 2, 3, 4, 5)),
}
LOADS = (0.8, 1.0, 1.3, 1.6)
SEEDS = 3
Task = tuple[str, tuple[int, ...], float, int]
"""Family, numbers of its workloads (several = joined), load, seed."""


@dataclass(frozen=True)
class FamilyPlan:
    """Says what to run.

    Attributes:
        families: names in `FAMILIES`.
        numbers: workloads of each family; none = all there are.
        loads: as `tuning.mixed` defines load.
        joined: whether the workloads of a family are joined into one.
        seeds: draws of the jobs that are elastic (and, joined, of the workloads' order).
    """

    families: tuple[str, ...] = tuple(FAMILIES)
    numbers: tuple[int, ...] = ()
    loads: tuple[float, ...] = LOADS
    joined: bool = False
    seeds: int = SEEDS

    def check(self) -> None:
        """Refuse what cannot be run, before the first run.

        Raises:
            UnknownName: no such family.
            BadInput: a family without a workload of that number.
            DataAbsent: the workloads are not on this machine.
        """
        for name in self.families:
            if name not in FAMILIES:
                raise UnknownName("family", name, FAMILIES)
            shared_data(*FAMILIES[name].path)
            too_large = [number for number in self.numbers if number > FAMILIES[name].count]
            if too_large:
                raise BadInput(
                    f"{name} has no workload {too_large[0]}",
                    f"it has 1 to {FAMILIES[name].count}; name other --workloads",
                )

    def tasks(self) -> list[Task]:
        """Return every run, load by load and seed by seed."""
        return [
            (family, group, load, seed)
            for load in self.loads
            for seed in range(self.seeds)
            for family in self.families
            for group in self.groups(family)
        ]

    def groups(self, family: str) -> list[tuple[int, ...]]:
        """Return the workloads of a family, each alone or all in one group."""
        numbers = self.numbers or tuple(range(1, FAMILIES[family].count + 1))
        return [numbers] if self.joined else [(number,) for number in numbers]


def join(parts: Sequence[Workload]) -> Workload:
    """Join workloads: each begins at the last arrival of the one before."""
    models: list[str] = []
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    begin_us = 0
    for at, part in enumerate(parts):
        for name, values in columns.items():
            values.append(getattr(part, name))
        columns["submit_us"][-1] = part.submit_us - part.submit_us[0] + begin_us
        columns["ids"][-1] = np.array([f"{at}-{job}" for job in part.ids])
        columns["model"][-1] = part.model + len(models)
        models += part.models
        begin_us += part.span_us
    joined: dict[str, Any] = {name: np.concatenate(values) for name, values in columns.items()}
    # Give a model one code, however many workloads name it.
    names = tuple(dict.fromkeys(models))
    joined["model"] = np.array([names.index(model) for model in models])[joined["model"]]
    return replace(parts[0], name=" + ".join(p.name for p in parts), models=names, **joined)


@cache
def read_workload(family: str, number: int) -> Workload:
    chosen = FAMILIES[family]
    return sia.read(shared_data(*chosen.path), [], chosen.part.format(number))


def workload(family: str, numbers: tuple[int, ...], load: float, seed: int) -> Workload:
    """Return a workload at a load; several are joined in an order drawn by seed (0: as is)."""
    order: list[int] = list(numbers)
    if seed and len(order) > 1:
        np.random.default_rng([seed, 11]).shuffle(order)
    parts = [read_workload(family, number) for number in order]
    return stretched(fitting(parts[0] if len(parts) == 1 else join(parts)), load)


def fitting(jobs: Workload) -> Workload:
    """Leave out jobs that no pool of the cluster is large enough for (a few of Pollux's)."""
    largest = max(group.count * group.devices for group in CLUSTER.groups)
    return jobs.take(np.flatnonzero(jobs.devices <= largest))


class Runner:
    """Runs tasks in worker processes."""

    def run(self, family: str, numbers: tuple[int, ...], load: float, seed: int) -> Row:
        """Run the tuners and every policy without them on one workload."""
        case = MixedCase("families", load)
        jobs = workload(family, numbers, load, seed)
        effects = Effects(restart_s=(case.resize_s,) * 3, adaptive_batch=case.adaptive, seed=seed)
        arms: dict[str, Measured] = {" ".join(p): plain_run(p, jobs, effects) for p in BASELINES}
        elastic = with_elastic_jobs(jobs, case.elastic, seed)
        asked = sum(len(read_workload(family, number)) for number in numbers)
        counts = {"jobs": len(jobs), "left_out": asked - len(jobs)}
        return {"tuned": tuned_run(case, elastic, effects), "plain": arms, **counts}


def measure(
    plan: FamilyPlan, runs: RunFile, done: Callable[[str], None], workers: int | None = None
) -> dict[Task, Row]:
    """Return every run of the plan, from the file or run now."""
    keys = {task: key_of("families", source_version(CODES), task) for task in plan.tasks()}
    return run_kept(Runner(), keys, runs, lambda task: done(label(task)), workers)


def label(task: Task) -> str:
    """Return the task for people."""
    family, numbers, load, seed = task
    which = str(numbers[0]) if len(numbers) == 1 else "joined"
    return f"{family}/{which} at load {load:g}, seed {seed}"


# Rows ------------------------------------------------------------------------------------


def rows_of(plan: FamilyPlan, results: dict[Task, Row]) -> list[Row]:
    """Return gains by load, family, baseline and metric; then over all families not set with."""
    out: list[Row] = []
    for load in plan.loads:
        pooled: dict[tuple[str, str], list[float]] = {}
        for family in plan.families:
            for seen in (False, True):
                groups = [g for g in plan.groups(family) if _set_with(family, g) is seen]
                if groups:
                    part = _Part(results, family, groups, load, plan.seeds)
                    out += _family_rows(part, seen, pooled)
        if len(plan.families) > 1:
            for (baseline, metric), changes in pooled.items():
                mark = "not set with" if not plan.joined else "not set with, joined"
                out.append(_row("all families", mark, load, baseline, metric, changes))
    return out


def _set_with(family: str, group: tuple[int, ...]) -> bool:
    return bool(set(group) & set(FAMILIES[family].set_with))


class _Part(NamedTuple):
    """Holds the runs that a row is about: groups of a family's workloads at one load."""

    results: dict[Task, Row]
    family: str
    groups: list[tuple[int, ...]]
    load: float
    seeds: int

    def best_plain(self, metric: str, sign: int) -> str:
        """Return the policy that is best by a metric, by the mean of logarithms over the runs."""
        runs = [self._run(group, seed) for group in self.groups for seed in range(self.seeds)]

        def score(name: str) -> float:
            return fmean(float(np.log(run["plain"][name][metric])) for run in runs)

        return max((" ".join(p) for p in PLAIN), key=lambda name: sign * score(name))

    def changes(self, metric: str, baseline: str) -> list[float]:
        """Return percent by workload, mean over seeds; joined: by seed, as the order differs."""

        def change(group: tuple[int, ...], seed: int) -> float:
            run = self._run(group, seed)
            return 100.0 * float(run["tuned"][metric] / run["plain"][baseline][metric] - 1.0)

        seeds = range(self.seeds)
        if len(self.groups) == 1:
            return [change(self.groups[0], seed) for seed in seeds]
        return [fmean(change(group, seed) for seed in seeds) for group in self.groups]

    def _run(self, group: tuple[int, ...], seed: int) -> Row:
        return self.results[self.family, group, self.load, seed]


def _family_rows(part: _Part, seen: bool, pooled: dict[tuple[str, str], list[float]]) -> list[Row]:
    """Return rows for each metric: against EASY, FIFO and the best policy without tuners."""
    out = []
    for metric, sign in METRICS.items():
        best = part.best_plain(metric, sign)
        for title, baseline in ((EASY, EASY), (FIFO, FIFO), ("best plain", best)):
            changes = part.changes(metric, baseline)
            if not FAMILIES[part.family].set_with:
                pooled.setdefault((title, metric), []).extend(changes)
            named = title if title == baseline else f"{title}: {baseline}"
            mark = _mark(part.groups, seen)
            out.append(_row(part.family, mark, part.load, named, metric, changes))
    return out


def _mark(groups: list[tuple[int, ...]], seen: bool) -> str:
    """Name the workloads of a row, and whether the settings were chosen on them."""
    numbers = [number for group in groups for number in group]
    text = f"{min(numbers)}-{max(numbers)}" if len(numbers) > 1 else str(numbers[0])
    if len(groups) == 1 and len(numbers) > 1:
        text += " joined"
    return f"{text}, set with" if seen else text


def _row(
    family: str, mark: str, load: float, baseline: str, metric: str, changes: list[float]
) -> Row:
    """Return the row of a mean change with its interval, its range and the number of changes."""
    estimate = paired(changes, [0.0] * len(changes))
    row = tuning_row(f"{family} ({mark})", load, baseline, f"{metric}_pct", estimate)
    return {**row, "least": min(changes), "most": max(changes), "n": len(changes)}
