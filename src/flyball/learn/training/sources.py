"""Where problems to train on come from: drawn ones, or parts of a recorded history.

Problems of seed s are the same in every process: number n of a stream depends on (s, stream, n)
alone, so a resumed training meets the problems that an uninterrupted one would.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.learn.env.problems import (
    Domain,
    Problem,
    draw_carbon,
    draw_price,
    draw_priorities,
    draw_problem,
)
from flyball.twin.inputs.held_out import held_out, refuse_cluster

TRAIN, VALIDATE = 0, 1
"""Streams of problems."""
LEAST_JOBS = 60
"""Jobs of a history from which anything can be learned."""
TRAINING_SHARE = 0.7
"""Part of a history, from its begin, that is trained on; the next is for choosing, see `parts`."""
CHOOSING_SHARE = 0.1
PART_JOBS = (100, 500)
LOADS = (0.7, 1.3)
"""A history's arrivals are stretched by up to this, so that other days than the past's are met."""


class Source(Protocol):
    """Draws problems."""

    def problem(self, rng: np.random.Generator, stream: int) -> Problem:
        """Draw a problem to train on, or (another stream) one to choose between policies on."""
        ...

    def about(self) -> dict[str, object]:
        """Return what the card of a policy says of it."""
        ...


def problems_of(source: Source, seed: int, stream: int, first: int, count: int) -> list[Problem]:
    """Return problems `first`, `first` + 1, ... of a stream."""
    numbers = range(first, first + count)
    return [source.problem(np.random.default_rng([seed, stream, n]), stream) for n in numbers]


@dataclass(frozen=True)
class Drawn:
    """Draws clusters, workloads, signals and goals (`env.problems`); never what is held out."""

    domain: Domain = field(default_factory=Domain)

    def problem(self, rng: np.random.Generator, stream: int) -> Problem:
        """Draw a problem; both streams are of one kind, and have no problem in common."""
        return draw_problem(self.domain, rng)

    def about(self) -> dict[str, object]:
        """Return the ranges."""
        ranges = {name: getattr(self.domain, name) for name in self.domain.__dataclass_fields__}
        return {"kind": "drawn problems", **ranges}


@dataclass(frozen=True)
class History:
    """Takes parts of a recorded history, on the cluster that it is of.

    The first part is trained on, the next is for choosing between policies, and the rest is never
    shown to either: `learn compare --history` judges on it.

    Attributes:
        cluster: with its price and carbon intensity; series are drawn if it has none and
            `draws_signals`.
        workload: all jobs.
        sigma: spread of the errors of estimates, for jobs that state none.
        draws_signals: whether problems get a drawn price or carbon intensity.
    """

    cluster: Cluster
    workload: Workload
    sigma: float = 0.5
    draws_signals: bool = True

    def __post_init__(self) -> None:
        refuse_cluster(self.cluster, f"cluster {self.cluster.name}")
        if len(self.workload) < LEAST_JOBS:
            raise BadInput(
                f"the history has {len(self.workload)} jobs; {LEAST_JOBS} are needed to learn from",
                "collect more, or train without --history",
            )

    def parts(self) -> tuple[Workload, Workload, Workload]:
        """Return the jobs to train on, to choose on, and to judge on."""
        count = len(self.workload)
        first, second = (
            round(count * share) for share in (TRAINING_SHARE, TRAINING_SHARE + CHOOSING_SHARE)
        )
        edges = (0, first, second, count)
        cut = [np.arange(edges[at], edges[at + 1]) for at in range(3)]
        one, two, three = (self.workload.take(part) for part in cut)
        return one, two, three

    def problem(self, rng: np.random.Generator, stream: int) -> Problem:
        """Draw jobs that came one after another, faster or slower, and a signal."""
        jobs = self.parts()[stream]
        low, high = (min(bound, len(jobs)) for bound in PART_JOBS)
        count = int(rng.integers(low, high + 1))
        begin = int(rng.integers(0, len(jobs) - count + 1))
        part = begun_at_0(jobs.take(np.arange(begin, begin + count)))
        part = stretched(part, float(rng.uniform(*LOADS)))
        cluster, seed = self.cluster, held_out().first_training_seed + int(rng.integers(1 << 30))
        if self.draws_signals and cluster.price is None and cluster.carbon is None:
            price = draw_price(rng) if rng.random() < 0.5 else None
            carbon = None if price else draw_carbon(rng)
            cluster = replace(cluster, price=price, carbon=carbon, currency="EUR" if price else "")
        effects = Effects(estimate_sigma=self.sigma, elastic=False, seed=seed)
        goals = draw_priorities(
            Domain(beta=(1.0, 1.0), gamma=(0.0, 0.0)),
            rng, cluster.price is not None, cluster.carbon is not None,
        )  # fmt: skip
        return Problem(cluster, part, effects, goals, seed)

    def about(self) -> dict[str, object]:
        """Return how much history it is."""
        submit_us = self.workload.submit_us
        return {
            "kind": "history", "name": self.workload.name, "jobs": len(self.workload),
            "days": float(submit_us[-1] - submit_us[0]) / 86_400e6, "cluster": self.cluster.name,
            "trained_on": TRAINING_SHARE, "chosen_on": CHOOSING_SHARE,
        }  # fmt: skip


def begun_at_0(workload: Workload) -> Workload:
    """Return the jobs with the first submitted at time 0."""
    moved_us = int(workload.submit_us[0])
    return replace(
        workload,
        submit_us=workload.submit_us - moved_us,
        origin_us=None if workload.origin_us is None else workload.origin_us + moved_us,
    )


def stretched(workload: Workload, factor: float) -> Workload:
    """Return the jobs arriving faster by a factor, or slower."""
    submit_us = np.round(np.asarray(workload.submit_us, float) / factor).astype(np.int64)
    return replace(workload, submit_us=submit_us)
