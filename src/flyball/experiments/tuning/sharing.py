"""How much more work a cluster does when one-device jobs share devices as Gavel measured it.

Two ways, over several workloads each:

* *On paper*: jobs drawn from Gavel's 26 configurations are paired by the matching of `tune.share`;
  their devices then do G times the work, and a cluster of which they fill the part f does
  `1 / (1 - f + f / G)` times as much. Where the limit holds over a job's running time and not in
  every pair, G is that of the best mix of pairs and time alone (a linear program).
* *In the twin*: a saturated cluster of one type under EASY, with and without the tuner.

Pairs are predicted exactly (oracle), by the rank-one model throughout, or by the model until the
twin has seen the pair (learned), with its error on top or without; pairs that turn out to be beyond
the limit are separated. The settings of the tuner were chosen on workloads of other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.protocols import Outlook
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import US_PER_S
from flyball.core.workload import JobClass, Workload
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.experiments.workers import Workers
from flyball.physics import catalogue, measured
from flyball.physics.sharing import (
    Sharer,
    cluster_gain,
    guessed_shared_speed,
    optimistic_shared_speed,
    speed_beside,
)
from flyball.schedule.policies.registry import get_policy
from flyball.tune.matching import pair_up
from flyball.tune.share import Share
from flyball.twin.tables.pairs import Rule, pair_table
from flyball.twin.tables.rates import find_profiles
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

LIMIT = 0.2
SHARE = 0.37
"""Share of the device time that one-device jobs use."""
OFFERED = 0.335
"""The same share of what is submitted: EASY fills gaps with them, so that they get more."""
BARS = {"V100": 12.0, "P100": None, "K80": 0.0}
IN_TWIN = ("V100", "K80")
SEEDS = range(100, 112)
DRAWN = 200
"""Number of jobs in a matching on paper."""
LOAD = 1.5
NODES, PER_NODE = 8, 8
DAYS = 2.0
MEDIAN_S, SIGMA, LONGEST_S = 3600.0, 1.0, 6 * 3600.0
GANGS = (2, 4, 8)
GANG_MODELS = ("ResNet-18", "ResNet-50", "Transformer", "LM")
"""Models that were measured on several devices, without entries of 0."""
ROUND_S = 120.0
STAY_S = 3600.0


def rows(progress: Callable[[str], None] | None = None) -> list[Row]:
    """Measure the rows of `flyball bench tune` about sharing."""
    note = progress or (lambda _: None)
    table: list[Row] = []
    for device in BARS:
        table += on_paper(device)
        note(f"sharing on {device}, on paper")
    arms = (None, *range(len(ARMS)))
    tasks = [(device, seed, arm) for device in IN_TWIN for arm in arms for seed in SEEDS]
    runs: dict[tuple[str, int, int | None], SharingRun] = {}
    with Workers(_Runner()) as crew:
        for (device, seed, arm), outcome in crew.run(tasks):
            runs[device, seed, arm] = outcome
            name = "exclusive" if arm is None else ARMS[arm].name
            note(f"sharing on {device}, {name}, workload {seed}")
    for device in IN_TWIN:
        plain = [runs[device, seed, None] for seed in SEEDS]
        single = [100 * run.single for run in plain]
        table.append(gain_row(f"no sharing on {device}", LOAD, single, "one-device share", None))
        for at, arm in enumerate(ARMS):
            shared = [runs[device, seed, at] for seed in SEEDS]
            table += _in_twin(device, arm, list(zip(shared, plain, strict=True)))
    return table


def gain_row(case: str, load: float | None, values: Sequence[float], metric: str, bar: Any) -> Row:
    """Return the row of a mean over workloads."""
    baseline = "exclusive, EASY" if load else "exclusive"
    return tuning_row(case, load, baseline, metric, mean_95(values), bar)


# On paper -----------------------------------------------------------------------------


@cache
def _speeds(device: str, by_model: bool) -> Floats:
    """Return the speed of each measured configuration next to each; 0 = not together."""
    rule = guessed_shared_speed if by_model else speed_beside
    kind = catalogue.get(device)
    sharers = [Sharer(key.text, JobClass.MIXED) for key in measured.models()]
    table = np.array([[rule(kind, a, b).value for b in sharers] for a in sharers])
    return table * ((table > 0) & (table.T > 0))


def on_paper(device: str) -> list[Row]:
    """Return the rows of what matchings promise on a type of device."""
    true, guess = _speeds(device, False), _speeds(device, True)
    gains: dict[str, list[float]] = {"oracle": [], "by model": [], "over running time": []}
    for seed in SEEDS:
        drawn = np.random.default_rng([seed, 62]).integers(len(true), size=DRAWN)
        gains["oracle"].append(matched_gain(true, true, drawn))
        gains["by model"].append(matched_gain(true, guess, drawn))
        counts = np.bincount(drawn, minlength=len(true))
        gains["over running time"].append(fluid_gain(true, counts, LIMIT))
    return [
        gain_row(
            f"sharing on {device}, on paper, {name}",
            None,
            [100 * (cluster_gain(SHARE, gain) - 1) for gain in values],
            "work",
            BARS[device] if name != "by model" else None,
        )
        for name, values in gains.items()
    ]


def matched_gain(true: Floats, believed: Floats, drawn: Ints) -> float:
    """Return the work per device of jobs drawn from these profiles, paired by believed speeds.

    Pairs whose true speeds are beyond the limit are separated at once.
    """
    seen = believed[np.ix_(drawn, drawn)]
    sums = seen + seen.T
    fine = (np.minimum(seen, seen.T) >= 1 - LIMIT) & (sums > 1)
    work, devices = float(len(drawn)), float(len(drawn))
    for a, b in pair_up(np.where(fine, sums - 1, 0.0)):
        speeds = true[drawn[a], drawn[b]], true[drawn[b], drawn[a]]
        if min(speeds) >= 1 - LIMIT:
            work += sum(speeds) - 2
            devices -= 1
    return work / devices


def fluid_gain(true: Floats, counts: Ints, limit: float) -> float:
    """Return the work per device when each profile's mean speed stays within the limit.

    Least device time for the work of `counts`: y alone, x together, so that each profile gets its
    work done and spends at most `1 / (1 - limit)` of it on devices.
    """
    from scipy.optimize import linprog

    kinds = len(true)
    pairs = [(a, b) for a in range(kinds) for b in range(a, kinds) if true[a, b] + true[b, a] > 1]
    does = np.hstack([np.eye(kinds), np.zeros((kinds, len(pairs)))])
    spends = does.copy()
    for at, (a, b) in enumerate(pairs, kinds):
        for mine, other in ((a, b), (b, a)):
            does[mine, at] += true[mine, other]
            spends[mine, at] += 1.0
    solved = linprog(
        np.ones(does.shape[1]),
        A_ub=np.vstack([-does, spends - does / (1.0 - limit)]),
        b_ub=np.concatenate([-counts, np.zeros(kinds)]),
    )
    return float(counts.sum() / solved.fun)


# In the twin --------------------------------------------------------------------------


class Arm(NamedTuple):
    """Describes a setting of the tuner and of what it knows about pairs."""

    name: str
    share: Share
    first: Rule = speed_beside
    learns: bool = False
    promised: bool = True
    """Whether the bar applies; not for arms that show what a part of the tuner is worth."""


class Stubborn(NamedTuple):
    """Tunes without learning: the twin's memory of pairs is hidden from it."""

    share: Share
    guesses: Floats

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Adjust as `Share` does, by the first guesses."""
        return self.share.adjust(state._replace(pair_guesses=self.guesses), outlook, plan)


def _arms() -> tuple[Arm, ...]:
    pairs = Share(limit=LIMIT, stay_s=0.0, round_s=ROUND_S)
    life = Share(limit=LIMIT, stay_s=STAY_S, round_s=ROUND_S)
    return (
        Arm("oracle, limit in every pair", pairs),
        Arm("oracle, limit over running time", life),
        Arm("by model, limit over running time", life, guessed_shared_speed, promised=False),
        Arm(
            "learned without hope, limit over running time", life, guessed_shared_speed, True, False
        ),
        Arm("learned, limit over running time", life, optimistic_shared_speed, learns=True),
    )


ARMS = _arms()


def workload(seed: int, device: str, devices: int) -> Workload:
    """Return one-device jobs for the part `OFFERED` of device time and gangs for the rest."""
    rng = np.random.default_rng([seed, 63])
    asked_s = LOAD * devices * DAYS * 86_400
    keys = measured.models()
    several = [at for at, key in enumerate(keys) if key.model in GANG_MODELS]
    sizes: list[int] = []
    spans: list[float] = []
    models: list[int] = []
    for part, counts, choices in ((OFFERED, (1,), range(len(keys))), (1 - OFFERED, GANGS, several)):
        left_s = part * asked_s
        while left_s > 0:
            sizes.append(int(rng.choice(counts)))
            spans.append(min(MEDIAN_S * float(np.exp(SIGMA * rng.standard_normal())), LONGEST_S))
            models.append(int(rng.choice(np.array(choices))))
            left_s -= sizes[-1] * spans[-1]
    return Workload.of(
        f"sharing-{seed}",
        rng.uniform(0, DAYS * 86_400, len(sizes)),
        spans,
        sizes,
        model=models,
        models=tuple(key.text for key in keys),
        device=0,
        device_names=(device,),
    )


class SharingRun(NamedTuple):
    """Holds the results of a run in its window.

    Attributes:
        slowest: part of its speed that the slowest ended job lost by sharing and moving.
        single: share of the device time that one-device jobs used.
    """

    work: float
    energy_per_work: float
    slowest: float
    moves: float
    single: float


def replay(device: str, seed: int, arm: Arm | None) -> SharingRun:
    """Run a workload to the end of its arrivals; exclusive without an arm."""
    cluster = Cluster("sharing", (NodeGroup("n", NODES, device, PER_NODE),))
    jobs = workload(seed, device, cluster.device_count)
    easy: Any = get_policy("easy")
    if arm is None:
        return _measure(Twin(cluster, jobs, easy.knobs))
    guesses = pair_table(find_profiles(jobs), cluster, 0.0, 0, arm.first)[1]
    tuner = arm.share if arm.learns else Stubborn(arm.share, guesses)
    tuning = Tuning((tuner,), easy, ROUND_S)
    twin = Twin(cluster, jobs, easy.knobs, Effects(share_limit=2), tuning=tuning)
    twin.state.pair_guesses[:] = guesses
    return _measure(twin)


def _measure(twin: Twin) -> SharingRun:
    begin_us, end_us = twin.window_us()
    twin.run(begin_us)
    first = twin.mark(begin_us)
    twin.run(end_us)
    last = twin.mark(end_us)
    work = last.work_us - first.work_us
    runs, jobs = twin.state.runs, twin.state.jobs
    ended = (runs.first_start_us >= 0) & (runs.service_us > 60 * US_PER_S) & (jobs.devices == 1)
    ended &= runs.done_us >= jobs.work_us * (1 - 1e-6)
    rate = twin.state.rates.packed[jobs.profile]
    alone_us = jobs.work_us[ended] / rate[ended]
    slowest = float((1 - alone_us / runs.service_us[ended]).max())
    energy = (last.energy_j - first.energy_j) / work
    single = float(runs.service_us[jobs.devices == 1].sum() / runs.service_us.sum())
    return SharingRun(work, energy, slowest, float(runs.preemptions.mean()), single)


class _Runner:
    """Runs single workloads in worker processes."""

    def run(self, device: str, seed: int, arm: int | None) -> SharingRun:
        """Run one workload under an arm given by its number; None = exclusive."""
        return replay(device, seed, None if arm is None else ARMS[arm])


def _in_twin(device: str, arm: Arm, pairs: list[tuple[SharingRun, SharingRun]]) -> list[Row]:
    """Return the rows of an arm: its runs against the same workloads without sharing."""
    case = f"sharing on {device}, in the twin, {arm.name}"
    energy = [100 * (1 - a.energy_per_work / b.energy_per_work) for a, b in pairs]
    work = [100 * (a.work / b.work - 1) for a, b in pairs]
    slowest = [100 * a.slowest for a, _ in pairs]
    moves = [a.moves for a, _ in pairs]
    return [
        gain_row(case, LOAD, work, "work", BARS[device] if arm.promised else None),
        gain_row(case, LOAD, [min(work)], "work, worst workload", None),
        gain_row(case, LOAD, energy, "energy per work saved", None),
        gain_row(case, LOAD, slowest, "worst slowdown of a job", None),
        gain_row(case, LOAD, moves, "preemptions per job", None),
    ]
