"""Compares ways to govern a cluster on the held-out set: paired, with intervals, resumable.

Each arm runs each instance to its end. The objective is the logarithm of (mean completion time x
cost of energy), cost being money under a price and grams of CO2 under a carbon intensity; changes
are shown in percent. Two arms are compared by the differences on the same instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from flyball.core.intervals import student_95
from flyball.experiments.learning.arms import GUARDED, INCUMBENT, LOCAL, Arm, run_arm
from flyball.experiments.learning.instances import Instance, problem_of
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.workers import Workers
from flyball.learn.env.problems import Problem
from flyball.learn.whole_runs import RunTotals

CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "tune/power.py"),
    *("learn/env/*.py", "learn/rivals/*.py", "learn/whole_runs.py", "learn/policy/*.py"),
    *("predict/signals.py", "data/*.toml", "data/scenarios.yaml", "data/clusters.yaml"),
)
"""Sources that a run depends on besides its instance and arm."""
PLAIN, SHIPPABLE = "all", "held-out scenarios: none worse than"
NOT_WORSE = 2.0
"""Percent by which no held-out scenario's whole interval may be worse."""
WANTED = 3.0
"""Percent by which the shipped policy is to beat the best heuristic in the median."""


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        instances: of the held-out set; or `problems` of a user's history.
        arms: the incumbent among them.
        epoch_s: virtual time between two decisions.
        energy: weight of the cost of energy beside 1 for completion time.
        problems: instead of instances' own, with names.
    """

    instances: tuple[Instance, ...]
    arms: tuple[Arm, ...]
    epoch_s: float = 1800.0
    energy: float = 1.0
    problems: tuple[Problem, ...] = ()

    def tasks(self) -> list[tuple[int, int]]:
        """Return every (instance, arm), instance by instance."""
        ranks = _ranks(self.instances)
        return [
            (at, arm)
            for at in range(len(self.instances))
            for arm in range(len(self.arms))
            if not self.arms[arm].limit or ranks[at] < self.arms[arm].limit
        ]

    def key(self, task: tuple[int, int]) -> str:
        """Return all that a run depends on, as a key."""
        at, arm = task
        what = asdict(self.instances[at]), self.epoch_s, self.energy
        jobs = _digest(self.problems[at]) if self.problems else ""
        return key_of("learn", source_version(CODE), what, jobs, self.arms[arm].kind,
                      self.arms[arm].digest)  # fmt: skip

    def run(self, at: int, arm: int) -> dict[str, Any]:
        """Run an instance under an arm, in a worker process perhaps."""
        problem = (
            self.problems[at] if self.problems else problem_of(self.instances[at], self.energy)
        )
        return asdict(run_arm(self.arms[arm], problem, self.epoch_s))


def _ranks(instances: Sequence[Instance]) -> list[float]:
    """Return a rank for each instance, so that the first few are spread over the whole set.

    Recorded days have none: what runs on a few instances only is what takes long, and a day of
    Philly is hundreds of devices for weeks.
    """
    short = [at for at, one in enumerate(instances) if one.group != "philly"]
    order = sorted(range(len(short)), key=lambda at: (at * 7) % max(1, len(short)))
    out = [math.inf] * len(instances)
    for rank, at in enumerate(order):
        out[short[at]] = float(rank)
    return out


def _digest(problem: Problem) -> list[Any]:
    jobs = problem.workload
    return [len(jobs), int(jobs.submit_us.sum()), float(np.nansum(jobs.duration_us))]


@dataclass
class Compared:
    """The runs of a plan: totals by (instance, arm)."""

    plan: Plan
    totals: dict[tuple[int, int], RunTotals] = field(default_factory=dict)

    def arm(self, name: str) -> int:
        """Return the number of an arm."""
        return [arm.name for arm in self.plan.arms].index(name)

    def changes(self, arm: int, base: int, among: Sequence[int], what: str) -> list[float]:
        """Return log ratios of an arm to another on the instances that both have run.

        Args:
            among: numbers of instances.
            what: objective, completion, cost, fairness or wait.
        """
        pairs = [(self.totals.get((at, arm)), self.totals.get((at, base))) for at in among]
        return [_ratio(one, other, what) for one, other in pairs if one and other]

    def groups(self) -> dict[str, list[int]]:
        """Return the instances of the whole set, of each group and of each held-out scenario."""
        instances = self.plan.instances
        names = dict.fromkeys(one.group for one in instances)
        out = {PLAIN: list(range(len(instances)))}
        out |= {name: [at for at, one in enumerate(instances) if one.group == name]
                for name in names if len(names) > 1}  # fmt: skip
        for group in ("held out", "philly"):
            for name in dict.fromkeys(one.scenario for one in instances if one.group == group):
                out[name] = [at for at, one in enumerate(instances) if one.scenario == name]
        return out


def run(plan: Plan, runs: RunFile, done: Callable[[str], None], workers: int | None) -> Compared:
    """Run what the file does not have yet.

    Args:
        runs: keeps each run as soon as it ends.
        done: receives the name of each run.
        workers: processes; None = one for each core.
    """
    tasks = plan.tasks()
    keys = {task: plan.key(task) for task in tasks}
    left = []
    for task, key in keys.items():
        if key in runs.records:
            done(_name(plan, task))
        else:
            left.append(task)
    with Workers(plan, workers) as crew:
        for task, totals in crew.run(left):
            runs.append({"key": keys[task], "run": _name(plan, task), "totals": totals})
            done(_name(plan, task))
    compared = Compared(plan)
    for task, key in keys.items():
        kept = dict(runs.records[key]["totals"])
        kept["priorities"] = tuple(kept["priorities"])
        compared.totals[task] = RunTotals(**kept)
    return compared


def _name(plan: Plan, task: tuple[int, int]) -> str:
    return f"{plan.arms[task[1]].name}: {plan.instances[task[0]].name}"


def _ratio(one: RunTotals, other: RunTotals, what: str) -> float:
    if what == "objective":
        return one.score(other)
    if what == "cost":
        return one.cost_score(other)
    figure = {"completion": "completion_s", "fairness": "fairness_p95", "wait": "wait_p99_s"}[what]
    return math.log(max(getattr(one, figure), 1e-9) / max(getattr(other, figure), 1e-9))


# Statistics -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change in percent, less is better.

    Attributes:
        mean, low, high: geometric mean of the ratios, and its 95 % interval (Student's t).
        median, median_low, median_high: median, and its interval of 95 % or more by order
            statistics.
        count: instances.
    """

    mean: float
    low: float
    high: float
    median: float
    median_low: float
    median_high: float
    count: int


