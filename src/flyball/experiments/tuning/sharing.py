"""How much more work a cluster does when one-device jobs share devices as Gavel measured it.

Two ways, over several workloads each:

* *On paper*: jobs drawn from Gavel's 26 configurations are paired by the matching of `tune.share`;
  their devices then do G times the work, and a cluster of which they fill the part f does
  `1 / (1 - f + f / G)` times as much. Where the limit holds over a job's running time and not in
  every pair, G is that of the best mix of pairs and time alone (a linear program).
* *In the twin*: a saturated cluster of one type under EASY, with and without the tuner.

Pairs are predicted exactly (oracle), by the rank-one model for good, or by the model until the twin
has seen the pair (learned), with its error on top or without; pairs that turn out beyond the limit
are parted. The settings of the
tuner were chosen on workloads of other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.metrics import student_95
from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import US_PER_S
from flyball.core.workload import JobClass, Workload
from flyball.experiments.workers import Workers
from flyball.physics import catalogue, measured
from flyball.physics.sharing import Sharer, cluster_gain, guessed_beside, hoped_beside, speed_beside
from flyball.schedule.policies.registry import get_policy
from flyball.tune.matching import pair_up
from flyball.tune.share import Share
from flyball.twin.pairs import Rule, pair_table
from flyball.twin.rates import find_profiles
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

LIMIT = 0.2
SHARE = 0.37
"""Device time of one-device jobs, as a part of all."""
OFFERED = 0.335
"""The same as a part of what is submitted: EASY fills gaps with them, so that they get more."""
BARS = {"V100": 12.0, "P100": None, "K80": 0.0}
IN_TWIN = ("V100", "K80")
SEEDS = range(100, 112)
DRAWN = 200
"""Jobs of a matching on paper."""
LOAD = 1.5
NODES, PER_NODE = 8, 8
DAYS = 2.0
MEDIAN_S, SIGMA, LONGEST_S = 3600.0, 1.0, 6 * 3600.0
GANGS = (2, 4, 8)
GANG_MODELS = ("ResNet-18", "ResNet-50", "Transformer", "LM")
"""Measured on several devices without entries of 0."""
ROUND_S = 120.0
STAY_S = 3600.0


def rows(progress: Callable[[str], None] | None = None) -> list[dict[str, Any]]:
    """The rows of `flyball bench tune` about sharing."""
    note = progress or (lambda _: None)
    made = []
    for device in BARS:
        made += on_paper(device)
        note(f"sharing on {device}, on paper")
    arms = (None, *range(len(ARMS)))
    tasks = [(device, seed, arm) for device in IN_TWIN for arm in arms for seed in SEEDS]
    found: dict[tuple[str, int, int | None], SharingRun] = {}
    with Workers(_Runner()) as crew:
        for (device, seed, arm), outcome in crew.run(tasks):
            found[device, seed, arm] = outcome
            name = "exclusive" if arm is None else ARMS[arm].name
            note(f"sharing on {device}, {name}, workload {seed}")
    for device in IN_TWIN:
        plain = [found[device, seed, None] for seed in SEEDS]
        single = [100 * each.single for each in plain]
        made.append(_row(f"no sharing on {device}", LOAD, single, "one-device share", None))
        for at, arm in enumerate(ARMS):
            shared = [found[device, seed, at] for seed in SEEDS]
            made += _in_twin(device, arm, list(zip(shared, plain, strict=True)))
    return made


def _row(case: str, load: float | None, values: Sequence[float], metric: str, bar: Any) -> Any:
    """A row: the mean over workloads and its 95 % interval."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    half = student_95(len(values) - 1) * spread / np.sqrt(len(values)) if len(values) > 1 else 0.0
    mean = float(np.mean(values))
    return {
        "case": case,
        "load": load,
        "baseline": "exclusive, EASY" if load else "exclusive",
        "metric": metric,
        "value": mean,
        "low": mean - float(half),
        "high": mean + float(half),
        "bar": bar,
    }


# On paper -----------------------------------------------------------------------------


@cache
def _speeds(device: str, by_model: bool) -> Floats:
    """Speed of each measured configuration beside each; 0 = not together."""
    rule = guessed_beside if by_model else speed_beside
    kind = catalogue.get(device)
    sharers = [Sharer(key.text, JobClass.MIXED) for key in measured.models()]
    table = np.array([[rule(kind, a, b).value for b in sharers] for a in sharers])
    return table * ((table > 0) & (table.T > 0))


