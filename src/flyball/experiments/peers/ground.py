"""The ground of Sia and of Pollux: cluster, jobs, costs and the completion times they published."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.costs import Costs
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.experiments.peers.profiles import FILES, PeerTimes
from flyball.experiments.tuning.families import FAMILIES, read_workload
from flyball.physics import catalogue
from flyball.twin.ended import NOTHING_KNOWN_US, FromEnded
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces.sia import BASE
from flyball.twin.tables.costs import load_costs
from flyball.twin.tuning import EstimateSource

ENDED, EPOCHS, NOISY = "ended", "epochs", "noisy"
DURATIONS = (ENDED, EPOCHS, NOISY)
"""What policies know of run times: those of jobs that ended; epochs and goodput, which is all; or
that with a log-normal error of spread SIGMA, as in `noisy:1`."""


@dataclass(frozen=True)
class Peer:
    """Describes a project that is compared with on its own ground.

    Attributes:
        file: of completion times, in the shared data; a family is named where it has several.
        policy: theirs that is to be beaten.
        validated: a policy of theirs that needs none of their code, and is run by its rules here.
        judged: families and workloads with published figures. Nothing may be tuned on them.
    """

    file: str
    policy: str
    validated: str
    judged: Mapping[str, tuple[int, ...]]


PEERS = {
    "sia": Peer("sia_jct.csv.gz", "sia", "gavel", {"philly": (1, 2, 3, 4), "saturn": (1,)}),
    "pollux": Peer("pollux_jct.csv.gz", "pollux", "tiresias", {"pollux": (1, 2, 3, 4)}),
}
DATA = (
    *FILES,
    ("sia_pollux", "workloads.csv.gz"),
    ("pollux", "workloads.csv.gz"),
    *(("peer_runs", peer.file) for peer in PEERS.values()),
)


@dataclass(frozen=True)
class Ground:
    """Holds one workload on a peer's ground.

    Attributes:
        jobs: with gang and batch as the user set them.
        elastic: the same jobs, free in size and batch as far as the peer's simulator lets them be.
        effects: the peer's costs and run times.
        estimates: what predicts run times in each round; None = the jobs state them.
    """

    cluster: Cluster
    jobs: Workload
    elastic: Workload
    effects: Effects
    estimates: EstimateSource | None


def check_peer(name: str) -> Peer:
    """Return a peer.

    Raises:
        UnknownName: there is none of this name.
    """
    if name not in PEERS:
        raise UnknownName("costs", name, PEERS)
    return PEERS[name]


@cache
def peer_costs(name: str) -> Costs:
    """Return a peer's costs with the run times of its profiles."""
    return replace(load_costs(name), run_times=PeerTimes(pollux=name == "pollux"))


def ground(
    peer: str,
    family: str,
    number: int,
    durations: str = ENDED,
    seed: int = 0,
    speed_error: float = 0.0,
) -> Ground:
    """Return a workload on a peer's ground.

    Args:
        peer: a name in `PEERS`.
        family, number: of the workload, as in `tuning.families`.
        durations: what policies know of run times, one of `DURATIONS`.
        seed: of all errors.
        speed_error: spread of the log-normal error of the speeds that tuners are given.
    """
    sigma = spread_of(durations)
    costs = peer_costs(peer)
    times: PeerTimes = costs.run_times  # type: ignore[assignment]
    cluster = load_cluster(costs.cluster)
    jobs = _fitting(_timed(read_workload(family, number), times), cluster)
    most = np.array([times.most_devices(jobs.models[model]) for model in jobs.model])
    effects = Effects(
        costs=costs,
        adaptive_batch=True,
        estimate_sigma=sigma,
        speed_error=speed_error,
        seed=seed,
    )
    estimates = None
    if durations == ENDED:
        jobs = replace(jobs, estimate_us=np.full(len(jobs), NOTHING_KNOWN_US))
        estimates = FromEnded.of(jobs)
    free = np.where(most > 1, np.maximum(most, jobs.devices), 0)
    elastic = replace(jobs, least=np.ones(len(jobs), np.int64), most=free)
    return Ground(cluster, jobs, elastic, effects, estimates)


def spread_of(durations: str) -> float:
    """Return the spread of errors that a choice of durations stands for.

    Raises:
        BadInput: it is none of `DURATIONS`.
    """
    kind, colon, text = durations.partition(":")
    try:
        sigma = float(text) if colon else 0.0
    except ValueError:
        sigma = -1.0
    if kind not in DURATIONS or (kind == NOISY) != bool(colon) or not 0 <= sigma <= 10:
        raise BadInput(f"--durations {durations!r}", "use ended, epochs or e.g. noisy:1")
    return sigma


def _timed(jobs: Workload, times: PeerTimes) -> Workload:
    """Return the jobs with the run times of the profiles, without those that were not profiled."""
    across = jobs.devices > catalogue.get(BASE).node_devices
    run_s = np.array(
        [
            times.rigid_s(jobs.models[model], BASE, int(devices), bool(wide)) or 0.0
            for model, devices, wide in zip(jobs.model, jobs.devices, across, strict=True)
        ]
    )
    kept = np.flatnonzero(run_s > 0)
    timed = jobs.take(kept)
    return replace(timed, duration_us=np.rint(run_s[kept] * US_PER_S))


def _fitting(jobs: Workload, cluster: Cluster) -> Workload:
    largest = max(group.count * group.devices for group in cluster.groups)
    return jobs.take(np.flatnonzero(jobs.devices <= largest))


@cache
def completions(peer: str) -> dict[tuple[str, int, str], dict[str, float]]:
    """Return the published completion times in seconds, by family, workload and policy, by job."""
    out: dict[tuple[str, int, str], dict[str, float]] = {}
    path = shared_data("peer_runs", PEERS[peer].file)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row.get("family", peer), int(row["workload"]), row["policy"])
            out.setdefault(key, {})[row["name"]] = float(row["jct_s"])
    return out


def theirs_s(peer: str, family: str, number: int, policy: str, jobs: Workload) -> Floats | None:
    """Return the completion time of each job by a policy of theirs; None = not published."""
    by_job = completions(peer).get((family, number, policy))
    return None if by_job is None else np.array([by_job[str(job)] for job in jobs.ids])


def workloads_of(
    peer: str, families: tuple[str, ...] = (), numbers: tuple[int, ...] = ()
) -> list[tuple[str, int]]:
    """Return the workloads to run: those judged, or all of the families named.

    Raises:
        UnknownName: no such family.
        BadInput: none is left.
    """
    judged = check_peer(peer).judged
    for name in families:
        if name not in FAMILIES:
            raise UnknownName("family", name, FAMILIES)
    chosen = [
        (family, number)
        for family in families or judged
        for number in judged.get(family, range(1, FAMILIES[family].count + 1))
        if not numbers or number in numbers
    ]
    if not chosen:
        raise BadInput(
            f"no workload of {', '.join(families or judged)} has one of the numbers",
            "leave --workloads out, or name others",
        )
    return chosen
