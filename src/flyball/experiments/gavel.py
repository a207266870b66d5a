"""Gavel's simulator against ours: its policies on its own 100 jobs, and what each switch is worth.

Gavel's completion times are in the shared data (`peer_runs`), made with its defaults: rounds of
360 s, new shares at most every 1,920 s, free restarts. A policy that ignores device types fills
the types in an order drawn for each round, so it is run with several seeds of those draws.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs, Order, Preempt, Types
from flyball.core.metrics import completions_s
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.core.state import State
from flyball.core.units import S_PER_HOUR
from flyball.core.workload import Workload
from flyball.schedule.shares.demand import targets_by
from flyball.schedule.shares.gavel import gavel_knobs
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces import read_trace

JOBS, TIMES = "gavel_makespan100_jobs.csv.gz", "gavel_makespan100_jct.csv.gz"
CLUSTER = "gavel-48"
THEIRS = {
    "max-min": "max_min_fairness",
    "even-split": "isolated",
    "max-min-het": "max_min_fairness_perf",
    "finish-time-fair": "finish_time_fairness_perf",
    "min-makespan": "min_total_duration_perf",
    "max-throughput": "max_sum_throughput_perf",
    "fifo-fast": "fifo_perf",
}
"""Our names of policies, and Gavel's. `even-split` exists only here; Gavel's `fifo` has no
counterpart (see `docs/decisions/0025-gavel-mode.md`)."""

WITHIN = 0.01
"""Error of the mean completion that is allowed, unless Gavel's is within the range of shuffles."""
ROUND_S = 360.0


@dataclass(frozen=True)
class EvenSplit:
    """Gives every job an even part of every pool, as if each had a cluster of its own."""

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: demand.even_parts())


@dataclass(frozen=True)
class Setup:
    """Holds a policy's setting and the effects it runs under."""

    policy: PolicySetting
    effects: Effects

    @property
    def shuffled(self) -> bool:
        return self.policy.knobs.types == Types.SHUFFLED

    def with_knobs(self, **changes: Any) -> Setup:
        """Return the same with other knobs; the allocator follows `optimum`."""
        knobs = replace(self.policy.knobs, **changes)
        allocator: Any = self.policy.allocator
        if hasattr(allocator, "optimum"):
            allocator = replace(allocator, optimum=knobs.optimum)
        return replace(self, policy=replace(self.policy, knobs=knobs, allocator=allocator))


KNOB_SWITCHES = {
    "order of types": "types",
    "starts": "starts",
    "leftovers": "leftover",
    "best solution taken": "optimum",
    "time between divisions": "solve_s",
}
EFFECT_SWITCHES = {"free restarts": "restart_s", "whole steps": "step_slice_s"}
SWITCHES = (*KNOB_SWITCHES, *EFFECT_SWITCHES)
"""What Gavel's simulator does differently, by the knob or the effect that follows it."""


def ours(name: str) -> Setup:
    """Return a policy as it is set by default."""
    if name == "even-split":
        knobs = Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=ROUND_S)
        return Setup(PolicySetting(name, knobs, EvenSplit()), Effects())
    (policy,) = policy_settings(name, [])
    return Setup(policy, Effects())


def gavels(name: str) -> Setup:
    """Return a policy in Gavel mode, under Gavel's effects."""
    effects = Effects(restart_s=(0.0, 0.0, 0.0), step_slice_s=ROUND_S)
    if name == "even-split":
        policy = ours(name).policy
        return Setup(replace(policy, knobs=gavel_knobs(policy.knobs, blind=True)), effects)
    (policy,) = policy_settings(f"{name}@gavel", [])
    return Setup(policy, effects)


