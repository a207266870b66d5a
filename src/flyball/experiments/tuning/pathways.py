"""What each class pathway does for its class, against the common setting, in the twin.

The common setting is EASY with exclusive, rigid jobs. Every case is a workload of one class (the
latency-sensitive one also has other jobs, else there would be none to preempt), run under both
over the same seeds. The pathways' settings are those of `tune.pathways` as they ship.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.intervals import paired
from flyball.core.knobs import Knobs, Span
from flyball.core.metrics import waits_s, work_per_window
from flyball.core.results import Floats, Ints, Results
from flyball.core.units import MIB_PER_GIB, US_PER_S
from flyball.core.workload import JobClass, Workload
from flyball.experiments.tuning.rows import Row, tuning_row
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.tune.pathways import (
    Change,
    Pathway,
    Setting,
    choose,
    pathway_of,
    pipelined,
    prepare,
    settings,
)
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

SEEDS = 8
DAYS = 1.0
DAY_S = 86_400.0
CHECKPOINT_S = 5.0
TRANSFER = 0.35
"""Share of transfers in a bandwidth-limited job's time; 50 to 80 % of the class is parallel."""
COMMON = "EASY, exclusive"

V100 = Cluster("v100", (NodeGroup("v", 6, "V100", 8),))
MIXED = Cluster("mixed", (NodeGroup("a", 2, "A100-40GB", 8), NodeGroup("t", 8, "T4", 4)))


class Jobs(NamedTuple):
    """One kind of jobs in a workload.

    Attributes:
        part: of the device time asked for.
        models: drawn from these; none = not stated.
        sizes: of the gangs, drawn with equal chances.
        median_s, sigma: of their log-normal run time, at most half the span.
        memory_gib: on each device, 0 = not stated.
    """

    kind: JobClass
    part: float
    models: tuple[str, ...]
    sizes: tuple[int, ...]
    median_s: float
    sigma: float
    memory_gib: float = 0.0


RESNETS = tuple(f"ResNet-18 (batch size {2**at})" for at in range(4, 9)) + tuple(
    f"ResNet-50 (batch size {2**at})" for at in range(4, 8)
)
RECOMMENDERS = tuple(f"Recommendation (batch size {2**at})" for at in range(9, 14))
LANGUAGE = tuple(f"LM (batch size {5 * 2**at})" for at in range(5))
SPEECH = ("deepspeech2", "yolov3", "transformer")


@dataclass(frozen=True)
class PathwayCase:
    """A class, its workload and what it is judged by.

    Attributes:
        kind: the class.
        jobs: what the workload is made of; the first are those of the class.
        load: device time asked for over what the cluster has, on the type durations are for.
        metric: name of what is compared.
        score: returns it, given a run and the rows of the class's jobs.
        more_is_better: else the gain is the decrease.
    """

    kind: JobClass
    jobs: tuple[Jobs, ...]
    load: float
    metric: str
    score: Callable[[Results, Ints], float]
    more_is_better: bool = False
    cluster: Cluster = V100

    @property
    def pathway(self) -> Pathway:
        """The pathway of the class."""
        return pathway_of(self.kind)

    def workload(self, seed: int) -> Workload:
        """Return the jobs of a seed."""
        rng = np.random.default_rng([seed, 64, int(self.kind)])
        asked_s = self.load * self.cluster.device_count * DAYS * DAY_S
        names = sorted({model for jobs in self.jobs for model in jobs.models})
        rows = [row for jobs in self.jobs for row in _drawn(jobs, asked_s, names, rng)]
        kind, size, time_s, model, memory = (list(column) for column in zip(*rows, strict=True))
        return Workload.of(
            f"{self.kind.label}-{seed}",
            rng.uniform(0, DAYS * DAY_S, len(rows)),
            time_s,
            size,
            kind=kind,
            model=model,
            models=tuple(names),
            memory_mib=memory,
            device=0,
            device_names=(self.cluster.groups[0].device,),
        )


