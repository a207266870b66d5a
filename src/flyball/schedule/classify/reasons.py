"""Words the reason for a job's class, in one sentence with the numbers that decided."""

from __future__ import annotations

from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE, duration_text, to_s
from flyball.core.workload import JobClass
from flyball.schedule.classify import score
from flyball.schedule.classify.features import JobColumns
from flyball.schedule.classify.models import ModelFacts


def reason(kind: JobClass, decided_by: int, jobs: JobColumns, job: int) -> str:
    """Return the reason for one job whose class was decided by this feature."""
    facts = jobs.facts(job)
    if facts is not None:
        return _of_model(facts)
    memory_mib, devices = int(jobs.memory_mib[job]), int(jobs.devices[job])
    size = f"{memory_mib / MIB_PER_GIB:.1f} GiB"
    if decided_by == score.NEED:
        return _of_need(jobs, job, size if memory_mib else "")
    if decided_by == score.GANG:
        side = "more than one node" if kind == JobClass.BANDWIDTH_LIMITED else "less than two nodes"
        return f"a gang of {devices}, {side} of 8"
    if decided_by == score.MEMORY:
        home = score.RANGES[kind][score.MEMORY]
        low, high = (2 ** (home.middle + sign * home.half) for sign in (-1, 1))
        more = " or more" if home.open == 1 else ""
        return f"{size} a device, the class has {low:g} to {high:g}{more}"
    return "nothing known that says otherwise"


def _of_need(jobs: JobColumns, job: int, size: str) -> str:
    milli, estimate_us = int(jobs.milli[job]), float(jobs.estimate_us[job])
    parts = [
        f"{milli / 10:g} % of one device" if milli < MILLI_PER_DEVICE else "one device",
        size,
        duration_text(to_s(estimate_us)) if estimate_us >= 0 else "",
        "favoured" if jobs.priority[job] > 0 else "",
    ]
    return ", ".join(part for part in parts if part)


def _of_model(facts: ModelFacts) -> str:
    parts = []
    if facts.faster:
        device, times = max(facts.faster.items(), key=lambda item: item[1])
        parts.append(f"{times:.2g} times as fast on {device} as on {facts.base}")
    if facts.spread is not None and facts.spread != 1.0:
        parts.append(f"{facts.spread * 100:.0f} % of its speed when spread over nodes")
    if facts.flop_per_byte is not None:
        parts.append(f"{facts.flop_per_byte:,.0f} FLOP per byte of gradients")
    return f"{facts.label}: {', '.join(parts)}"
