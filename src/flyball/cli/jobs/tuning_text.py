"""Changes that tuning made to a job, as text for `show`, `why` and `receipt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.formats import Job, clean, clock_text, count_text

SHOWN = 8
"""Maximum number of changes listed, the newest of a longer log."""


def unit_of_job(job: Job) -> str:
    """Return the unit of a job's size: `core` or `GPU`; `device` from an older server."""
    return str(job.get("unit") or "device")


def now_text(tuning: Mapping[str, Any], unit: str) -> str:
    """Return `2 cores, limited to 50% (processor time)`."""
    parts = [count_text(tuning["devices"], unit)] if tuning["devices"] else []
    if tuning["share"] < 1.0:
        by = f" ({clean(tuning['by'])})" if tuning.get("by") else ""
        parts.append(f"limited to {tuning['share']:.0%}{by}")
    if tuning.get("parallel") is not None:
        parts.append(f"{unit}s share {tuning['parallel']:.0%} of a step (measured)")
    return ", ".join(parts) or "what it asked for"


def changes(job: Job) -> Iterator[str]:
    """Yield a line per change, the oldest first."""
    log = (job.get("tuning") or {}).get("log", [])
    if len(log) > SHOWN:
        yield f"{len(log) - SHOWN} earlier changes are in the journal"
    began = job.get("start_time") or job["submit_time"]
    for entry in log[-SHOWN:]:
        yield f"after {clock_text(entry['time'] - began)}: {change_text(entry, unit_of_job(job))}"


def change_text(entry: Mapping[str, Any], unit: str) -> str:
    """Return `from 2 to 1 core: shrank, gain 0.3 (tuner)`."""
    why = clean(entry.get("reason") or "")
    if entry.get("gain"):
        why += f", predicted gain {entry['gain']:.3g}"
    if entry.get("measured") is not None:
        why += f", measured {entry['measured']:+.0%} steps a second"
    who = f" ({clean(entry['who'])})" if entry.get("who") else ""
    what = _what(entry, unit)
    return f"{what}: {why}{who}" if why else f"{what}{who}"


def _what(entry: Mapping[str, Any], unit: str) -> str:
    before, after = entry.get("before"), entry.get("after")
    if entry["what"] == "resized":
        begun = f"from {before} " if before else ""
        return f"{begun}to {count_text(after or 0, unit)}"
    if entry["what"] == "capped":
        return "cap removed" if after == 1.0 else f"cap of {after or 1.0:.0%}"
    return "asked for a checkpoint"
