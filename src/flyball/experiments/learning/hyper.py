"""Searches the agent's hyper-parameters: genetic, random and particle swarm at equal budgets.

A trial trains an agent for a few steps and returns its validation score. Every search sees the same
number of trials, from the same start, over the same seeds; trials of a generation run side by side.
A trial that is on record is not run again, so an interrupted search goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.intervals import student_95
from flyball.core.results import Floats
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.workers import Workers
from flyball.learn.search.searches import SEARCHES, make_search
from flyball.learn.search.space import at_point, point_of, searched_fields
from flyball.learn.training.sources import Drawn
from flyball.learn.training.trainers import Setup, Validation

CODE = ("learn/**/*.py", "twin/**/*.py", "schedule/**/*.py", "physics/**/*.py")
GENERATION = 4
"""Points judged between two moves of a search."""


@dataclass(frozen=True)
class SearchPlan:
    """What to search.

    Attributes:
        kind: of the agent: hybrid, dqn or pg.
        body: conv-lstm or mlp.
        trials: of each search and seed.
        steps: chapters that a trial trains for.
        environments: side by side in a trial.
        problems: that a trial is validated on.
        seeds: of searches.
        searches: names of `SEARCHES`.
    """

    kind: str = "hybrid"
    body: str = "conv-lstm"
    trials: int = 16
    steps: int = 4
    environments: int = 8
    problems: int = 6
    seeds: int = 5
    searches: tuple[str, ...] = tuple(SEARCHES)

    def settings(self, point: Sequence[float]) -> Any:
        """Return the agent's settings at a point."""
        from flyball.learn.agent import Settings

        start = replace(
            Settings(), kind=self.kind, body=self.body, environments=self.environments, batch=64
        )
        return at_point(start, np.asarray(point))

    def start(self) -> Floats:
        """Return where the default settings are."""
        from flyball.learn.agent import Settings

        return point_of(Settings())

    def run(self, seed: int, point: Sequence[float]) -> float:
        """Run one trial: train, then validate; in a worker process perhaps."""
        from flyball.learn.training.agents import AgentTrainer

        setup = Setup(Drawn(), seed=1_000 + seed, threads=1)
        trainer = AgentTrainer(setup, self.settings(point), warm=False)
        for step in range(self.steps):
            trainer.step(step / self.steps)
        scores = _validation(setup, self.problems).scores(trainer.policy())
        return float(np.mean(scores))


_kept: dict[tuple[int, int], Validation] = {}


def _validation(setup: Setup, problems: int) -> Validation:
    """Return the validation of a seed, made once in each process."""
    key = (setup.seed, problems)
    if key not in _kept:
        _kept[key] = Validation(setup, problems)
    return _kept[key]


@dataclass(frozen=True)
class Searched:
    """What a search found with one seed: scores in the order of its trials, and its best point."""

    name: str
    seed: int
    scores: list[float]
    best: list[float]

    @property
    def best_so_far(self) -> Floats:
        """Return the best score after each trial."""
        return np.asarray(np.minimum.accumulate(self.scores))


def search(
    plan: SearchPlan, runs: RunFile, done: Callable[[str], None], workers: int | None
) -> list[Searched]:
    """Run every search with every seed.

    Args:
        runs: keeps each trial as soon as it ends.
        done: receives the name of each trial.
        workers: processes; None = one for each core.
    """
    out = []
    with Workers(plan, workers) as crew:
        for seed in range(plan.seeds):
            for name in plan.searches:
                out.append(_one(plan, name, seed, runs, done, crew))
    return out


def _one(
    plan: SearchPlan, name: str, seed: int, runs: RunFile, done: Callable[[str], None],
    crew: Workers[float],
) -> Searched:  # fmt: skip
    """Run one search, generation by generation."""
    moves = make_search(name, plan.start(), min(GENERATION, plan.trials), seed)
    points: list[list[float]] = []
    scores: list[float] = []
    while len(scores) < plan.trials:
        asked = moves.ask()
        generation = [[round(float(x), 6) for x in point] for point in asked]
        keys = [_key(plan, seed, point) for point in generation]
        left = {tuple(point) for point, key in zip(generation, keys, strict=True)
                if key not in runs.records}  # fmt: skip
        for task, score in crew.run([(seed, point) for point in sorted(left)]):
            settings = asdict(plan.settings(task[1]))
            key = _key(plan, seed, list(task[1]))
            runs.append({"key": key, "score": score, "seed": seed, "settings": settings})
        told = [float(runs.records[key]["score"]) for key in keys]
        moves.tell(np.array(generation), np.array(told))
        points += generation
        scores += told
        for _ in generation:
            done(f"{name}, seed {seed}")
    scores, points = scores[: plan.trials], points[: plan.trials]
    return Searched(name, seed, scores, points[int(np.argmin(scores))])


def _key(plan: SearchPlan, seed: int, point: list[float]) -> str:
    what = {**asdict(plan), "searches": None, "seeds": None, "trials": None}
    return key_of("hyper", source_version(CODE), what, seed, point)


def summary(plan: SearchPlan, searched: Sequence[Searched]) -> list[dict[str, Any]]:
    """Return each search's best score (mean over seeds), and its paired difference to random."""
    final = {
        name: np.array([float(one.best_so_far[-1]) for one in searched if one.name == name])
        for name in plan.searches
    }
    out = []
    for name, values in final.items():
        row: dict[str, Any] = {"search": name, "best_pct": 100.0 * float(np.expm1(values.mean()))}
        if "random" in final and name != "random":
            apart = 100.0 * (values - final["random"])
            half = 0.0
            if len(apart) > 1:
                spread = float(apart.std(ddof=1)) / len(apart) ** 0.5
                half = student_95(len(apart) - 1) * spread
            mean = float(apart.mean())
            row |= {"apart": mean, "low": mean - half, "high": mean + half}
            row["pays"] = bool(len(apart) > 1 and mean + half < 0.0)
        out.append(row)
    return out


def best_settings(plan: SearchPlan, searched: Sequence[Searched]) -> dict[str, Any]:
    """Return the searched numbers of the best trial of all."""
    best = min(searched, key=lambda one: float(one.best_so_far[-1]))
    settings = plan.settings(best.best)
    return {one.name: getattr(settings, one.name) for one in searched_fields(settings)}


def plot(searched: Sequence[Searched], path: Path) -> None:
    """Draw the best score so far over trials: every seed thin, each search's mean thick."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for at, name in enumerate(dict.fromkeys(one.name for one in searched)):
        curves = np.array([one.best_so_far for one in searched if one.name == name])
        trials = np.arange(1, curves.shape[1] + 1)
        for curve in curves:
            axes.plot(trials, 100 * np.expm1(curve), color=f"C{at}", alpha=0.3, linewidth=0.8)
        mean = 100 * np.expm1(curves.mean(axis=0))
        axes.plot(trials, mean, color=f"C{at}", linewidth=2.2, label=name)
    axes.set_xlabel("trials")
    axes.set_ylabel("best objective so far, % of the incumbent's")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
