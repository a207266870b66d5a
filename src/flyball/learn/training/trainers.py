"""What every trainer does, and the one that evolves policies without a net."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from flyball.core.results import Floats
from flyball.learn.env.problems import Problem
from flyball.learn.env.spaces import SIZE
from flyball.learn.rivals.affine import Affine, affine_at, first_point
from flyball.learn.rivals.evolution import Evolution
from flyball.learn.training.limits import Limits
from flyball.learn.training.sources import TRAIN, VALIDATE, Source, problems_of
from flyball.learn.whole_runs import RunPolicy, RunTotals, Wave, whole_runs

Arrays = dict[str, npt.NDArray[Any]]
Row = dict[str, float]


class Saved(NamedTuple):
    """Holds a trainer's state: plain values, and arrays."""

    values: dict[str, Any]
    arrays: Arrays


class Trainer(Protocol):
    """Learns in steps of some seconds. All randomness comes from its seed.

    Attributes:
        steps: done so far.
        epochs: of the environment, used so far.
        low, high: least and greatest numbers seen in training.
    """

    steps: int
    epochs: int
    low: Floats
    high: Floats

    def step(self, progress: float) -> Row:
        """Learn for one step; return what it brought.

        Args:
            progress: part of the training that is over, for schedules.
        """
        ...

    def policy(self) -> RunPolicy:
        """Return what has been learned, without exploration."""
        ...

    def served(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[np.float32]]] | None:
        """Return the card's `kind` and `activation`, and the tensors that serve it.

        None: a policy file cannot hold it; the run's folder then holds its state instead.
        """
        ...

    def save(self) -> Saved:
        """Return what is needed to go on exactly here."""
        ...

    def restore(self, saved: Saved) -> None:
        """Go on where a state was saved."""
        ...


@dataclass(frozen=True)
class Setup:
    """What every trainer is given.

    Attributes:
        source: of problems.
        seed: of everything.
        epoch_s: virtual time between two actions.
        limits: constraints, by name.
        threads: of the stepping; results do not depend on it.
    """

    source: Source
    seed: int = 1
    epoch_s: float = 1800.0
    limits: Mapping[str, float] = field(default_factory=dict)
    threads: int = 2


class Validation:
    """Scores policies on problems that no trainer of this seed meets.

    Attributes:
        problems: drawn once.
        incumbents: what they cost under the incumbent.
    """

    def __init__(self, setup: Setup, count: int) -> None:
        self._setup = setup
        self.problems = problems_of(setup.source, setup.seed, VALIDATE, 0, count)
        pairs: list[tuple[Problem, RunPolicy | None]] = [(one, None) for one in self.problems]
        self.incumbents = whole_runs(pairs, setup.epoch_s, setup.threads)

    def scores(self, policy: RunPolicy) -> list[float]:
        """Return the objective of each problem, less the incumbent's."""
        runs = self.runs(policy)
        return [run.score(other) for run, other in zip(runs, self.incumbents, strict=True)]

    def runs(self, policy: RunPolicy) -> list[RunTotals]:
        """Return what each problem costs under a policy."""
        pairs: list[tuple[Problem, RunPolicy | None]] = [(one, policy) for one in self.problems]
        return whole_runs(pairs, self._setup.epoch_s, self._setup.threads)


class Evolving:
    """Evolves the numbers of a policy without a net, judged by whole runs.

    One step is a generation: all its policies run the same problems, which are new each time, so
    that luck with a problem is the same for all. Scores are relative to the incumbent's.
    """

    def __init__(
        self, setup: Setup, form: str, size: int = 16, problems: int = 12, spread: float = 0.25,
        start: Floats | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            setup: common to trainers.
            form: of the policy, see `rivals.affine`.
            size: policies in a generation.
            problems: that each of them runs.
            spread: standard deviation of every number at first.
            start: numbers to begin with; None = the incumbent's.
        """
        self.setup, self.form, self._problems = setup, form, problems
        self.steps = self.epochs = 0
        self.low, self.high = np.full(SIZE, np.inf), np.full(SIZE, -np.inf)
        self.limits = Limits(setup.limits)
        point = first_point(form) if start is None else start
        self.evolution = Evolution(point, spread, size, setup.seed)

    def step(self, progress: float) -> Row:
        """Run a generation and move towards the better half."""
        s, points = self.setup, self.evolution.ask()
        problems = problems_of(s.source, s.seed, TRAIN, self.steps * self._problems, self._problems)
        policies: list[RunPolicy | None] = [None, *(affine_at(self.form, one) for one in points)]
        runs = []
        for problem in problems:
            wave = Wave([(problem, policy) for policy in policies], s.epoch_s, s.threads)
            runs.append(wave.run(lambda _run: None))
            self.epochs += wave.epochs
            self.low, self.high = np.minimum(self.low, wave.low), np.maximum(self.high, wave.high)
        scores = np.array([[run.score(own[0]) for run in own[1:]] for own in runs])
        broken = np.array([
            [self.limits.broken(run, own[0]) for run in own[1:]] for own in runs
        ]).mean(axis=0)  # fmt: skip
        scores = scores.mean(axis=0)
        self.evolution.tell(points, scores + self.limits.penalty(broken))
        self.limits.update(broken.mean(axis=0))
        self.steps += 1
        return {
            "score": float(scores.mean()), "best": float(scores.min()),
            "spread": self.evolution.step,
            **{f"multiplier_{name}": value for name, value in self.limits.multipliers.items()},
        }  # fmt: skip

    def policy(self) -> Affine:
        """Return the policy in the middle of the cloud."""
        return affine_at(self.form, self.evolution.mean)

    def served(self) -> tuple[dict[str, Any], Mapping[str, npt.NDArray[np.float32]]]:
        """Return the middle as a policy file."""
        return {"kind": "mlp", "activation": "tanh"}, self.policy().tensors()

    def save(self) -> Saved:
        """Return the cloud, the multipliers and the range of what was seen."""
        values = {
            "steps": self.steps, "epochs": self.epochs, "multipliers": self.limits.multipliers,
            "form": self.form,
        }  # fmt: skip
        cloud = self.evolution.state()
        arrays = {name: cloud.pop(name) for name in ("mean", "variance", "path", "stretch")}
        return Saved({**values, **cloud}, {**arrays, "low": self.low, "high": self.high})

    def restore(self, saved: Saved) -> None:
        """Go on where a state was saved."""
        self.steps, self.epochs = saved.values["steps"], saved.values["epochs"]
        self.limits.multipliers = dict(saved.values["multipliers"])
        self.low, self.high = saved.arrays["low"], saved.arrays["high"]
        self.evolution.restore({**saved.values, **saved.arrays})
