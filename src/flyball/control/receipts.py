"""What a job took: time, devices, energy, money, carbon; and what to ask for next time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from flyball.control.tuned import device_milli, held_since_us
from flyball.control.tuning_receipt import NO_STEPS, Steps, tuning_receipt
from flyball.control.usage import active_s, cores_used
from flyball.core.cluster import Cluster
from flyball.core.jobs import Job, JobState
from flyball.core.units import J_PER_KWH, MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S
from flyball.core.workload import CLASS_LABELS, JobClass
from flyball.physics import catalogue
from flyball.physics.power import draw_w

HEADROOM = 1.25
"""Asked for on top of what was used."""
LEAST_MIB = 64
NO_SUM = "; no --mem: nobody saw what all its processes had together"


@dataclass(frozen=True)
class Prices:
    """What things cost here; 0 = not to be reckoned with."""

    per_device_hour: float = 0.0
    per_kwh: float = 0.0
    currency: str = "USD"
    g_co2_per_kwh: float = 0.0


class Peak(NamedTuple):
    """The most memory that all processes of a job had at one time, as a limit counts it.

    Attributes:
        mib: None = nobody knows.
        by: who says so: `process` (there was but one), `group` (the kernel's, with cached files),
            `looks` (the supervisor's) or `samples` (the agent's).
    """

    mib: float | None = None
    by: str = ""


UNKNOWN = Peak()


def peak_of(job: Job, sampled_mib: float | None) -> Peak:
    """From its end record, else from the agent; never the largest of several processes."""
    if "peak_mib" in job.values:
        return Peak(float(job.values["peak_mib"]), str(job.values["peak_by"]))
    if sampled_mib is None:
        return UNKNOWN
    return Peak(max(sampled_mib, float(job.values.get("max_rss_mib", 0.0))), "samples")


def receipt(
    job: Job,
    cluster: Cluster,
    prices: Prices,
    now_us: int,
    steps: Steps = NO_STEPS,
    sampled_mib: float | None = None,
) -> dict[str, Any]:
    """The receipt of a job, final or not.

    Args:
        steps: times (seconds since 1970) and numbers of the steps that it reported.
        sampled_mib: the most memory that the agent saw all its processes have.
    """
    over_us = job.end_us if job.state.final else now_us
    began_us = job.first_start_us
    run_s = active_s(job, now_us)
    wait_s = max(0.0, ((began_us or over_us) - job.submit_us) / US_PER_S)
    device_s = (job.service_us + _running_us(job, now_us)) / US_PER_S
    energy_j, source = _energy(job, cluster, device_s)
    kwh = energy_j / J_PER_KWH
    device_hours = device_s / S_PER_HOUR
    peak = peak_of(job, sampled_mib)
    return {
        "id": job.id,
        "state": job.state.value,
        "run_s": run_s,
        "wait_s": wait_s,
        "attempts": job.attempt,
        "preemptions": job.preemptions,
        "device_hours": device_hours,
        "cpu_s": job.values.get("cpu_s"),
        "max_rss_mib": job.values.get("max_rss_mib"),
        "peak_mib": peak.mib,
        "peak_by": peak.by,
        "energy_j": energy_j,
        "energy_source": source,
        "cost": device_hours * prices.per_device_hour + kwh * prices.per_kwh,
        "currency": prices.currency,
        "carbon_g": kwh * prices.g_co2_per_kwh,
        "suggestion": suggestion(job, run_s, peak),
        "tuning": tuning_receipt(job, over_us / US_PER_S, steps),
    }


def _running_us(job: Job, now_us: int) -> float:
    """Device time of the attempt that runs."""
    held_us = max(0, now_us - held_since_us(job))
    return held_us * device_milli(job) / MILLI_PER_DEVICE


def _energy(job: Job, cluster: Cluster, device_s: float) -> tuple[float, str]:
    """Joules and whether they were measured."""
    if "energy_j" in job.values:
        return float(job.values["energy_j"]), "measured"
    label = job.spec.kind or JobClass.COMPUTE_INTENSIVE.label
    kind = JobClass(CLASS_LABELS.index(label))
    return device_s * draw_w(catalogue.get(cluster.groups[0].device), kind), "modelled"


def suggestion(job: Job, run_s: float, peak: Peak) -> dict[str, Any]:
    """A request that fits what the job used, with some room."""
    if job.state != JobState.COMPLETED or not run_s:
        return {"text": "nothing to suggest: the job did not complete"}
    used: dict[str, Any] = {}
    parts = []
    cores = cores_used(job, run_s)
    if cores is not None:
        used["cpus"] = max(1, min(job.spec.cpus, math.ceil(cores)))
        if used["cpus"] < job.spec.cpus:
            parts.append(f"-c {used['cpus']} (used {cores:.1f} of {job.spec.cpus} cores)")
    if peak.mib is not None:
        used["memory_mib"] = _memory_mib(job, peak.mib)
        parts.append(f"--mem {used['memory_mib']}M")
    used["limit_s"] = max(60, math.ceil(run_s * HEADROOM / 60) * 60)
    parts.append(f"-t {math.ceil(used['limit_s'] / 60)}")
    why_not = NO_SUM if peak.mib is None and "max_rss_mib" in job.values else ""
    return {**used, "text": "next time: " + " ".join(parts) + why_not}


def _memory_mib(job: Job, peak_mib: float) -> int:
    """A limit it completed within is enough, though the files cached for it filled it."""
    wanted = max(LEAST_MIB, math.ceil(peak_mib * HEADROOM))
    return min(wanted, job.spec.memory_mib or wanted)
