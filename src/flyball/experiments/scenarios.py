"""Scenarios: the problems policies are compared on, each made from its name and a seed.

They are in `data/scenarios.yaml`: most are generated, some are slices of recorded traces. What may
not be tuned or trained on is in `data/held_out.yaml`; see `experiments.held_out`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from flyball.app import PolicySetting
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.shared_data import shared_data
from flyball.core.units import S_PER_DAY, US_PER_S
from flyball.core.workload import Workload
from flyball.experiments.replay import ReplayCase
from flyball.twin.generate import generate, preset
from flyball.twin.inputs.cluster_file import load_cluster, parse_cluster
from flyball.twin.inputs.traces import read_trace

KEYS = ("about", "cluster", "preset", "jobs", "load", "change", "effects", "trace")


@dataclass(frozen=True)
class TraceSlice:
    """Some days of a recorded trace.

    Attributes:
        file: path in the shared data.
        format: of the file.
        days: the first, and the one after the last; day 0 is the file's first.
    """

    file: str
    format: str
    days: tuple[int, int]

    def read(self) -> Workload:
        """Return the jobs of these days; the first is submitted at time 0.

        Raises:
            DataAbsent: the trace is not on this machine.
        """
        whole = read_trace(shared_data(*self.file.split("/")), self.format)
        first, end = (day * S_PER_DAY * US_PER_S for day in self.days)
        chosen = np.flatnonzero((whole.submit_us >= first) & (whole.submit_us < end))
        part = whole.take(chosen)
        return replace(part, submit_us=part.submit_us - part.submit_us[0])


@dataclass(frozen=True)
class Scenario:
    """A cluster, jobs and effects.

    Attributes:
        name: as users write it.
        about: what is special, in a line.
        cluster: a preset's name, or what a cluster file holds.
        preset: of the generator; empty if the jobs are recorded.
        jobs: in each workload.
        load: offered on the reference device; None = all jobs at time 0.
        change: settings of the generator that differ from the preset's.
        effects: settings of the twin that differ from the default.
        trace: the recorded jobs; None = they are generated.
    """

    name: str
    about: str
    cluster: str | Mapping[str, Any]
    preset: str = ""
    jobs: int = 0
    load: float | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
    effects: Mapping[str, Any] = field(default_factory=dict)
    trace: TraceSlice | None = None

    def make_cluster(self) -> Cluster:
        """Return the cluster, the same for every seed."""
        if isinstance(self.cluster, str):
            return load_cluster(self.cluster)
        return parse_cluster(dict(self.cluster), f"scenario {self.name}", self.name)

    def make_workload(self, seed: int) -> Workload:
        """Return the jobs of a seed (recorded ones are the same for every seed)."""
        if self.trace is not None:
            return _recorded(self.trace)
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
        return json.dumps(parts, sort_keys=True, default=asdict)


def scenario_names() -> list[str]:
    """Return the names of all scenarios, in the order of the file."""
    return list(_shipped())


def generated_names() -> list[str]:
    """Return the names of the scenarios that need no data but this package's."""
    return [name for name, scenario in _shipped().items() if scenario.trace is None]


def find_scenarios(text: str) -> list[Scenario]:
    """Return the scenarios of a comma-separated list (`all` = every generated one).

    Raises:
        UnknownName: there is none of that name.
        BadInput: the list is empty.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadInput("no scenario is named", f"known: {', '.join(scenario_names())}")
    listed = [generated_names() if name == "all" else [name] for name in names]
    chosen = dict.fromkeys(name for part in listed for name in part)
    for name in chosen:
        if name not in _shipped():
            raise UnknownName("scenario", name, _shipped())
    return [_shipped()[name] for name in chosen]


@cache
def _shipped() -> dict[str, Scenario]:
    text = files("flyball").joinpath("data", "scenarios.yaml").read_text("utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return {name: _parsed(name, content) for name, content in loaded.items()}


def _parsed(name: str, content: dict[str, Any]) -> Scenario:
    trace = content.pop("trace", None)
    if trace is not None:
        trace = TraceSlice(trace["file"], trace["format"], tuple(trace["days"]))
    return Scenario(name=name, trace=trace, **content)


@lru_cache(maxsize=2)
def _recorded(trace: TraceSlice) -> Workload:
    return trace.read()


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
