"""Completion time on the ground of Sia and Pollux: theirs, plain policies, and the tuners.

Every workload is run once by each arm and compared job by job with what the peer published. A
peer's policy that needs none of its code (`gavel`, `tiresias`) is run by its rules first: if the
twin gives its published mean, figures on this ground can be compared with those of its simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from flyball.core.intervals import paired
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.experiments.kept_runs import run_kept
from flyball.experiments.peers.arms import ARMS, ELASTIC, Measured, run
from flyball.experiments.peers.ground import (
    DATA,
    ENDED,
    PEERS,
    check_peer,
    ground,
    spread_of,
    theirs_s,
    workloads_of,
)
from flyball.experiments.run_file import RunFile, key_of, source_version
from flyball.experiments.tuning.rows import Row, tuning_row

CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "tune/**/*.py"),
    *("experiments/peers/*.py", "data/*.toml", "data/*.csv", "data/*.json", "data/clusters.yaml"),
)
"""Patterns of the sources that a run depends on."""
WITHIN_PCT = 10.0
"""Largest error of the mean completion by a peer's own rules."""
Task = tuple[str, str, int, str, str, int, float]
"""Peer, family, workload, arm, durations, seed, error of believed speeds."""


@dataclass(frozen=True)
class PeerPlan:
    """Says what to run.

    Attributes:
        peers: names in `PEERS`.
        families: none = those with published figures.
        numbers: workloads of each family; none = all there are.
        durations: what policies know of run times, one of `ground.DURATIONS`.
        seeds: draws of all errors.
        speed_error: spread of the errors of the speeds that tuners are given.
        arms: policies and `elastic`.
    """

    peers: tuple[str, ...] = tuple(PEERS)
    families: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    durations: str = ENDED
    seeds: int = 1
    speed_error: float = 0.0
    arms: tuple[str, ...] = ARMS

    def check(self) -> None:
        """Refuse what cannot be run, before the first run.

        Raises:
            FlyballError: an unknown name, no workload left, or data that is not here.
        """
        spread_of(self.durations)
        for path in DATA:
            shared_data(*path)
        for peer in self.peers:
            check_peer(peer)
            workloads_of(peer, self.families, self.numbers)

    def tasks(self) -> list[Task]:
        """Return every run."""
        return [
            (peer, family, number, arm, self.durations, seed, self.speed_error)
            for peer in self.peers
            for family, number in workloads_of(peer, self.families, self.numbers)
            for arm in self.arms_on(peer, family, number)
            for seed in range(self.seeds)
        ]

    def arms_on(self, peer: str, family: str, number: int) -> tuple[str, ...]:
        """Return what runs on a workload: the peer's own rules only where it published figures."""
        published = number in PEERS[peer].judged.get(family, ())
        return (PEERS[peer].validated, *self.arms) if published else self.arms


class Runner:
    """Runs tasks in worker processes."""

    def run(
        self,
        peer: str,
        family: str,
        number: int,
        arm: str,
        durations: str,
        seed: int,
        speed_error: float,
    ) -> Measured:
        """Run one arm on one workload."""
        return run(ground(peer, family, number, durations, seed, speed_error), arm)


def measure(
    plan: PeerPlan, runs: RunFile, done: Callable[[str], None], workers: int | None = None
) -> dict[Task, Measured]:
    """Return every run of the plan, from the file or run now."""
    keys = {task: key_of("peers", source_version(CODE), task) for task in plan.tasks()}
    return run_kept(Runner(), keys, runs, lambda task: done(label(task)), workers)


def label(task: Task) -> str:
    """Return the task for people."""
    peer, family, number, arm, _, seed, _ = task
    return f"{arm} on {family}/{number} by the costs of {peer}, seed {seed}"


# Rows ------------------------------------------------------------------------------------


