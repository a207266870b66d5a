"""Formats of what the server returns: times, sizes, counts and jobs as text."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping
from typing import Any

from flyball.core.jobs import JobState
from flyball.core.units import MIB_PER_GIB, duration_text

Job = Mapping[str, Any]
"""A job as the server returns it."""


def clean(value: object) -> str:
    """Return one printable line, so that a job's texts cannot control the terminal."""
    text = " ".join(str(value).split())
    return "".join(character if character.isprintable() else "?" for character in text)


def clock_text(seconds: float | None) -> str:
    """Format a duration as Slurm does: `5:03`, `2:05:03`, `1-02:05:03`."""
    if seconds is None:
        return "-"
    total = max(0, int(seconds))
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, last = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"


def moment_text(seconds: float | None) -> str:
    """Format an instant in local time."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def size_text(mib: float | None) -> str:
    """Format a size in MiB as `512M` or `1.5G`; `-` if none is stated."""
    if not mib:
        return "-"
    return f"{mib / MIB_PER_GIB:.1f}G" if mib >= MIB_PER_GIB else f"{mib:.0f}M"


def soon_text(seconds: float) -> str:
    """Return `now` for 0 s, or `in 3.5 min`."""
    if not seconds:
        return "now"
    return "in less than 1 s" if seconds < 1 else f"in {duration_text(seconds)}"


def start_text(forecast: Mapping[str, Any], where: str = "") -> str:
    """Return a predicted start and its method: `in 40 s, 9 times out of 10 within ...`."""
    p90_s = forecast.get("p90_s") or 0.0
    within = f", 9 times out of 10 within {duration_text(p90_s)}" if p90_s >= 1 else ""
    method = f" ({clean(forecast['method'])})" if forecast.get("method") else ""
    return f"{soon_text(forecast['p50_s'])}{where}{within}{method}"


def span_s(job: Job, now: float) -> float | None:
    """Return how long a job has run, or has waited."""
    begin = job["start_time"] if job["start_time"] is not None else job["submit_time"]
    return None if begin is None else max(0.0, (job["end_time"] or now) - begin)


def count_text(count: int, what: str) -> str:
    """Return `1 job`, `3 jobs`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def heading(job: Job) -> str:
    """Return a job's title: `12 train: RUNNING`."""
    return f"{job['label']} {clean(job['name'])}: {job['state']}"


def signal_name(number: int) -> str:
    """Return `SIGKILL`, or `signal 40` for a signal without a name."""
    names = {int(entry): entry.name for entry in signal.Signals}
    return names.get(number, f"signal {number}")


def ending_text(job: Job) -> str:
    """Return how the job's process ended: `exit code 3` or `SIGKILL`; empty if unknown."""
    if number := job.get("signal"):
        return signal_name(int(number))
    return "" if job["exit_code"] is None else f"exit code {job['exit_code']}"


def counts_by_state(jobs: Iterable[Job]) -> dict[str, int]:
    """Count jobs by state, in the order of a job's life cycle."""
    states = [job["state"] for job in jobs]
    return {str(state): states.count(state) for state in JobState if state in states}
