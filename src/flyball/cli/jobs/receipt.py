"""`flyball receipt`: prints what a job used, and what to request next time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.formats import Job, clean, count_text, heading, size_text
from flyball.cli.jobs.tuning_text import change_text, unit_of_job
from flyball.cli.live import JobId, State, show_job
from flyball.cli.options import AsJson
from flyball.core.units import J_PER_KWH, duration_text

EXAMPLES = """\b
Examples:
  flyball receipt 12
  flyball receipt 12 --json
"""

NAME_WIDTH = 12
"""Width, in columns, of the names of entries."""


def receipt(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Show what a job used: time, cores or GPUs, energy, cost, carbon; what to request next."""
    show_job(job, state, as_json, lambda client, number: client.receipt(number), lines)


def lines(receipt: Job) -> Iterator[str]:
    """Yield the receipt, a line per entry; unknown entries are left out."""
    unit = unit_of_job(receipt)
    yield heading(receipt)
    for name, value in _entries(receipt, unit):
        yield f"  {name:{NAME_WIDTH}} {value}"
    for name, value in _tuned(receipt.get("tuning") or {}, unit):
        yield f"  {name:{NAME_WIDTH}} {value}"
    suggestion = receipt.get("suggestion") or {}
    if suggestion.get("text"):
        yield f"  {clean(suggestion['text'])}"


def _entries(receipt: Mapping[str, Any], unit: str) -> Iterator[tuple[str, str]]:
    yield "waited", duration_text(receipt["wait_s"])
    attempts = count_text(receipt["attempts"], "attempt")
    yield "ran", f"{duration_text(receipt['run_s'])} in {attempts}"
    yield f"{unit}s", f"{receipt['device_hours']:.4g} {unit}-hours"
    if receipt.get("reason"):
        yield "reason", clean(receipt["reason"])
    if receipt.get("cpu_s") is not None:
        yield "cpu", duration_text(receipt["cpu_s"])
    if receipt.get("peak_mib") is not None:
        yield "memory", _memory_text(receipt)
    if receipt.get("energy_j") is not None:
        kwh = receipt["energy_j"] / J_PER_KWH
        size = f"{receipt['energy_j']:,.0f} J" if kwh < 0.1 else f"{kwh:,.3g} kWh"
        source = receipt.get("energy_source") or "source not stated"
        note = f": {clean(receipt['energy_note'])}" if receipt.get("energy_note") else ""
        yield "energy", f"{size}, {source}{note}"
    if receipt.get("cost"):
        cost = f"{receipt['cost']:.4g} {clean(receipt.get('currency') or '')}".strip()
        yield "cost", cost + _energy_cost_text(receipt)
    if receipt.get("carbon_g"):
        yield "carbon", f"{receipt['carbon_g']:.3g} g CO2" + _carbon_text(receipt)


def _energy_cost_text(receipt: Mapping[str, Any]) -> str:
    """Return what of the cost is for energy, at which price, measured or modelled."""
    if receipt.get("price_per_kwh") is None:
        return ""
    return (
        f", of it {receipt['energy_cost']:.4g} for energy at {receipt['price_per_kwh']:.4g} a kWh "
        f"({clean(receipt['price_signal'])}), {receipt['energy_cost_source']}"
    )


def _carbon_text(receipt: Mapping[str, Any]) -> str:
    """Return the carbon intensity used, measured or modelled."""
    if receipt.get("carbon_g_per_kwh") is None:
        return ""
    return (
        f" at {receipt['carbon_g_per_kwh']:.4g} g/kWh ({clean(receipt['carbon_signal'])}), "
        f"{receipt['carbon_source']}"
    )


def _memory_text(receipt: Mapping[str, Any]) -> str:
    """Return the peak and what it covers; the kernel also counts cached files it could drop."""
    size, by = size_text(receipt["peak_mib"]), receipt["peak_by"]
    if by == "at_least":
        return f"at least {size}; it ran too briefly for all its processes to be seen together"
    whose = {"process": "", "group": ", all processes and cached files"}
    return f"{size} at most{whose.get(by, ', all processes')}"


def _tuned(tuning: Mapping[str, Any], unit: str) -> Iterator[tuple[str, str]]:
    """Yield how long the job had each size, its caps, and the changes made by tuning."""
    for size in tuning.get("sizes", ()):
        speed = size.get("steps_per_s")
        rate = f", {speed:.3g} steps a second" if speed is not None else ""
        held = count_text(size["devices"], unit)
        yield "size", f"{held} for {duration_text(size['seconds'])}{rate}"
    if tuning.get("capped_s"):
        by = f" by {clean(tuning['cap_by'])}" if tuning.get("cap_by") else ""
        used = f", used {tuning['capped_share']:.0%}" if tuning.get("capped_share") else ""
        yield "capped", f"for {duration_text(tuning['capped_s'])}{by}{used}"
    for entry in tuning.get("log", ()):
        yield "tuned", change_text(entry, unit)