def _drawn(
    jobs: Jobs, asked_s: float, names: Sequence[str], rng: np.random.Generator
) -> list[tuple[int, int, float, int, int]]:
    """Draw jobs of a kind until they ask for their part: class, gang, time, model, memory."""
    rows, left_s = [], jobs.part * asked_s
    longest_s = DAYS * DAY_S / 2
    while left_s > 0:
        size = int(rng.choice(jobs.sizes))
        drawn_s = jobs.median_s * float(np.exp(jobs.sigma * rng.standard_normal()))
        time_s = min(drawn_s, longest_s)
        model = names.index(str(rng.choice(jobs.models))) if jobs.models else -1
        rows.append((int(jobs.kind), size, time_s, model, round(jobs.memory_gib * MIB_PER_GIB)))
        left_s -= size * time_s
    return rows


# What is compared ---------------------------------------------------------------------


def _work(results: Results, mine: Ints) -> float:
    return work_per_window(results)


def _completion(results: Results, mine: Ints) -> float:
    return float(_completions_s(results, mine).mean())


def _completions_s(results: Results, mine: Ints) -> Floats:
    took: Floats = (results.end_us[mine] - results.submit_us[mine]) / US_PER_S
    return took


def _late_wait(results: Results, mine: Ints) -> float:
    return float(np.percentile(waits_s(results)[mine], 95))


_CASES = (
    PathwayCase(
        JobClass.COMPUTE_INTENSIVE,
        (
            Jobs(JobClass.COMPUTE_INTENSIVE, 0.6, RESNETS, (1,), 3600.0, 1.0),
            Jobs(JobClass.COMPUTE_INTENSIVE, 0.4, RESNETS, (2, 4, 8), 3600.0, 1.0),
        ),
        1.5,
        "work",
        _work,
        more_is_better=True,
    ),
    PathwayCase(
        JobClass.MEMORY_BOUND,
        (Jobs(JobClass.MEMORY_BOUND, 1.0, RECOMMENDERS, (1, 1, 2, 4), 1200.0, 1.5, 12.0),),
        1.2,
        "mean completion",
        _completion,
    ),
    PathwayCase(
        JobClass.LATENCY_SENSITIVE,
        (
            Jobs(JobClass.LATENCY_SENSITIVE, 0.2, ("A3C",), (1,), 180.0, 0.7),
            Jobs(JobClass.MIXED, 0.8, ("transformer",), (1, 2, 4, 8), 3600.0, 1.0),
        ),
        1.0,
        "p95 wait",
        _late_wait,
    ),
    PathwayCase(
        JobClass.BANDWIDTH_LIMITED,
        (
            Jobs(JobClass.BANDWIDTH_LIMITED, 0.6, LANGUAGE, (4, 8), 3600.0, 1.0),
            Jobs(JobClass.BANDWIDTH_LIMITED, 0.4, LANGUAGE, (1, 2), 3600.0, 1.0),
        ),
        1.0,
        "mean completion",
        _completion,
    ),
    PathwayCase(
        JobClass.MIXED,
        (Jobs(JobClass.MIXED, 1.0, SPEECH, (1, 1, 2, 4), 3600.0, 1.0),),
        0.9,
        "mean completion",
        _completion,
        cluster=MIXED,
    ),
)
CASES = {case.kind: case for case in _CASES}
"""The case of each class."""


