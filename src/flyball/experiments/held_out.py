"""What is held out of all tuning and training, so that comparisons on it are honest.

`data/held_out.yaml` lists it. A command that tunes or trains calls `refuse` before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from flyball.core.cluster import Cluster
from flyball.experiments.scenarios import Scenario, find_scenarios, generated_names
from flyball.twin.inputs.held_out import HeldOut as HeldOut
from flyball.twin.inputs.held_out import held_out as held_out
from flyball.twin.inputs.held_out import (
    is_held_out,
    refuse_cluster,
    refuse_days,
    refuse_seeds,
)

GROUP = "held-out"
"""Stands for the scenarios held out where scenarios are named."""


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
    refuse_seeds(seeds)
    for scenario in scenarios:
        if scenario.name in kept.scenarios:
            raise is_held_out(f"scenario {scenario.name}", "name others; see --list")
        refuse_cluster(scenario.make_cluster(), f"the cluster of {scenario.name}")
        if scenario.trace is not None:
            refuse_days(scenario.trace.file, scenario.trace.days)
    for cluster in clusters:
        refuse_cluster(cluster, f"cluster {cluster.name}")
    for family, number in workloads:
        if number in kept.workloads.get(family, ()):
            raise is_held_out(f"workload {number} of {family}", "use another")