def rows_of(plan: PeerPlan, results: dict[Task, Measured]) -> list[Row]:
    """Return a row for each workload and arm, then one for each arm over all workloads.

    Changes are against the peer's policy; against `srtf` where it published nothing.
    """
    out: list[Row] = []
    for peer in plan.peers:
        by_arm: dict[str, list[Row]] = {}
        for family, number in workloads_of(peer, plan.families, plan.numbers):
            for arm in plan.arms_on(peer, family, number):
                row = _row(plan, results, peer, family, number, arm)
                by_arm.setdefault(arm, []).append(row)
                out.append(row)
        out += [_mean_row(peer, arm, rows) for arm, rows in by_arm.items()]
    return out


def _row(
    plan: PeerPlan, results: dict[Task, Measured], peer: str, family: str, number: int, arm: str
) -> Row:
    """Return the row of one arm on one workload, compared job by job."""

    def measured(name: str) -> list[Measured]:
        head, error = (peer, family, number, name, plan.durations), plan.speed_error
        return [results[*head, seed, error] for seed in range(plan.seeds)]

    mine = _mean_by_job(measured(arm))
    baseline = PEERS[peer].validated if arm == PEERS[peer].validated else PEERS[peer].policy
    jobs = ground(peer, family, number, plan.durations).jobs
    theirs = theirs_s(peer, family, number, baseline, jobs)
    if theirs is None:
        baseline = "srtf" if "srtf" in plan.arms else plan.arms[0]
        theirs = _mean_by_job(measured(baseline))
    change, low, high = paired(mine.tolist(), theirs.tolist())
    to_pct = 100.0 / float(theirs.mean())
    row = _figure(peer, f"{family}/{number}", arm, baseline, (change, low, high), to_pct)
    more = {
        name: fmean(run[name] for run in measured(arm))
        for name in ("wait_s", "fairness_p99", "mean_restarts", "most_restarts")
    }
    p99_s = {
        "p99_s": float(np.percentile(mine, 99)),
        "theirs_p99_s": float(np.percentile(theirs, 99)),
    }
    means = {"completion_s": float(mine.mean()), "theirs_s": float(theirs.mean())}
    return {**row, **means, **p99_s, **more, "jobs": len(mine), "durations": plan.durations}


def _mean_by_job(runs: list[Measured]) -> Floats:
    """Return the completion time of each job, as a mean over the seeds."""
    by_job: Floats = np.mean([run["completion_s"] for run in runs], axis=0)
    return by_job


def _mean_row(peer: str, arm: str, rows: list[Row]) -> Row:
    """Return the row of an arm over all workloads: means of means, paired by workload."""
    mine, theirs = ([row[name] for row in rows] for name in ("completion_s", "theirs_s"))
    baselines = " or ".join(dict.fromkeys(row["baseline"] for row in rows))
    row = _figure(peer, "all", arm, baselines, paired(mine, theirs), 100.0 / fmean(theirs))
    means = {"completion_s": fmean(mine), "theirs_s": fmean(theirs)}
    return {**row, **means, "workloads": len(rows)}


def _figure(
    peer: str,
    workload: str,
    arm: str,
    baseline: str,
    change_s: tuple[float, float, float],
    to_pct: float,
) -> Row:
    """Return the row of a change in percent; by a peer's own rules, of its size."""
    value, low, high = (figure * to_pct for figure in change_s)
    metric, bar = f"completion_pct {arm}", None
    if arm == PEERS[peer].validated:
        metric, bar = f"completion_off_pct {arm}", WITHIN_PCT
        value = abs(value)
    elif arm == ELASTIC and workload == "all" and baseline == PEERS[peer].policy:
        bar = 0.0
    row = tuning_row(f"{peer}: {workload}", None, baseline, metric, (value, low, high), bar)
    return {**row, "policy": arm, "change_pct": change_s[0] * to_pct}


def rows(
    progress: Callable[[str], None], workers: int | None = None, runs: RunFile | None = None
) -> list[Row]:
    """Run every arm on every workload with published figures, on both grounds.

    Raises:
        DataAbsent: the workloads or the figures are not there.
    """
    assert runs is not None, "the part keeps its runs"
    plan = PeerPlan()
    plan.check()
    return rows_of(plan, measure(plan, runs, progress, workers))