def change(logs: Sequence[float]) -> Change | None:
    """Return the change that log ratios amount to; None if there are none."""
    if not logs:
        return None
    values, count = np.sort(np.asarray(logs, float)), len(logs)
    mean = float(values.mean())
    half = 0.0
    if count > 1:
        half = student_95(count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    below = _below_median(count)
    middle = float(np.median(values))
    outer = float(values[below]), float(values[count - 1 - below])
    ends = (mean, mean - half, mean + half, middle, *outer)
    mean, low, high, median, median_low, median_high = (100.0 * math.expm1(end) for end in ends)
    return Change(mean, low, high, median, median_low, median_high, count)


def _below_median(count: int) -> int:
    """Return how many of the lowest and highest values a 95 % interval of the median leaves out."""
    chance, out = 0.5**count, 0
    total = chance
    while total <= 0.025:
        out += 1
        chance *= (count - out + 1) / out
        total += chance
    return max(0, out - 1) if out else 0


def rows(compared: Compared, base: int) -> list[dict[str, Any]]:
    """Return every arm's changes from another, by group: objective and its two parts."""
    out = []
    for at, arm in enumerate(compared.plan.arms):
        for group, among in compared.groups().items():
            row: dict[str, Any] = {"arm": arm.name, "kind": arm.kind, "group": group}
            for what in ("objective", "completion", "cost", "fairness", "wait"):
                figures = change(compared.changes(at, base, among, what))
                row[what] = asdict(figures) if figures else None
            if row["objective"] is not None:
                out.append(row)
    return out


def best_heuristic(compared: Compared) -> int:
    """Return the re-tuned heuristic with the best median here: chosen in hindsight, so strictly."""
    base, everything = compared.arm(INCUMBENT), compared.groups()[PLAIN]
    ranked = [
        (figures.median, at)
        for at, arm in enumerate(compared.plan.arms)
        if arm.is_heuristic
        and (figures := change(compared.changes(at, base, everything, "objective")))
    ]
    return min(ranked)[1] if ranked else base


def winner(compared: Compared) -> int:
    """Return the arm that can be shipped and has the best median change from the best heuristic.

    This is the figure that the bar is set on. It is chosen in hindsight too, so in its own favour.
    """
    base, everything = best_heuristic(compared), compared.groups()[PLAIN]
    ranked = [
        (figures.median, at)
        for at, arm in enumerate(compared.plan.arms)
        if arm.path and arm.kind not in ("bandit", GUARDED, LOCAL)
        and (figures := change(compared.changes(at, base, everything, "objective")))
    ]  # fmt: skip
    return min(ranked)[1] if ranked else base


def phases(compared: Compared) -> list[dict[str, Any]]:
    """Return the change from one phase to two of every policy that was served in both ways."""
    arms, out = compared.plan.arms, []
    for two in (at for at, arm in enumerate(arms) if arm.kind == LOCAL):
        one = next(at for at, arm in enumerate(arms)
                   if arm.kind == GUARDED and arm.path == arms[two].path)  # fmt: skip
        row: dict[str, Any] = {"arm": arms[two].name, "without": arms[one].name}
        for what in ("objective", "completion", "cost"):
            figures = change(compared.changes(two, one, compared.groups()[PLAIN], what))
            row[what] = asdict(figures) if figures else None
        out.append(row)
    return out


def verdict(compared: Compared, arm: int, heuristic: int) -> dict[str, Any]:
    """Return whether an arm meets what a policy must to be worth shipping over a heuristic."""
    groups = compared.groups()
    overall = change(compared.changes(arm, heuristic, groups[PLAIN], "objective"))
    worse = []
    for group, among in groups.items():
        if group in (PLAIN, "half load", "held out", "philly", "other"):
            continue
        figures = change(compared.changes(arm, heuristic, among, "objective"))
        if figures and figures.low > NOT_WORSE:
            worse.append(group)
    half = change(compared.changes(arm, heuristic, groups.get("half load", []), "objective"))
    return {
        "arm": compared.plan.arms[arm].name,
        "heuristic": compared.plan.arms[heuristic].name,
        "overall": asdict(overall) if overall else None,
        "half_load": asdict(half) if half else None,
        "held_out_worse": worse,
        "meets": bool(
            overall and overall.median <= -WANTED and overall.median_high < 0.0 and not worse
        ),
    }
