"""The history of one job for its page: the devices it held, what was decided, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flyball.core.units import J_PER_KWH, duration_text
from flyball.web.parts import moment

US = 1e6
SAME_S = 0.01
"""Two records of one adjustment are at most so far apart."""
DECIDED = ("intended", "stopping", "requeued", "resized", "capped", "held", "deferred", "released",
           "prioritised", "cancel", "checkpointed")  # fmt: skip
WORDS = {
    "intended": "start", "stopping": "stop", "requeued": "back to the queue", "resized": "resize",
    "capped": "cap", "held": "hold", "deferred": "defer", "released": "release",
    "prioritised": "priority", "checkpointed": "checkpoint",
}  # fmt: skip


def devices_in(rows: Sequence[Sequence[int]]) -> int:
    """Return the number of devices in (node, mask) pairs."""
    return sum(int(mask).bit_count() for _node, mask in rows)


def timeline_options(
    job: Mapping[str, Any], events: Sequence[Mapping[str, Any]], now_s: float
) -> dict[str, Any]:
    """Return the chart of the devices that a job held over time."""
    points: list[list[float]] = [[job["submit_time"] * 1000, 0]]
    marks: list[dict[str, Any]] = []
    held = 0
    for event in events:
        at, kind = event["time_us"] / 1000, event["kind"]
        if kind == "intended":
            held = devices_in(event["rows"])
            marks.append({"xAxis": at, "name": f"attempt {event['attempt']}"})
        elif kind == "resized" and event.get("rows"):
            held = devices_in(event["rows"])
            marks.append({"xAxis": at, "name": f"resized to {held}"})
        elif kind in ("ended", "requeued"):
            held = 0
            word = str(event.get("state", "requeued")).lower()
            marks.append({"xAxis": event.get("over_us", event["time_us"]) / 1000, "name": word})
        else:
            continue
        points.append([at, held])
    if job["end_time"] is None:
        points.append([now_s * 1000, held])
    return {
        "grid": {"left": 40, "right": 44, "top": 30, "bottom": 22},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "minInterval": 1, "min": 0},
        "series": [
            {
                "name": "devices", "type": "line", "step": "end", "showSymbol": False,
                "data": points,
                "lineStyle": {"color": "--c1", "width": 2}, "areaStyle": {"color": "--c1/33"},
                "markLine": {"symbol": "none", "silent": True, "data": marks[-12:],
                             "lineStyle": {"color": "--soft", "type": "dashed"},
                             "label": {"formatter": "{b}", "color": "--soft", "fontSize": 11}},
            }
        ],
    }  # fmt: skip


def changes_of(
    events: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, str, str]]:
    """Return what was decided or ordered about a job, newest first: when, what, why, gains.

    Args:
        measured: adjustments as its receipt lists them, some with their measured gain.
    """
    rows = []
    for event in reversed(events):
        kind = event["kind"]
        if kind not in DECIDED:
            continue
        what = WORDS.get(kind, kind)
        if kind == "intended":
            count = devices_in(event["rows"])
            what += f" on {count} device{'s' * (count != 1)}"
        elif kind == "resized":
            what += f" to {event['devices']}"
        elif kind == "capped":
            what += f" at {event['share']:.0%}"
        elif kind == "prioritised":
            what += f" {event['priority']:g}"
        at_s, gain = event["time_us"] / US, event.get("gain")
        entry = next((row for row in measured if abs(row["time"] - at_s) < SAME_S), {})
        after = entry.get("measured")
        rows.append(
            (moment(at_s), what, _why(event), f"{gain:.3g}" if gain else "",
             f"{after:+.1%} speed" if after is not None else "")
        )  # fmt: skip
    return rows


def _why(event: Mapping[str, Any]) -> str:
    if event["kind"] == "intended":
        number = event.get("decision")
        return f"decision {number}" if number else "continues elsewhere"
    words = [event.get("reason") or event.get("why") or "", event.get("who") or ""]
    return ", ".join(str(word) for word in words if word)


def history_rows(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return a receipt as names and values."""
    energy = receipt["energy_j"]
    kwh = energy / J_PER_KWH
    energy_text = f"{kwh:.3g} kWh" if kwh >= 0.01 else f"{energy:,.0f} J"
    memory = receipt["peak_mib"]
    cpu_s, carbon_g = receipt["cpu_s"], receipt["carbon_g"]
    return {
        "Waited": duration_text(receipt["wait_s"]), "Ran": duration_text(receipt["run_s"]),
        "Device-hours": f"{receipt['device_hours']:.4g}",
        "CPU time": duration_text(cpu_s) if cpu_s is not None else "",
        "Memory": f"{memory:,.0f} MiB at most" if memory else "",
        "Energy": f"{energy_text}, {receipt['energy_source']} ({receipt['energy_note']})",
        "Cost": f"{receipt['cost']:.4g} {receipt['currency']}" if receipt["cost"] else "",
        "Carbon": f"{carbon_g:,.1f} g CO2" if carbon_g else "",
        "Next time": str(receipt["suggestion"].get("text", "")).removeprefix("next time: "),
    }  # fmt: skip
