"""Scenarios: the problems policies are compared on, each generated from its name and a seed.

They are in `data/scenarios.yaml`. Seeds from 0 up are for comparing; `TRAINING_SEED` and up are
for tuning and training, so that nothing is judged on data it was fitted to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from flyball.app import PolicySetting
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import Workload
from flyball.experiments.replay import ReplayCase
from flyball.twin.generate import generate, preset
from flyball.twin.inputs.cluster_file import load_cluster, parse_cluster

TRAINING_SEED = 1000
"""The first of the seeds for tuning and training."""

KEYS = ("about", "cluster", "preset", "jobs", "load", "change", "effects")


@dataclass(frozen=True)
class Scenario:
    """A cluster, a generator and effects.

    Attributes:
        name: as users write it.
        about: what is special, in a line.
        cluster: a preset's name, or what a cluster file holds.
        preset: of the generator.
        jobs: in each workload.
        load: offered on the reference device; None = all jobs at time 0.
        change: settings of the generator that differ from the preset's.
        effects: settings of the twin that differ from the default.
    """

    name: str
    about: str
    cluster: str | Mapping[str, Any]
    preset: str
    jobs: int
    load: float | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
    effects: Mapping[str, Any] = field(default_factory=dict)

    def make_cluster(self) -> Cluster:
        """Return the cluster, the same for every seed."""
        if isinstance(self.cluster, str):
            return load_cluster(self.cluster)
        return parse_cluster(dict(self.cluster), f"scenario {self.name}", self.name)

    def make_workload(self, seed: int) -> Workload:
        """Return the jobs of a seed."""
        changes: Any = {key: _plain(value) for key, value in self.change.items()}
        settings = replace(preset(self.preset), **changes)
        if self.load is None:
            workload = generate(settings, seed, jobs=self.jobs)
            return replace(workload, submit_us=np.zeros(len(workload), np.int64))
        devices = self.make_cluster().device_count
        return generate(settings, seed, jobs=self.jobs, load=self.load, devices=devices)

    def make_effects(self, seed: int) -> Effects:
        """Return the effects, whose draws depend on the seed too."""
        values: Any = {key: _plain(value) for key, value in self.effects.items()}
        return Effects(**values, seed=seed)

    def case(self, policy: PolicySetting, seed: int) -> ReplayCase:
        """Return one policy under one seed, ready to run."""
        workload = self.make_workload(seed)
        return ReplayCase(self.make_cluster(), (workload,), (policy,), self.make_effects(seed))

    def text(self) -> str:
        """Return all that a run depends on, as one line that changes whenever any of it does."""
        parts = {key: getattr(self, key) for key in KEYS if key != "about"}
        return json.dumps(parts, sort_keys=True)


def scenario_names() -> list[str]:
    """Return the names of all scenarios, in the order of the file."""
    return list(_shipped())


def find_scenarios(text: str) -> list[Scenario]:
    """Return the scenarios of a comma-separated list (`all` = every one).

    Raises:
        UnknownName: there is none of that name.
        BadInput: the list is empty.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadInput("no scenario is named", f"known: {', '.join(scenario_names())}")
    chosen = scenario_names() if names == ["all"] else list(dict.fromkeys(names))
    for name in chosen:
        if name not in _shipped():
            raise UnknownName("scenario", name, _shipped())
    return [_shipped()[name] for name in chosen]


@cache
def _shipped() -> dict[str, Scenario]:
    text = files("flyball").joinpath("data", "scenarios.yaml").read_text("utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {name: Scenario(name=name, **content) for name, content in loaded.items()}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