# Runs ---------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A setting tried on a case, against the common setting.

    Attributes:
        name: what is tried.
        case: what it is tried on.
        setting: of the pathway, or a part of it.
        bar: percent that the gain must exceed; None = no bar.
        span: whether the common setting lets gangs gather devices from several nodes.
    """

    name: str
    case: PathwayCase
    setting: Setting
    bar: float | None = None
    span: Span = Span.WHOLE

    @property
    def baseline(self) -> str:
        """What it is compared with, for people."""
        return COMMON if self.span == Span.WHOLE else f"{COMMON}, gangs anywhere"


def trials() -> list[Trial]:
    """Return every pathway as it ships on its class, then its parts, and a lighter load."""
    complete = [
        Trial(f"{case.pathway.label} pathway", case, settings(case.pathway), 0.0) for case in _CASES
    ]
    memory, chain = CASES[JobClass.MEMORY_BOUND], CASES[JobClass.BANDWIDTH_LIMITED]
    pipeline = settings(Pathway.PIPELINE)
    apart, near = replace(pipeline, tuners=()), replace(pipeline, change=Change())
    return [
        *complete,
        Trial("temporal pathway", replace(memory, load=0.9), settings(Pathway.TEMPORAL)),
        Trial(
            "transfers off the devices, all first", chain, replace(apart, change=Change(chunks=1))
        ),
        Trial("transfers off the devices, overlapped", chain, apart),
        Trial("nearness alone", chain, near),
        Trial("nearness alone", chain, near, span=Span.ANY),
    ]


class PathwayRun(NamedTuple):
    """Results of a run, the rows of the class's jobs in it, and those of the others."""

    results: Results
    mine: Ints
    others: Ints


def run(case: PathwayCase, seed: int, setting: Setting, common: Knobs) -> PathwayRun:
    """Run a case under a setting."""
    workload = case.workload(seed)
    rows, mine = np.arange(len(workload)), workload.kind == case.kind
    changes = {case.pathway: setting.change}  # the other jobs do not follow their pathways
    pathways = choose(workload.kind)
    changed = prepare(workload, pathways, changes)
    transfer = np.where(mine, TRANSFER, 0.0)
    if setting.change.chunks > 0:
        changed, rows = pipelined(changed, pathways, transfer, changes)
    effects = Effects(checkpoint_s=CHECKPOINT_S, seed=seed, share_limit=setting.together)
    results = build(case.cluster, changed, setting, common, effects).replay()
    return PathwayRun(results, rows[mine], rows[~mine])


def build(
    cluster: Cluster, workload: Workload, setting: Setting, common: Knobs, effects: Effects
) -> Twin:
    """Return a twin under a pathway's knobs and tuners."""
    knobs = setting.apply(common)
    if not setting.tuners:
        return Twin(cluster, workload, knobs, effects)
    policy = Preset("pathway", "as a pathway sets it", knobs)
    tuning = Tuning(setting.tuners, policy, setting.round_s)
    return Twin(cluster, workload, knobs, effects, tuning=tuning)


def rows(progress: Callable[[str], None] | None = None) -> list[Row]:
    """Measure the rows of `flyball bench tune` about pathways."""
    table = []
    for trial in trials():
        table += judge(trial)
        if progress is not None:
            progress(f"{trial.case.kind.label}: {trial.name}")
    return table


def judge(trial: Trial, seeds: int = SEEDS) -> list[Row]:
    """Return the gain of a setting on a case, and the effect on jobs of other classes."""
    case, easy = trial.case, get_policy("easy").knobs
    common = replace(easy, span=trial.span)
    ours = [run(case, seed, trial.setting, common) for seed in range(seeds)]
    theirs = [run(case, seed, Setting(), common) for seed in range(seeds)]
    scores = [[case.score(done.results, done.mine) for done in arm] for arm in (ours, theirs)]
    table = [_row(trial, case.metric, scores, case.more_is_better, trial.bar)]
    if len(ours[0].others):
        others = [
            [_completion(done.results, done.others) for done in arm] for arm in (ours, theirs)
        ]
        table.append(_row(trial, "mean completion of the others", others, False, None))
    return table


def _row(trial: Trial, metric: str, arms: list[list[float]], more: bool, bar: float | None) -> Row:
    """Return the row of gains in percent with their paired interval."""
    sign = 1.0 if more else -1.0
    gains = [sign * 100.0 * (a - b) / b for a, b in zip(*arms, strict=True)]
    estimate = paired(gains, [0.0] * len(gains))
    case = f"{trial.case.kind.label}: {trial.name}"
    return tuning_row(case, trial.case.load, trial.baseline, metric, estimate, bar)
