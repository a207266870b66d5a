"""Charts of forecasts with their bands, earlier forecasts behind them, and what happened since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PERCENT = "percent"


def band_options(
    row: Mapping[str, Any], now: float | None = None, most: float | None = None
) -> dict[str, Any]:
    """Return the chart of a forecast of load, as `GET /forecast` returns it.

    Args:
        now: the present value, drawn after what was observed; None = it is not known.
        most: what the series cannot exceed; None = nothing is known.
    """
    seen = [value for value in row["seen"] if value is not None]
    series = [part for earlier in row["earlier"] for part in _band(earlier, EARLIER)]
    series += _band(row, PRESENT)
    begin = row["time"] - row["step_s"] * (len(row["seen"]) - 1)
    points: list[list[Any]] = [
        [round((begin + at * row["step_s"]) * 1000), value] for at, value in enumerate(row["seen"])
    ]
    if now is not None:
        points.append([round((row["time"] + row["step_s"]) * 1000), now])
    series.append(
        {
            "name": "happened", "type": "line", "showSymbol": False, "z": 5, "data": points,
            "lineStyle": {"color": "--ink", "width": 2}, "itemStyle": {"color": "--ink"},
            "markLine": {"symbol": "none", "silent": True, "data": [{"xAxis": row["time"] * 1000}],
                         "lineStyle": {"color": "--soft", "type": "dotted"},
                         "label": {"formatter": "now", "color": "--soft", "fontSize": 11}},
        }
    )  # fmt: skip
    most = 100 if row["unit"] == PERCENT else most
    return {
        "grid": {"left": 44, "right": 16, "top": 34, "bottom": 24},
        "legend": {"data": ["happened", PRESENT, *([EARLIER] * bool(row["earlier"]))], "top": 0},
        "tooltip": {"trigger": "axis", "valueFormatter": "$number"},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "min": 0, **_end(row, seen, most)},
        "series": series,
    }


PRESENT, EARLIER = "forecast", "earlier forecasts"


def _end(row: Mapping[str, Any], seen: list[float], most: float | None) -> dict[str, float]:
    """Return the end of the value axis: a wide band must not hide what happened."""
    typical = max([*seen, *row["p50"], 1.0])
    end = 4 * typical if max(row["p95"]) > 4 * typical else None
    if most is not None and (end is None or end >= most):
        return {"max": most, "interval": most / 4}
    return {} if end is None else {"max": float(f"{end:.2g}")}


def _band(row: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    times = [round((row["time"] + ahead) * 1000) for ahead in row["ahead_s"]]
    is_present = name == PRESENT
    stack, invisible = f"{name}{row['time']}", {"opacity": 0}
    low = [max(0.0, value) for value in row["p05"]]
    width = [max(0.0, high - edge) for high, edge in zip(row["p95"], low, strict=True)]
    plain = {"type": "line", "showSymbol": False, "silent": True, "tooltip": {"show": False}}
    colour = "--c1" if is_present else "--soft"
    return [
        {**plain, "name": f"{name} from", "stack": stack, "lineStyle": invisible,
         "data": [list(pair) for pair in zip(times, low, strict=True)]},
        {**plain, "name": f"{name} to", "stack": stack, "lineStyle": invisible,
         "areaStyle": {"color": f"{colour}/{'38' if is_present else '1c'}"},
         "data": [list(pair) for pair in zip(times, width, strict=True)]},
        {"type": "line", "showSymbol": False, "name": name,
         "lineStyle": {"color": colour, "width": 2 if is_present else 1,
                       "type": "solid" if is_present else "dashed"},
         "itemStyle": {"color": colour},
         "data": [[time, max(0.0, value)] for time, value in zip(times, row["p50"], strict=True)]},
    ]  # fmt: skip
