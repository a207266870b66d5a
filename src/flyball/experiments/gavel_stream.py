"""`max-min` on a long stream of gangs: does the policy fail its first jobs, or is it overloaded?

Jobs of Gavel's kinds (gangs of 1, 2, 4 and 8, run times from half an hour to a week) arrive at
random at a given load, and the stream is cut off after more and more jobs. Its first 500 jobs are
always the same, so if they end later in a longer stream, later jobs took their devices. A fluid
model, in which every active job has exactly its equal part of every type at every instant, tells
how much of this is the rule of equal parts itself, without rounds, places or restarts. (While
devices are idle the policy does better than the model: it fills the fastest pool first.)

*Load* is that of equal parts on a full cluster: the device time of a job at its mean speed over
all devices, by device and second. Above 1 the number of active jobs grows as long as jobs arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flyball.app import build_twin, policy_settings
from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.results import Floats
from flyball.core.units import S_PER_HOUR, S_PER_MIN, US_PER_S
from flyball.core.workload import Workload
from flyball.physics import measured
from flyball.physics.catalogue import REFERENCE
from flyball.schedule.policies.max_min import water_level
from flyball.twin.inputs.cluster_file import load_cluster

CLUSTER = "gavel-mixed"
POLICY = "max-min"
FIRST = 500
"""Jobs whose mean completion is compared."""
LENGTHS = (500, 1000, 2000)
LOADS = (0.7, 1.0, 1.5, 2.5)
GANGS, GANG_SHARES = (1, 2, 4, 8), (0.7, 0.1, 0.15, 0.05)
SHORT_SHARE = 0.8
SHORT_POWERS, LONG_POWERS = (1.5, 3.0), (3.0, 4.0)
"""A run time is 10 to a power drawn evenly from one of these ranges, in minutes."""
FREE = Effects(restart_s=(0.0, 0.0, 0.0))
RUNS: tuple[tuple[str, list[str], Effects], ...] = (
    ("free", [], FREE),
    ("restarts", [], Effects()),
    ("owed", ["turns=owed"], FREE),
)
"""Name, settings and effects of the runs: free restarts, restarts as by default, turns by debt."""


def stream(load: float, jobs: int, seed: int = 0) -> tuple[Workload, Floats]:
    """Return the first jobs of a stream and their mean speeds over all devices of the cluster."""
    rng, most = np.random.default_rng(seed), max(LENGTHS)
    devices = rng.choice(GANGS, most, p=GANG_SHARES)
    names, speeds = _kinds(devices, rng)
    short = rng.random(most) < SHORT_SHARE
    powers = np.where(short, rng.uniform(*SHORT_POWERS, most), rng.uniform(*LONG_POWERS, most))
    run_s = S_PER_MIN * 10.0**powers
    per_job_s = float(np.mean(devices * run_s / speeds))
    gap_s = per_job_s / (load * load_cluster(CLUSTER).device_count)
    submit_s = np.cumsum(rng.exponential(gap_s, most)) - gap_s
    models = sorted(set(names))
    workload = Workload.of(
        f"stream at load {load:g}",
        np.maximum(0.0, submit_s[:jobs]),
        run_s[:jobs],
        devices[:jobs],
        model=np.array([models.index(name) for name in names[:jobs]]),
        models=tuple(models),
        device=0,
        device_names=(REFERENCE,),
    )
    return workload, speeds[:jobs]


def _kinds(devices: Any, rng: np.random.Generator) -> tuple[list[str], Floats]:
    """Draw a model for each gang, of those that run on every type, and return its mean speed."""
    cluster = load_cluster(CLUSTER)
    able: dict[int, list[tuple[str, float]]] = {}
    for gang in GANGS:
        able[gang] = []
        for key in measured.models():
            steps = [measured.steps_per_s(t, key, gang) for t in ("v100", "p100", "k80")]
            if all(steps):
                relative = [(value or 0.0) / (steps[0] or 1.0) for value in steps]
                able[gang].append((key.text, _mean_speed(cluster, relative)))
    drawn = [able[int(gang)][int(rng.integers(len(able[int(gang)])))] for gang in devices]
    return [name for name, _ in drawn], np.array([value for _, value in drawn])


def _mean_speed(cluster: Cluster, relative: list[float]) -> float:
    counts = [group.count * group.devices for group in cluster.groups]
    return float(np.dot(counts, relative) / sum(counts))


def fluid_s(workload: Workload, speeds: Floats, devices: int) -> Floats:
    """Return completions if every active job has its equal part of the devices at every instant."""
    submit_s = workload.submit_us / US_PER_S
    left_s, asks = workload.duration_us / US_PER_S / speeds, workload.devices.astype(np.float64)
    end_s = np.full(len(submit_s), np.nan)
    active, now, nxt = np.zeros(len(submit_s), bool), 0.0, 0
    while nxt < len(submit_s) or active.any():
        ids = np.flatnonzero(active)
        rates = np.zeros(0)
        ends_s = np.inf
        if len(ids):
            rates = np.minimum(asks[ids], water_level(asks[ids], devices)) / asks[ids]
            ends_s = now + float((left_s[ids] / rates).min())
        arrives_s = float(submit_s[nxt]) if nxt < len(submit_s) else np.inf
        then = min(ends_s, arrives_s)
        left_s[ids] -= (then - now) * rates
        if arrives_s <= ends_s:
            active[nxt] = True
            nxt += 1
        else:
            over = ids[left_s[ids] <= 1e-6]
            active[over], end_s[over] = False, then
        now = then
    done_s: Floats = end_s - submit_s
    return done_s


def run(loads: tuple[float, ...], step: Callable[[str], None]) -> dict[str, Any]:
    """Measure the first jobs' completion by load and length of the stream."""
    rows = []
    for load in loads:
        for length in LENGTHS:
            rows.append(_row(load, length))
            step(f"load {load:g}")
    return {"policy": POLICY, "first": FIRST, "rows": rows}


def _row(load: float, length: int) -> dict[str, Any]:
    workload, speeds = stream(load, length)
    cluster = load_cluster(CLUSTER)
    row: dict[str, Any] = {"load": load, "jobs": length}
    for name, settings, effects in RUNS:
        (policy,) = policy_settings(POLICY, settings)
        results = build_twin(cluster, workload, policy, effects).replay()
        completion_s = (results.end_us - results.submit_us) / US_PER_S
        row |= _means(name, workload, completion_s)
        if name == "free":
            row["active"] = int((results.end_us > workload.submit_us[-1]).sum())
    return row | _means("fluid", workload, fluid_s(workload, speeds, cluster.device_count))


def _means(name: str, workload: Workload, completion_s: Floats) -> dict[str, float]:
    """Return the mean completion of the first jobs in hours, and that of the widest of them."""
    first_h = completion_s[:FIRST] / S_PER_HOUR
    widest_h = first_h[workload.devices[:FIRST] == max(GANGS)]
    return {f"{name}_h": float(first_h.mean()), f"{name}_widest_h": float(widest_h.mean())}
