"""Reads what is held out of all tuning and training (`data/held_out.yaml`), and refuses it.

`experiments.held_out` refuses scenarios too; this is what a generator of training problems needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput
from flyball.twin.inputs.cluster_file import load_cluster


@dataclass(frozen=True)
class HeldOut:
    """Holds the content of the file.

    Attributes:
        seeds: the first and the last.
        scenarios: names.
        clusters: names of those whose shape is held out.
        traces: file of the shared data, and the days (the first, the one after the last).
        workloads: numbers by family.
    """

    seeds: tuple[int, int]
    scenarios: tuple[str, ...]
    clusters: tuple[str, ...]
    traces: tuple[tuple[str, tuple[int, int]], ...]
    workloads: Mapping[str, tuple[int, ...]]

    @property
    def first_training_seed(self) -> int:
        """The first seed for tuning and training."""
        return self.seeds[1] + 1


@cache
def held_out() -> HeldOut:
    """Return what is held out."""
    text = files("flyball").joinpath("data", "held_out.yaml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return HeldOut(
        seeds=(content["seeds"][0], content["seeds"][1]),
        scenarios=tuple(content["scenarios"]),
        clusters=tuple(content["clusters"]),
        traces=tuple((part["file"], tuple(part["days"])) for part in content["traces"]),
        workloads={name: tuple(numbers) for name, numbers in content["workloads"].items()},
    )


def refuse_seeds(seeds: Iterable[int]) -> None:
    """Refuse seeds of workloads that are held out."""
    kept = held_out()
    for seed in seeds:
        if kept.seeds[0] <= seed <= kept.seeds[1]:
            raise is_held_out(f"seed {seed}", f"use {kept.first_training_seed} or more")


def refuse_cluster(cluster: Cluster, what: str) -> None:
    """Refuse a cluster that has the shape of one that is held out."""
    for name in held_out().clusters:
        if _shape(cluster) == _shape(load_cluster(name)):
            raise is_held_out(f"{what}, which has the shape of {name},", "use another cluster")


def refuse_days(file: str, days: tuple[int, int]) -> None:
    """Refuse days of a recorded trace of which some are held out."""
    for held_file, (first, end) in held_out().traces:
        if file == held_file and days[0] < end and first < days[1]:
            raise is_held_out(f"day {max(days[0], first)} of {file}", "use other days")


def _shape(cluster: Cluster) -> Counter[tuple[str, int]]:
    """Return how many nodes there are of each type and size."""
    shape: Counter[tuple[str, int]] = Counter()
    for group in cluster.groups:
        shape[group.device, group.devices] += group.count
    return shape


def is_held_out(what: str, remedy: str) -> BadInput:
    """Return the error that says that something is held out."""
    return BadInput(f"{what} is held out of tuning and training (data/held_out.yaml)", remedy)
