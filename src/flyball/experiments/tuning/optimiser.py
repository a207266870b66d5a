"""What the optimiser above the tuners is worth where what they believe is wrong.

Every case misleads the tuners in one way by a stated factor, and runs them with and without the
optimiser (`tune.optimise`) over the same workloads. What is wrong is known to nobody but the twin:
the tuners see it, their plans are carried out with the true values. Rows are changes by the
optimiser in percent, paired by workload; below 0 is better for completion and energy per work,
above 0 for work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from flyball.app import Twin
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.metrics import paired, summarise
from flyball.core.protocols import Outlook, Tuner
from flyball.core.records import Records
from flyball.core.shared_data import shared_data
from flyball.core.state import State
from flyball.core.workload import JobClass, Workload
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning import families, mixed, pathways
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.experiments.workers import Workers
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import Optimise
from flyball.tune.share import Share
from flyball.twin.tuning import Tuning

CODE = (*mixed.CODE, "experiments/tuning/*.py")
METRICS = ("work", "energy_per_work", "completion")
LOAD = 1.3
FAMILY_WORKLOADS = tuple(
    (family, number) for family in ("philly", "saturn", "pollux") for number in (1, 2, 3, 4)
)
"""Workloads of families that no setting of a tuner was chosen on."""
SEEDS = tuple(range(8))
"""Seeds of the generated workloads; no setting was chosen on them."""
Measured = dict[str, float]


# What is wrong -----------------------------------------------------------------------


class Wrong(NamedTuple):
    """Holds what the tuners get wrong.

    Attributes:
        scaling: a guessed speed is too high by (devices / fewest devices) to this power.
        spread: sigma of the log-normal error of guessed speeds, by curve, pool and size.
        interference: what a pair loses is guessed this many times too small.
        restart: a restart takes this many times as long as the tuners believe.
        caps: what a cap slows a job down is guessed this many times too small.
    """

    scaling: float = 0.0
    spread: float = 0.0
    interference: float = 1.0
    restart: float = 1.0
    caps: float = 1.0

    def spoil(self, twin: Twin) -> None:
        """Replace the guessed speeds in a twin that has not run yet; measurements correct them."""
        state = twin.state
        if self.scaling:
            guesses: Any = state.guesses.copy()  # the same array as the true speeds
            ends = np.append(state.ranges.first[1:], len(guesses))
            pools = len(state.pools)
            for span, end in zip(state.ranges, ends, strict=True):
                sizes = np.arange(span.least, span.least + (end - span.first) // pools)
                factor = np.repeat((sizes / span.least) ** self.scaling, pools)
                for name in ("packed", "spread"):
                    guesses[name][span.first : end] *= factor
            twin.state = state._replace(guesses=guesses)
        if self.interference != 1.0:
            guess = state.pair_guesses
            guess[:] = np.where(guess > 0.0, 1.0 - (1.0 - guess) / self.interference, 0.0)

    def seen(self, state: State) -> State:
        """Return the state as the tuners believe it to be."""
        if self.restart != 1.0:
            jobs: Any = state.jobs.copy()
            jobs["restart_us"] = np.rint(jobs["restart_us"] / self.restart)
            state = state._replace(jobs=jobs)
        if self.caps != 1.0:
            caps: Any = state.caps.copy()
            caps["slowdown"] = 1.0 + (caps["slowdown"] - 1.0) / self.caps
            state = state._replace(caps=caps)
        return state


@dataclass(frozen=True)
class Misled:
    """A tuner that sees the state as it is believed to be."""

    tuner: Tuner
    wrong: Wrong

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan that the tuner makes of what it believes."""
        return self.tuner.adjust(self.wrong.seen(state), outlook, plan)


# Cases -------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongCase:
    """One way to be wrong, the tuners that are misled, and the workloads.

    Attributes:
        tuners: in the order in which they change a plan.
        kind: class of the generated workloads; None = the families of recorded ones.
        restart_s: time that a restart really takes; None = by gang size.
    """

    name: str
    wrong: Wrong
    tuners: tuple[Tuner, ...]
    kind: JobClass | None = None
    restart_s: float | None = None

    @property
    def parts(self) -> tuple[Any, ...]:
        """The workloads: family and number, or seeds."""
        return FAMILY_WORKLOADS if self.kind is None else SEEDS


