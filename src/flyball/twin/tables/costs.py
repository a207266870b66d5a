"""Presets of costs (`data/costs.toml`), and what they mean for the jobs of a workload."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from flyball.core.costs import AppCosts, Costs
from flyball.core.effects import Effects
from flyball.core.errors import UnknownName
from flyball.core.results import Floats, Ints
from flyball.core.units import to_us
from flyball.core.workload import Workload
from flyball.physics.measured import split_model


def load_costs(name: str) -> Costs:
    """Return a preset by its name.

    Raises:
        UnknownName: there is none.
    """
    document = _document()
    if name not in document:
        raise UnknownName("costs", name, document)
    preset = dict(document[name])
    applications = preset.pop("applications", {})
    return Costs(
        name=name,
        applications={app: AppCosts(**figures) for app, figures in applications.items()},
        others=AppCosts(**preset.pop("others")),
        **preset,
    )


def names() -> list[str]:
    """Return the names of all presets."""
    return list(_document())


@cache
def _document() -> dict[str, Any]:
    text = resources.files("flyball.data").joinpath("costs.toml").read_text("utf-8")
    return tomllib.loads(text)


def set_up_us(workload: Workload, effects: Effects) -> Ints:
    """Return the set-up time of each job's starts: by application, or else by its devices."""
    if effects.costs is not None:
        by_model = np.array([to_us(app.restart_s) for app in _by_model(workload, effects.costs)])
        return by_model[workload.model]
    by_size = np.array([to_us(seconds) for seconds in effects.restart_s])
    return by_size[np.searchsorted([1, 8], workload.devices)]


def slowdowns(workload: Workload, effects: Effects) -> Floats:
    """Return how many times longer each job runs than its profile says."""
    if effects.costs is None:
        return np.ones(len(workload))
    by_model = np.array([app.slowdown for app in _by_model(workload, effects.costs)])
    return by_model[workload.model]


def largest_set_up_s(effects: Effects) -> float:
    """Return the longest set-up time that a job could have."""
    if effects.costs is None:
        return max(effects.restart_s)
    every = (effects.costs.others, *effects.costs.applications.values())
    return max(app.restart_s for app in every)


def _by_model(workload: Workload, costs: Costs) -> list[AppCosts]:
    """Return the costs of each model of a workload, then those of jobs that name none (-1)."""
    named = [costs.of(split_model(model)[0]) for model in workload.models]
    return [*named, costs.others]
