"""What a job took: time, devices, energy, money, carbon; and what to ask for next time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flyball.control.tuned import device_milli, held_since_us
from flyball.control.tuning_receipt import NO_STEPS, Steps, tuning_receipt
from flyball.core.cluster import Cluster
from flyball.core.jobs import Job, JobState
from flyball.core.units import J_PER_KWH, MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S
from flyball.core.workload import CLASS_LABELS, JobClass
from flyball.physics import catalogue
from flyball.physics.power import draw_w

HEADROOM = 1.25
"""Asked for on top of what was used."""
LEAST_MIB = 64


@dataclass(frozen=True)
class Prices:
    """What things cost here; 0 = not to be reckoned with."""

    per_device_hour: float = 0.0
    per_kwh: float = 0.0
    currency: str = "USD"
    g_co2_per_kwh: float = 0.0


def receipt(
    job: Job, cluster: Cluster, prices: Prices, now_us: int, steps: Steps = NO_STEPS
) -> dict[str, Any]:
    """The receipt of a job, final or not.

    Args:
        steps: times (seconds since 1970) and numbers of the steps that it reported.
    """
    over_us = job.end_us if job.state.final else now_us
    began_us = job.first_start_us
    run_s = max(0.0, (over_us - began_us) / US_PER_S) if began_us else 0.0
    wait_s = max(0.0, ((began_us or over_us) - job.submit_us) / US_PER_S)
    device_s = (job.service_us + _running_us(job, now_us)) / US_PER_S
    energy_j, source = _energy(job, cluster, device_s)
    kwh = energy_j / J_PER_KWH
    device_hours = device_s / S_PER_HOUR
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
        "energy_j": energy_j,
        "energy_source": source,
        "cost": device_hours * prices.per_device_hour + kwh * prices.per_kwh,
        "currency": prices.currency,
        "carbon_g": kwh * prices.g_co2_per_kwh,
        "suggestion": suggestion(job, run_s),
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


def suggestion(job: Job, run_s: float) -> dict[str, Any]:
    """A request that fits what the job used, with some room."""
    if job.state != JobState.COMPLETED or not run_s:
        return {"text": "nothing to suggest: the job did not complete"}
    used: dict[str, Any] = {}
    cpu_s, rss = job.values.get("cpu_s"), job.values.get("max_rss_mib")
    if cpu_s is not None:
        used["cpus"] = max(1, min(job.spec.cpus, math.ceil(cpu_s / run_s)))
    if rss is not None:
        used["memory_mib"] = max(LEAST_MIB, math.ceil(rss * HEADROOM))
    used["limit_s"] = max(60, math.ceil(run_s * HEADROOM / 60) * 60)
    parts = []
    if cpu_s is not None and used["cpus"] < job.spec.cpus:
        parts.append(f"-c {used['cpus']} (used {cpu_s / run_s:.1f} of {job.spec.cpus} cores)")
    if "memory_mib" in used:
        parts.append(f"--mem {used['memory_mib']}M")
    parts.append(f"-t {math.ceil(used['limit_s'] / 60)}")
    return {**used, "text": "next time: " + " ".join(parts)}