def flipped(setup: Setup, other: Setup, switch: str) -> Setup:
    """Return a set-up with one switch as in another."""
    if switch in KNOB_SWITCHES:
        knob = KNOB_SWITCHES[switch]
        return setup.with_knobs(**{knob: getattr(other.policy.knobs, knob)})
    effect = EFFECT_SWITCHES[switch]
    changed = replace(setup.effects, **{effect: getattr(other.effects, effect)})
    return replace(setup, effects=changed)


@dataclass(frozen=True)
class Trace:
    """Holds Gavel's jobs and its mean completion of them by policy."""

    cluster: Cluster
    workload: Workload
    means_s: dict[str, float]


def load() -> Trace:
    """Load the trace and Gavel's results.

    Raises:
        DataAbsent: the shared data is not on this machine.
    """
    path, times = shared_data("peer_runs", JOBS), shared_data("peer_runs", TIMES)
    with gzip.open(times, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    means_s = {
        name: float(np.mean([float(row[f"{theirs}_jct_s"]) for row in rows]))
        for name, theirs in THEIRS.items()
    }
    return Trace(load_cluster(CLUSTER), read_trace(path), means_s)


def means_h(trace: Trace, setup: Setup, shuffles: int) -> Floats:
    """Return the mean completion in hours of each shuffle, or of the only run."""
    out = []
    for seed in range(shuffles if setup.shuffled else 1):
        policy = setup.with_knobs(shuffle_seed=seed).policy
        results = build_twin(trace.cluster, trace.workload, policy, setup.effects).replay()
        out.append(float(completions_s(results).mean()) / S_PER_HOUR)
    return np.array(out)


def steps(names: list[str], switches: bool) -> int:
    """Return the number of steps that `run` reports."""
    return len(names) * (2 + (2 * len(SWITCHES) if switches else 0))


def run(
    trace: Trace, names: list[str], shuffles: int, switches: bool, step: Callable[[str], None]
) -> dict[str, Any]:
    """Compare each policy with Gavel's, and measure its switches."""
    return {
        "shuffles": shuffles,
        "within": WITHIN,
        "policies": [_policy(trace, name, shuffles, switches, step) for name in names],
    }


def _policy(
    trace: Trace, name: str, shuffles: int, switches: bool, step: Callable[[str], None]
) -> dict[str, Any]:
    default, mode = ours(name), gavels(name)

    means_of: dict[Setup, Floats] = {}

    def measured(setup: Setup) -> Floats:
        if setup not in means_of:
            means_of[setup] = means_h(trace, setup, shuffles)
        step(name)
        return means_of[setup]

    by_default, by_mode = measured(default), measured(mode)
    theirs_h = trace.means_s[name] / S_PER_HOUR
    error = float(by_mode.mean()) / theirs_h - 1.0
    inside = bool(by_mode.min() <= theirs_h <= by_mode.max())
    row: dict[str, Any] = {
        "policy": name,
        "theirs": THEIRS[name],
        "theirs_h": theirs_h,
        "default_h": float(by_default.mean()),
        "mode_h": float(by_mode.mean()),
        "least_h": float(by_mode.min()),
        "most_h": float(by_mode.max()),
        "runs": len(by_mode),
        "error": error,
        "default_error": float(by_default.mean()) / theirs_h - 1.0,
        "holds": abs(error) <= WITHIN or inside,
    }
    if switches:
        row["switches"] = list(_switches(default, mode, row, measured))
    return row


def _switches(
    default: Setup, mode: Setup, row: dict[str, Any], measured: Callable[[Setup], Floats]
) -> Iterator[dict[str, Any]]:
    """Yield what each switch changes, alone: from our default, and from Gavel mode."""
    for switch in SWITCHES:
        on, off = flipped(default, mode, switch), flipped(mode, default, switch)
        on_h, off_h = float(measured(on).mean()), float(measured(off).mean())
        yield {
            "switch": switch,
            "only_it_h": on_h,
            "all_but_it_h": off_h,
            "from_default": on_h / row["default_h"] - 1.0,
            "from_mode": off_h / row["mode_h"] - 1.0,
        }
