"""What the optimiser above the tuners is worth where caps slow jobs more than is believed.

The tuners (sizes and caps) are given a power curve that is wrong by a stated factor: what a cap
slows a job down is a part of what it really does. They run with and without the optimiser
(`tune.optimise`) over the same workloads; plans are carried out with the true curve. Rows are
changes by the optimiser in percent, paired by workload: below 0 is better for completion and
energy per work, above 0 for work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flyball.app import Twin
from flyball.core.effects import Effects
from flyball.core.intervals import paired
from flyball.core.metrics import summarise
from flyball.core.protocols import Outlook, Tuner
from flyball.core.records import Records
from flyball.core.shared_data import shared_data
from flyball.core.state import State
from flyball.experiments.kept_runs import run_kept
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning import families, mixed
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.experiments.tuning.tuned import with_elastic_jobs
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.tune.optimise import Optimise
from flyball.twin.tuning import Tuning

CODE = (*mixed.CODE, "experiments/tuning/optimiser.py", "experiments/tuning/families.py")
METRICS = ("work", "energy_per_work", "completion")
WORKLOADS = tuple(
    (family, number) for family in ("philly", "saturn", "pollux") for number in (1, 2, 3, 4)
)
"""Workloads of families that no setting of a tuner was chosen on."""
Part = tuple[str, int]
Measured = dict[str, float]


@dataclass(frozen=True)
class WrongCaps:
    """A case.

    Attributes:
        times: what a cap slows a job down is this many times what the tuners believe.
        load: as `tuning.mixed` defines it.
        bar: percent that the change of completion must stay below; None = no bar.
    """

    times: float
    load: float
    bar: float | None = None

    @property
    def name(self) -> str:
        """The case for people."""
        return "caps as believed" if self.times == 1.0 else f"caps slow {self.times:g} x as much"


CASES = (WrongCaps(1.0, 1.3), WrongCaps(2.0, 1.3), WrongCaps(3.0, 1.3, 0.0))


@dataclass(frozen=True)
class Misled:
    """A tuner that believes in a wrong power curve."""

    tuner: Tuner
    times: float

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan that the tuner makes of what it believes."""
        caps: Any = state.caps.copy()
        caps["slowdown"] = 1.0 + (caps["slowdown"] - 1.0) / self.times
        return self.tuner.adjust(state._replace(caps=caps), outlook, plan)


def measure(case: WrongCaps, part: Part) -> tuple[Measured, Measured]:
    """Measure a case on one workload, with and without the optimiser."""
    return run(case, part, (Optimise(mixed.TUNERS),)), run(case, part, mixed.TUNERS)


def run(case: WrongCaps, part: Part, tuners: tuple[Tuner, ...]) -> Measured:
    """Measure tuners that are misled on one workload."""
    family, number = part
    jobs = with_elastic_jobs(families.workload(family, (number,), case.load, 0), 0.8, 0)
    effects = Effects(restart_s=(mixed.RESIZE_S,) * 3, adaptive_batch=True)
    knobs = get_policy("easy").knobs
    misled: tuple[Tuner, ...] = tuple(Misled(tuner, case.times) for tuner in tuners)
    tuning = Tuning(misled, Preset("easy", "", knobs), mixed.ROUND_S, between=False)
    summary = summarise(Twin(mixed.CLUSTER, jobs, knobs, effects, tuning=tuning).replay())
    return {
        "work": summary.work_per_window,
        "energy_per_work": summary.energy_per_work,
        "completion": summary.completion_s.mean,
    }


class _Runner:
    """Runs single cases in worker processes."""

    def run(self, case: int, part: Part) -> tuple[Measured, Measured]:
        """Run one case on one workload."""
        return measure(CASES[case], part)


def rows(
    progress: Callable[[str], None], workers: int | None = None, runs: RunFile | None = None
) -> list[Row]:
    """Measure every case on every workload.

    Raises:
        DataAbsent: the workloads are not there.
    """
    for path in sorted({families.FAMILIES[family].path for family, _ in WORKLOADS}):
        shared_data(*path)
    tasks = [(at, part) for at in range(len(CASES)) for part in WORKLOADS]
    version = source_version(CODE)
    keys = {(at, part): key_of(version, asdict(CASES[at]), part) for at, part in tasks}

    def done(task: tuple[int, Part]) -> None:
        family, number = task[1]
        progress(f"{CASES[task[0]].name}, {family}/{number}")

    pairs = run_kept(_Runner(), keys, runs, done, workers)
    return [
        row
        for at, case in enumerate(CASES)
        for row in case_rows(case, [pairs[at, part] for part in WORKLOADS])
    ]


def case_rows(case: WrongCaps, pairs: list[Any]) -> list[Row]:
    """Return the change of each metric by the optimiser, in percent, paired by workload."""
    table = []
    for metric in METRICS:
        changes = [100.0 * (ours[metric] / theirs[metric] - 1.0) for ours, theirs in pairs]
        value, low, high = paired(changes, [0.0] * len(changes))
        estimate = (round(value, 3), round(low, 3), round(high, 3))
        bar = case.bar if metric == "completion" else None
        table.append(
            tuning_row(case.name, case.load, "the same tuners", f"{metric}_pct", estimate, bar)
        )
    return table