def on_paper(device: str) -> list[dict[str, Any]]:
    """What matchings promise on a type of device."""
    true, guess = _speeds(device, False), _speeds(device, True)
    gains: dict[str, list[float]] = {"oracle": [], "by model": [], "over running time": []}
    for seed in SEEDS:
        drawn = np.random.default_rng([seed, 62]).integers(len(true), size=DRAWN)
        gains["oracle"].append(matched_gain(true, true, drawn))
        gains["by model"].append(matched_gain(true, guess, drawn))
        counts = np.bincount(drawn, minlength=len(true))
        gains["over running time"].append(fluid_gain(true, counts, LIMIT))
    return [
        _row(
            f"sharing on {device}, on paper, {name}",
            None,
            [100 * (cluster_gain(SHARE, each) - 1) for each in values],
            "work",
            BARS[device] if name != "by model" else None,
        )
        for name, values in gains.items()
    ]


def matched_gain(true: Floats, known: Floats, drawn: Ints) -> float:
    """Work a device of jobs drawn from these profiles, paired by what is known of them.

    Pairs beyond the limit in truth are parted at once.
    """
    seen = known[np.ix_(drawn, drawn)]
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
    """Work a device when each profile's mean speed stays within the limit.

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
    """A setting of the tuner and what it knows."""

    name: str
    share: Share
    first: Rule = speed_beside
    learns: bool = False
    promised: bool = True
    """Whether the bar is meant for it: not for those that show what a part of it is worth."""


class Stubborn(NamedTuple):
    """The tuner as it would be if it never learned: the twin's memory of pairs is kept from it."""

    share: Share
    guesses: Floats

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """As `Share` does, by the first guesses."""
        return self.share.adjust(state._replace(pair_guesses=self.guesses), forecast, plan)


def _arms() -> tuple[Arm, ...]:
    pairs = Share(limit=LIMIT, stay_s=0.0, round_s=ROUND_S)
    life = Share(limit=LIMIT, stay_s=STAY_S, round_s=ROUND_S)
    return (
        Arm("oracle, limit in every pair", pairs),
        Arm("oracle, limit over running time", life),
        Arm("by model, limit over running time", life, guessed_beside, promised=False),
        Arm("learned without hope, limit over running time", life, guessed_beside, True, False),
        Arm("learned, limit over running time", life, hoped_beside, learns=True),
    )


ARMS = _arms()


def workload(seed: int, device: str, devices: int) -> Workload:
    """One-device jobs for the part `OFFERED` of device time and gangs for the rest."""
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
    """What a run came to in its window.

    Attributes:
        slowest: what the job that ended slowest lost of its speed by sharing and moving.
        single: device time of one-device jobs as a part of all.
    """

    work: float
    energy_per_work: float
    slowest: float
    moves: float
    single: float


def replay(device: str, seed: int, arm: Arm | None) -> SharingRun:
    """Run a workload to the end of its arrivals, exclusive if there is no arm."""
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
    """What a worker process runs."""

    def run(self, device: str, seed: int, arm: int | None) -> SharingRun:
        """One workload under an arm by its number; None = exclusive."""
        return replay(device, seed, None if arm is None else ARMS[arm])


def _in_twin(
    device: str, arm: Arm, pairs: list[tuple[SharingRun, SharingRun]]
) -> list[dict[str, Any]]:
    """The rows of an arm: its runs beside those of the same workloads without sharing."""
    case = f"sharing on {device}, in the twin, {arm.name}"
    energy = [100 * (1 - a.energy_per_work / b.energy_per_work) for a, b in pairs]
    work = [100 * (a.work / b.work - 1) for a, b in pairs]
    slowest = [100 * a.slowest for a, _ in pairs]
    moves = [a.moves for a, _ in pairs]
    return [
        _row(case, LOAD, work, "work", BARS[device] if arm.promised else None),
        _row(case, LOAD, [min(work)], "work, worst workload", None),
        _row(case, LOAD, energy, "energy per work saved", None),
        _row(case, LOAD, slowest, "worst slowdown of a job", None),
        _row(case, LOAD, moves, "preemptions per job", None),
    ]
