"""From what a user asks of a replay to the runs: the command line and notebooks both start here.

Errors and notes name options as the command line has them (`--load`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flyball.app import PolicySetting
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, whole_number
from flyball.core.workload import Workload
from flyball.experiments.replay import ReplayCase
from flyball.experiments.signal_report import signal_notes
from flyball.experiments.tuning.classes import pathway_arms
from flyball.experiments.tuning.options import TuningOptions, arms_of
from flyball.experiments.tuning.tuned import Arms
from flyball.experiments.unfit import fitting
from flyball.tune.pathway_scope import Scope
from flyball.twin.generate import rescale
from flyball.twin.inputs.recorded_on import scalings, sentences, settle_recorded_on
from flyball.twin.inputs.traces import read_trace
from flyball.twin.tables.costs import load_costs

MAX_SEEDS = 1000
Trace = str | Path | Workload


@dataclass(frozen=True)
class Reading:
    """How a trace is read for a cluster.

    Attributes:
        trace_format: a name in `READERS`; None = detect it.
        load: stretch or compress arrivals to this load.
        limit_jobs: take only the first jobs.
        estimates: the run times that policies see: `trace`, `exact` or `noisy:SIGMA`.
        recorded_on: device type of the jobs that name none; "" = see `settle_recorded_on`.
        static_batch: read jobs that grow their batch as if they kept it.
    """

    trace_format: str | None = None
    load: float | None = None
    limit_jobs: int | None = None
    estimates: str = "trace"
    recorded_on: str = ""
    static_batch: bool = False

    @property
    def estimate_sigma(self) -> float:
        """Return the spread of the errors that `exact` or `noisy:SIGMA` asks for."""
        if self.estimates in ("trace", "exact"):
            return 0.0
        kind, _, text = self.estimates.partition(":")
        try:
            sigma = float(text)
        except ValueError:
            sigma = -1.0
        if kind != "noisy" or not 0 <= sigma <= 10:
            raise BadInput(
                f"--estimates {self.estimates!r} is not understood",
                "use trace, exact or e.g. noisy:0.5",
            )
        return sigma


def read_workload(
    trace: Trace, cluster: Cluster, reading: Reading, notes: list[str] | None = None
) -> Workload:
    """Return the jobs of a trace as they will run on a cluster.

    Args:
        trace: a file, or a workload that is there already.
        cluster: the cluster it will run on.
        reading: how to read it.
        notes: receives a sentence for all that was left out, assumed and scaled.
    """
    remarks = notes if notes is not None else []
    if isinstance(trace, Workload):
        workload = trace
    else:
        workload = read_trace(trace, reading.trace_format, remarks, reading.static_batch)
    if reading.limit_jobs is not None:
        whole_number(reading.limit_jobs, "--limit-jobs", 1, 10**9)
        workload = workload.take(np.arange(min(reading.limit_jobs, len(workload))))
    if not len(workload):
        name = workload.name if isinstance(trace, Workload) else trace
        raise BadInput(f"{name} holds no jobs", "check the file")
    recording = settle_recorded_on(workload, cluster, reading.recorded_on)
    workload = recording.workload
    remarks += [recording.assumption] if recording.assumption else []
    remarks += sentences(scalings(workload, cluster))
    if reading.load is not None:
        if not 0 < reading.load < 1000:
            raise BadInput(
                f"--load {reading.load} is out of range", "use e.g. 0.9; 1 = the whole cluster"
            )
        workload = rescale(workload, reading.load, cluster.device_count)
    if reading.estimates != "trace":
        workload = replace(workload, estimate_us=np.full(len(workload), np.nan))
    return workload


@dataclass(frozen=True)
class ReplayOptions:
    """Holds what a user may set in a replay, besides the trace, the cluster and the policies.

    Attributes:
        reading: how the trace is read.
        tuning: the tuners.
        seeds: runs per policy.
        mtbf_h, repair_h, checkpoint_s, checkpoint_every_s: as in `Effects`.
        restart_s: set-up time of a restart, for gangs of any size; None = by size.
        skip_unfit: leave out jobs that fit nowhere.
        record: compare with the starts that the trace recorded.
        keep: which raw results to keep: none, first (seed), all.
        costs: a preset of set-up times and slowdowns by application; None = by `restart_s`.
    """

    reading: Reading = field(default_factory=Reading)
    tuning: TuningOptions = field(default_factory=TuningOptions)
    seeds: int = 1
    mtbf_h: float = 0.0
    repair_h: float = 4.0
    checkpoint_s: float = 0.0
    checkpoint_every_s: float = 0.0
    restart_s: float | None = None
    skip_unfit: bool = False
    record: bool = True
    keep: str = "none"
    costs: str | None = None

    def effects(self) -> Effects:
        """Return the settings of the twin.

        Raises:
            BadInput: both `costs` and `restart_s`; or costs of an unknown name.
        """
        if self.costs is not None and self.restart_s is not None:
            raise BadInput("--costs and --restart-s do not go together", "use one of them")
        return Effects(
            costs=None if self.costs is None else load_costs(self.costs),
            checkpoint_s=self.checkpoint_s,
            checkpoint_every_s=self.checkpoint_every_s,
            mtbf_h=self.mtbf_h,
            repair_h=self.repair_h,
            estimate_sigma=self.reading.estimate_sigma,
            restart_s=Effects.restart_s if self.restart_s is None else (self.restart_s,) * 3,
            **self.tuning.effects(),
        )


class Prepared(NamedTuple):
    """The runs of a replay before the first one, with its notes in `case.notes`.

    Attributes:
        case: what to run.
        arms: what policies with tuners or pathways are compared with; None = there are none.
    """

    case: ReplayCase
    arms: Arms | None


def prepare(
    trace: Trace | Sequence[Workload],
    cluster: Cluster,
    policies: Sequence[PolicySetting],
    options: ReplayOptions,
    explicit: bool = True,
) -> Prepared:
    """Check what a user asks for, read the trace, and return the runs.

    Args:
        trace: a file, a workload, or a workload per seed.
        cluster: the cluster to run on.
        policies: without tuners.
        options: everything else.
        explicit: the policies were named; else those that cannot be tuned are left out.

    Raises:
        FlyballError: options that do not go together, or a trace that cannot be read.
    """
    # 1. Check the options before the long part.
    whole_number(options.seeds, "--seeds", 1, MAX_SEEDS)
    options.tuning.check()
    notes: list[str] = []
    arms = None
    if options.tuning.tuned:
        arms = arms_of(options.tuning, policies, explicit, notes)
    effects = options.effects()
    notes += [_what_is_learned(policy) for policy in policies if policy.learned is not None]
    # 2. Read.
    given = [trace] if isinstance(trace, str | Path | Workload) else list(trace)
    if len(given) not in (1, options.seeds):
        raise BadInput(
            f"{len(given)} workloads and --seeds {options.seeds}", "give one workload per seed"
        )
    workloads = [read_workload(one, cluster, options.reading, notes) for one in given]
    if options.skip_unfit:
        results = [fitting(workload, cluster, policies, effects) for workload in workloads]
        workloads = [result.workload for result in results]
        notes += [result.text for result in results if result.text]
    notes += signal_notes(cluster, workloads[0])
    ready = options.tuning.workloads(workloads, options.seeds, notes)
    if options.tuning.scope != Scope.OFF:
        arms = _with_pathways(arms, policies, options.tuning.scope, ready[0], explicit, notes)
    # 3. Put it together.
    is_random = _is_random(ready[0], effects) or options.tuning.chance(ready)
    case = ReplayCase(
        cluster,
        ready,
        tuple(policies) if arms is None else arms.policies,
        effects,
        options.seeds if is_random else _single_seed(options.seeds, notes),
        options.keep,
        options.tuning.watch,
        tuple(dict.fromkeys(notes)),
        options.record,
        options.tuning.scope != Scope.OFF,
        options.tuning.fetch_share or 0.0,
    )
    return Prepared(case, arms)


def _what_is_learned(policy: PolicySetting) -> str:
    """Return which kind of policy governs, and where its card is."""
    assert policy.learned is not None
    kind = policy.learned.card.get("made", {}).get("kind", policy.learned.card["kind"])
    return (
        f"{policy.name} is a policy of kind {kind}, {policy.version[:12]}, which acts every "
        f"{policy.learned.epoch_s / 60:g} min; `flyball learn show` prints its card"
    )


def _with_pathways(
    arms: Arms | None,
    policies: Sequence[PolicySetting],
    scope: Scope,
    workload: Workload,
    explicit: bool,
    notes: list[str],
) -> Arms:
    """Return the arms, and each policy (the tuned ones, if there are) with its jobs on pathways."""
    if arms is None:
        more = pathway_arms(policies, scope, workload, explicit, notes)
        return Arms(more.policies, more.against, {})
    ends = [policy for policy in arms.policies if policy.name in arms.against]
    more = pathway_arms(ends, scope, workload, explicit, notes)
    added = tuple(policy for policy in more.policies if policy.pathways)
    return Arms((*arms.policies, *added), {**arms.against, **more.against}, arms.left_out)


def _single_seed(seeds: int, notes: list[str]) -> int:
    """Return 1, as more seeds change nothing; explain that if more were requested."""
    if seeds > 1:
        notes.append(
            f"nothing here is random: all {seeds} seeds would give the same, so each policy runs "
            "once and there is no interval; see --estimates noisy:SIGMA and --mtbf-h"
        )
    return 1


def _is_random(workload: Workload, effects: Effects) -> bool:
    """Return whether the seed can make a difference."""
    noisy = effects.estimate_sigma > 0 and bool(np.isnan(workload.estimate_us).any())
    return noisy or effects.mtbf_h > 0
