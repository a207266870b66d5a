"""`flyball receipt`: what a job took, and what to ask for next time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.jobs.tuning_words import change_text, unit_of_job
from flyball.cli.options import AsJson
from flyball.cli.server.live_options import (
    Job,
    JobId,
    State,
    clean,
    count_text,
    heading,
    show_job,
    size_text,
)
from flyball.core.units import J_PER_KWH, duration_text

EXAMPLES = """\b
Examples:
  flyball receipt 12
  flyball receipt 12 --json
"""

WIDTH = 12


def receipt(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Say what a job took: time, cores or GPUs, energy, cost, carbon; what to ask next time."""
    show_job(job, state, as_json, lambda client, number: client.receipt(number), lines)


def lines(found: Mapping[str, Any], job: Job) -> Iterator[str]:
    """The receipt, a line for each thing; what is not known is left out."""
    unit = unit_of_job(job)
    yield heading(job)
    for name, value in _entries(found, unit):
        yield f"  {name:{WIDTH}} {value}"
    for name, value in _tuned(found.get("tuning") or {}, unit):
        yield f"  {name:{WIDTH}} {value}"
    suggestion = found.get("suggestion") or {}
    if suggestion.get("text"):
        yield f"  {clean(suggestion['text'])}"


def _entries(found: Mapping[str, Any], unit: str) -> Iterator[tuple[str, str]]:
    yield "waited", duration_text(found["wait_s"])
    attempts = count_text(found["attempts"], "attempt")
    yield "ran", f"{duration_text(found['run_s'])} in {attempts}"
    yield f"{unit}s", f"{found['device_hours']:.4g} {unit}-hours"
    if found.get("reason"):
        yield "reason", clean(found["reason"])
    if found.get("cpu_s") is not None:
        yield "cpu", duration_text(found["cpu_s"])
    if found.get("peak_mib") is not None:
        yield "memory", _memory_text(found)
    if found.get("energy_j") is not None:
        kwh = found["energy_j"] / J_PER_KWH
        size = f"{found['energy_j']:,.0f} J" if kwh < 0.1 else f"{kwh:,.3g} kWh"
        source = found.get("energy_source") or "source not stated"
        note = f": {clean(found['energy_note'])}" if found.get("energy_note") else ""
        yield "energy", f"{size}, {source}{note}"
    if found.get("cost"):
        yield "cost", f"{found['cost']:.4g} {clean(found.get('currency') or '')}".strip()
    if found.get("carbon_g"):
        yield "carbon", f"{found['carbon_g']:.3g} g CO2"


def _memory_text(found: Mapping[str, Any]) -> str:
    """The peak and whose it is; the kernel also counts cached files that it could drop."""
    size, by = size_text(found["peak_mib"]), found["peak_by"]
    if by == "at_least":
        return f"at least {size}; it ran too briefly for all its processes to be seen together"
    whose = {"process": "", "group": ", all processes and cached files"}
    return f"{size} at most{whose.get(by, ', all processes')}"


def _tuned(tuning: Mapping[str, Any], unit: str) -> Iterator[tuple[str, str]]:
    """How long it had each size, its caps, and what was done to it."""
    for size in tuning.get("sizes", ()):
        speed = size.get("steps_per_s")
        rate = f", {speed:.3g} steps a second" if speed is not None else ""
        held = count_text(size["devices"], unit)
        yield "size", f"{held} for {duration_text(size['seconds'])}{rate}"
    if tuning.get("capped_s"):
        by = f" by {clean(tuning['cap_by'])}" if tuning.get("cap_by") else ""
        used = f", used {tuning['capped_share']:.0%}" if tuning.get("capped_share") else ""
        yield "capped", f"for {duration_text(tuning['capped_s'])}{by}{used}"
    for each in tuning.get("log", ()):
        yield "tuned", change_text(each, unit)