ELASTIC = (Elastic(energy=0.3),)
CASES = (
    WrongCase("nothing wrong", Wrong(), mixed.TUNERS, None, 60.0),
    WrongCase("scaling too good, power 0.25", Wrong(scaling=0.25), ELASTIC, None, 60.0),
    WrongCase("scaling too good, power 0.5", Wrong(scaling=0.5), ELASTIC, None, 60.0),
    WrongCase("scaling too poor, power 0.25", Wrong(scaling=-0.25), ELASTIC, None, 60.0),
    WrongCase("speeds off, sigma 0.5", Wrong(spread=0.5), ELASTIC, None, 60.0),
    WrongCase("restarts take 6 times as long", Wrong(restart=6.0), ELASTIC, None, 360.0),
    WrongCase("caps slow 3 times as much", Wrong(caps=3.0), mixed.TUNERS, None, 60.0),
    WrongCase(
        "pairs lose 3 times as much",
        Wrong(interference=3.0),
        (Share(limit=0.2, stay_s=3600.0, round_s=120.0),),
        JobClass.COMPUTE_INTENSIVE,
    ),
    WrongCase(
        "moves take 20 times as long",
        Wrong(restart=20.0),
        (Balance(),),
        JobClass.BANDWIDTH_LIMITED,
        600.0,
    ),
)


def measure(case: WrongCase, part: Any) -> tuple[Measured, Measured]:
    """Measure a case on one workload, with and without the optimiser."""
    return run(case, part, (Optimise(case.tuners),)), run(case, part, case.tuners)


def run(case: WrongCase, part: Any, tuners: tuple[Tuner, ...]) -> Measured:
    """Measure tuners that are misled on one workload."""
    twin = build(case, part, tuners)
    case.wrong.spoil(twin)
    results = twin.replay()
    summary = summarise(results)
    return {
        "work": summary.work_per_window,
        "energy_per_work": summary.energy_per_work,
        "completion": summary.completion_s.mean,
        "changes": float(results.preemptions.mean()),
    }


def build(case: WrongCase, part: Any, tuners: tuple[Tuner, ...]) -> Twin:
    """Return the twin of a case on one workload."""
    cluster, workload, effects = _ground(case, part)
    if case.restart_s is not None:
        effects = replace(effects, restart_s=(case.restart_s,) * 3)
    effects = replace(effects, speed_error=case.wrong.spread)
    knobs: Knobs = get_policy("easy").knobs
    misled: tuple[Tuner, ...] = tuple(Misled(tuner, case.wrong) for tuner in tuners)
    tuning = Tuning(misled, Preset("easy", "", knobs), mixed.ROUND_S, case.kind is not None)
    return Twin(cluster, workload, knobs, effects, tuning=tuning)


def _ground(case: WrongCase, part: Any) -> tuple[Cluster, Workload, Effects]:
    if case.kind is None:
        family, number = part
        jobs = families.workload(family, (number,), LOAD, 0)
        return mixed.CLUSTER, with_elastic_jobs(jobs, 0.8, 0), Effects(adaptive_batch=True)
    ground = pathways.CASES[case.kind]
    effects = Effects(checkpoint_s=pathways.CHECKPOINT_S, seed=part, share_limit=2)
    return ground.cluster, ground.workload(part), effects


# Rows --------------------------------------------------------------------------------


class _Runner:
    """Runs single cases in worker processes."""

    def run(self, case: int, part: Any) -> tuple[Measured, Measured]:
        """Run one case on one workload."""
        return measure(CASES[case], part)


def rows(
    progress: Callable[[str], None], workers: int | None = None, runs: RunFile | None = None
) -> list[Row]:
    """Measure every case on its workloads.

    Raises:
        DataAbsent: the recorded workloads are not there.
    """
    for path in {families.FAMILIES[family].path for family, _ in FAMILY_WORKLOADS}:
        shared_data(*path)
    tasks = [(at, part) for at, case in enumerate(CASES) for part in case.parts]
    version = source_version(CODE)
    keys = {(at, part): key_of(version, repr(CASES[at]), part) for at, part in tasks}
    kept = {} if runs is None else runs.records
    pairs = {task: tuple(kept[key]["result"]) for task, key in keys.items() if key in kept}
    with Workers(_Runner(), workers) as crew:
        for task, pair in crew.run([task for task in tasks if task not in pairs]):
            pairs[task] = pair
            if runs is not None:
                runs.append({"key": keys[task], "result": pair})
            progress(f"{CASES[task[0]].name}, {task[1]}")
    return [
        row
        for at, case in enumerate(CASES)
        for row in case_rows(case, [pairs[at, part] for part in case.parts])
    ]


def case_rows(case: WrongCase, pairs: list[Any]) -> list[Row]:
    """Return the change of each metric by the optimiser, in percent, paired by workload."""
    load = LOAD if case.kind is None else pathways.CASES[case.kind].load
    table = []
    for metric in METRICS:
        changes = [100.0 * (ours[metric] / theirs[metric] - 1.0) for ours, theirs in pairs]
        estimate = paired(changes, [0.0] * len(changes))
        table.append(tuning_row(case.name, load, "the same tuners", f"{metric}_pct", estimate))
    return table
