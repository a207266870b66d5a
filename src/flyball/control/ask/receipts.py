"""Receipts of jobs: time, devices, energy, cost, carbon; and what to ask for next time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from flyball.control.ask.bills import Piece, Prices, billed
from flyball.control.ask.energy import NOT_ASKED, Energy
from flyball.control.ask.next_request import after_out_of_memory, after_timeout
from flyball.control.ask.tuning_receipt import NO_STEPS, tuning_receipt
from flyball.control.jobs.adjustments import device_milli, held_since_us
from flyball.control.jobs.usage import AT_LEAST, Span, active_s, cores_used, spans_of
from flyball.core.cluster import Cluster
from flyball.core.job_facts import Steps
from flyball.core.jobs import Job, JobState
from flyball.core.units import J_PER_KWH, MIB_PER_GIB, MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S
from flyball.core.workload import CLASS_LABELS, JobClass
from flyball.physics import catalogue
from flyball.physics.power import draw_w

HEADROOM = 1.25
"""Factor by which a suggestion exceeds what was used."""
MIN_MIB = 64
NO_SUM = "; no --mem: the peak of all its processes together is not known"


class Peak(NamedTuple):
    """Holds the peak memory of all processes of a job together, as a limit counts it.

    Attributes:
        mib: the largest value observed, so never below one that was shown; None = none observed.
        by: the source: `process` (there was only one), `group` (the kernel's, with cached files),
            `looks` (the supervisor's), `samples` (the agent's), or `at_least` if none of them
            observed the job long enough to exclude a higher peak.
    """

    mib: float | None = None
    by: str = ""


UNKNOWN = Peak()


class Sampled(NamedTuple):
    """Holds the most memory in the agent's samples of a job, and the number of samples."""

    most_mib: float
    samples: int


NOT_SAMPLED = Sampled(0.0, 0)
MIN_SAMPLES = 5
"""Minimum number of samples, one a second, that count as the peak of a job."""


def peak_of(job: Job, sampled: Sampled) -> Peak:
    """Return the largest of its end record, its largest process and the agent's samples."""
    values = job.values
    recorded_mib = float(values.get("peak_mib", 0.0))
    most_mib = max(recorded_mib, float(values.get("max_rss_mib", 0.0)), sampled.most_mib)
    if not most_mib:
        return UNKNOWN
    by = str(values.get("peak_by", AT_LEAST))
    if sampled.samples >= MIN_SAMPLES and (by == AT_LEAST or sampled.most_mib > recorded_mib):
        by = "samples"
    return Peak(most_mib, by)


class Seen(NamedTuple):
    """Holds what the agent observed of a job.

    Attributes:
        steps: times (seconds since 1970) and numbers of the steps that it reported.
        memory: the sampled peak of all its processes.
        energy: the energy by the machine's counters.
        progress: the latest of each value that the job reported.
    """

    steps: Steps = NO_STEPS
    memory: Sampled = NOT_SAMPLED
    energy: Energy = NOT_ASKED
    progress: Mapping[str, Any] = MappingProxyType({})


NOTHING_SEEN = Seen()


def receipt(
    job: Job, cluster: Cluster, prices: Prices, now_us: int, seen: Seen = NOTHING_SEEN
) -> dict[str, Any]:
    """Return the receipt of a job, final or not."""
    over_us = job.end_us if job.state.final else now_us
    began_us = job.first_start_us
    run_s = active_s(job, now_us)
    wait_s = max(0.0, ((began_us or over_us) - job.submit_us) / US_PER_S)
    device_s = (job.service_us + _running_us(job, now_us)) / US_PER_S
    spans = spans_of(job, now_us)
    energy_j, source, note = _energy(job, cluster, spans, device_s, seen.energy)
    device_hours = device_s / S_PER_HOUR
    peak = peak_of(job, seen.memory)
    return {
        "id": job.id,
        "state": job.state.value,
        "reason": job.reason,
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
        "energy_note": note,
        **_bill(prices, device_hours, energy_j, source, _pieces(job, spans, over_us, seen.energy)),
        "suggestion": _suggestion(job, run_s, peak, cluster, seen.progress),
        "tuning": tuning_receipt(job, over_us / US_PER_S, seen.steps),
    }


def _bill(
    prices: Prices, device_hours: float, energy_j: float, source: str, pieces: Sequence[Piece]
) -> dict[str, Any]:
    """Return money and carbon; that of energy is measured or modelled as the energy is."""
    energy_cost = billed(pieces, energy_j, prices.price)
    carbon_g = billed(pieces, energy_j, prices.carbon)
    bill = {
        "cost": device_hours * prices.per_device_hour + energy_cost,
        "currency": prices.currency,
        "carbon_g": carbon_g,
    }
    kwh = energy_j / J_PER_KWH
    if prices.price is not None:
        bill |= {"energy_cost": energy_cost, "energy_cost_source": source}
        bill |= {"price_per_kwh": energy_cost / kwh if kwh else None}
        bill |= {"price_signal": prices.price.describe()}
    if prices.carbon is not None:
        bill |= {"carbon_source": source, "carbon_g_per_kwh": carbon_g / kwh if kwh else None}
        bill |= {"carbon_signal": prices.carbon.describe()}
    return bill


def _pieces(job: Job, spans: Sequence[Span], over_us: int, seen: Energy) -> Sequence[Piece]:
    """Return when the energy was used: as measured, else evenly over the attempts' devices."""
    if seen.pieces and "energy_j" not in job.values:
        return seen.pieces
    if not spans and job.first_start_us:
        return [Piece(job.first_start_us, over_us, 1.0)]
    return [
        Piece(span.began_us, span.over_us, _held(span) * float(span.over_us - span.began_us))
        for span in spans
    ]


def _held(span: Span) -> int:
    return max(1, sum(row.mask.bit_count() for row in span.rows))


def _running_us(job: Job, now_us: int) -> float:
    """Return the device time of the running attempt."""
    held_us = max(0, now_us - held_since_us(job))
    return held_us * device_milli(job) / MILLI_PER_DEVICE


def _energy(
    job: Job, cluster: Cluster, spans: Sequence[Span], device_s: float, seen: Energy
) -> tuple[float, str, str]:
    """Return joules, whether they were measured or modelled, and how or why not."""
    if "energy_j" in job.values:
        return float(job.values["energy_j"]), "measured", "by the engine"
    if seen.joules is not None:
        return seen.joules, "measured", seen.note
    return device_s * _draw_w(job, cluster, spans), "modelled", seen.note


def _draw_w(job: Job, cluster: Cluster, spans: Sequence[Span]) -> float:
    """Return the modelled power of one device, averaged over the nodes that it ran on."""
    label = job.spec.kind or JobClass.COMPUTE_INTENSIVE.label
    kind = JobClass(CLASS_LABELS.index(label))
    devices = [group.device for group in cluster.groups for _ in range(group.count)]
    # The control plane may have been restarted with other nodes since.
    held = [
        (devices[row.node], (span.over_us - span.began_us) * row.mask.bit_count())
        for span in spans
        for row in span.rows
        if row.node < len(devices)
    ]
    total = sum(share for _device, share in held)
    if not total:
        return draw_w(catalogue.get(devices[0]), kind)
    return sum(draw_w(catalogue.get(device), kind) * share for device, share in held) / total


def _suggestion(
    job: Job, run_s: float, peak: Peak, cluster: Cluster, progress: Mapping[str, Any]
) -> dict[str, Any]:
    """Suggest the next request from what the job used, or the limit that it was killed at."""
    if job.state == JobState.OUT_OF_MEMORY:
        largest_mib = max(group.memory_gib for group in cluster.groups) * MIB_PER_GIB
        return after_out_of_memory(job, peak.mib or 0.0, largest_mib)
    if job.state == JobState.TIMEOUT:
        return after_timeout(job, run_s, progress)
    return suggestion(job, run_s, peak)


def suggestion(job: Job, run_s: float, peak: Peak) -> dict[str, Any]:
    """Suggest a request that fits what the job used, with headroom."""
    if job.state != JobState.COMPLETED or not run_s:
        return {"text": "nothing to suggest: the job did not complete"}
    used: dict[str, Any] = {}
    parts = []
    cores = cores_used(job, run_s)
    if cores is not None:
        used["cpus"] = max(1, min(job.spec.cpus, math.ceil(cores)))
        if used["cpus"] < job.spec.cpus:
            parts.append(f"-c {used['cpus']} (used {cores:.1f} of {job.spec.cpus} cores)")
    if peak.mib is not None and peak.by != AT_LEAST:
        used["memory_mib"] = _memory_mib(job, peak.mib)
        parts.append(f"--mem {used['memory_mib']}M")
    used["limit_s"] = max(60, math.ceil(run_s * HEADROOM / 60) * 60)
    parts.append(f"-t {math.ceil(used['limit_s'] / 60)}")
    why_not = NO_SUM if peak.by == AT_LEAST else ""
    return {**used, "text": "next time: " + " ".join(parts) + why_not}


def _memory_mib(job: Job, peak_mib: float) -> int:
    """Suggest a limit, at most the one it completed within: cached files may have filled it."""
    suggested = max(MIN_MIB, math.ceil(peak_mib * HEADROOM))
    return min(suggested, job.spec.memory_mib or suggested)
