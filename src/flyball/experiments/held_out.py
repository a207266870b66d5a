"""What is held out of all tuning and training, so that comparisons on it are honest.

`data/held_out.yaml` lists it. A command that tunes or trains calls `refuse` before it begins.
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
from flyball.experiments.scenarios import Scenario, find_scenarios, generated_names
from flyball.twin.inputs.cluster_file import load_cluster

GROUP = "held-out"
"""Stands for the scenarios held out where scenarios are named."""


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


def named_scenarios(text: str) -> list[Scenario]:
    """Return the scenarios of a list in which `held-out` stands for all that are held out."""
    parts = [part.strip() for part in text.split(",")]
    names = ",".join(",".join(held_out().scenarios) if part == GROUP else part for part in parts)
    return find_scenarios(names)


def training_scenarios(text: str) -> list[Scenario]:
    """Return the scenarios to tune on: `all` = every generated one that is not held out.

    Raises:
        BadInput: one of those named is held out.
    """
    chosen = find_scenarios(text)
    if text.strip() == "all":
        kept = [name for name in generated_names() if name not in held_out().scenarios]
        chosen = find_scenarios(",".join(kept))
    refuse(scenarios=chosen)
    return chosen


def refuse(
    scenarios: Iterable[Scenario] = (),
    seeds: Iterable[int] = (),
    clusters: Iterable[Cluster] = (),
    workloads: Iterable[tuple[str, int]] = (),
) -> None:
    """Refuse to tune or train on what is held out.

    Args:
        scenarios: with their clusters and traces.
        seeds: of workloads.
        clusters: besides those of the scenarios.
        workloads: family and number.

    Raises:
        BadInput: one of them is held out.
    """
    kept = held_out()
    for seed in seeds:
        if kept.seeds[0] <= seed <= kept.seeds[1]:
            raise _held_out(f"seed {seed}", f"use {kept.first_training_seed} or more")
    for scenario in scenarios:
        if scenario.name in kept.scenarios:
            raise _held_out(f"scenario {scenario.name}", "name others; see --list")
        _refuse_cluster(scenario.make_cluster(), f"the cluster of {scenario.name}")
        if scenario.trace is not None:
            _refuse_days(scenario.trace.file, scenario.trace.days)
    for cluster in clusters:
        _refuse_cluster(cluster, f"cluster {cluster.name}")
    for family, number in workloads:
        if number in kept.workloads.get(family, ()):
            raise _held_out(f"workload {number} of {family}", "use another")


def _refuse_cluster(cluster: Cluster, what: str) -> None:
    for name in held_out().clusters:
        if _shape(cluster) == _shape(load_cluster(name)):
            raise _held_out(f"{what}, which has the shape of {name},", "use another cluster")


def _refuse_days(file: str, days: tuple[int, int]) -> None:
    for held_file, (first, end) in held_out().traces:
        if file == held_file and days[0] < end and first < days[1]:
            raise _held_out(f"day {max(days[0], first)} of {file}", "use other days")


def _shape(cluster: Cluster) -> Counter[tuple[str, int]]:
    """Return how many nodes there are of each type and size."""
    shape: Counter[tuple[str, int]] = Counter()
    for group in cluster.groups:
        shape[group.device, group.devices] += group.count
    return shape


def _held_out(what: str, remedy: str) -> BadInput:
    return BadInput(f"{what} is held out of tuning and training (data/held_out.yaml)", remedy)
