"""The figure of a forecast: history, forecast with its bands, and past errors below."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from flyball.core.protocols import Forecast
from flyball.core.units import S_PER_DAY, S_PER_HOUR, S_PER_MIN
from flyball.predict.load.ahead import LiveForecast
from flyball.predict.load.contract import MEDIAN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACTUAL, FORECAST, BAND = "#333333", "#0072b2", "#9ecae1"
UNITS = ((3 * S_PER_DAY, S_PER_DAY, "days"), (3 * S_PER_HOUR, S_PER_HOUR, "hours"))
PAST = 4.0
"""Length of the history shown, in horizons, but at least `LEAST_PAST` points."""
LEAST_PAST = 200


def forecast_figure(ahead: LiveForecast, forecast: Forecast, kind: str = "png") -> bytes:
    """Return the bytes of the image file (png, svg or pdf)."""
    image = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    forecast_drawing(ahead, forecast).savefig(image, format=kind, dpi=120, metadata=stamp)
    return image.getvalue()


def forecast_drawing(ahead: LiveForecast, forecast: Forecast) -> Figure:
    """Return the figure of a forecast."""
    series, steps = ahead.series, len(forecast.mean)
    shown = min(len(series), max(LEAST_PAST, int(PAST * steps)))
    span = (shown + steps) * series.step_s
    unit_s, unit = next(
        ((size, name) for least, size, name in UNITS if span > least), (S_PER_MIN, "minutes")
    )
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.0, 1.0))
    when = (np.arange(-shown, 0) + 1) * series.step_s / unit_s
    top.plot(when, series.values[-shown:], color=ACTUAL, linewidth=1.0, label="known")
    _draw_past(top, below, ahead, shown, series.step_s / unit_s)
    after = np.arange(1, steps + 1) * series.step_s / unit_s
    top.fill_between(after, forecast.quantiles[0], forecast.quantiles[-1], color=BAND, alpha=0.7)
    top.fill_between(after, forecast.quantiles[2], forecast.quantiles[-3], color=BAND)
    top.plot(after, forecast.quantiles[MEDIAN], color=FORECAST, linewidth=1.6, label="median")
    top.plot(after, forecast.mean, color=FORECAST, linewidth=1.0, linestyle=":", label="mean")
    top.axvline(0.0, color="#888888", linewidth=0.8)
    top.set_title(f"{series.name}: forecast with 50 % and 90 % bands", fontsize=11, loc="left")
    top.legend(loc="upper left", fontsize=8, frameon=False)
    below.set_xlabel(f"{unit} from the last known value")
    for axes in (top, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    top.set_ylabel(series.name)
    return figure


def _draw_past(top: Axes, below: Axes, ahead: LiveForecast, shown: int, scale: float) -> None:
    """Draw past forecasts of values that are now known, and their errors."""
    indices, quantiles = ahead.past()
    length = len(ahead.series)
    keep = (indices < length) & (indices >= length - shown)
    below.set_ylabel("past error", fontsize=9)
    if not keep.any():
        return
    when = (indices[keep] - length + 1) * scale
    past = quantiles[keep]
    lead = ahead.followed()[-1]
    label = f"forecast {lead} steps before" if lead > 1 else "forecast a step before"
    top.fill_between(when, past[:, 0], past[:, -1], color=BAND, alpha=0.35, linewidth=0)
    top.plot(when, past[:, MEDIAN], color=FORECAST, linewidth=0.8, alpha=0.8, label=label)
    error = ahead.series.values[indices[keep]] - past[:, MEDIAN]
    below.plot(when, error, color=FORECAST, linewidth=0.8)
    below.axhline(0.0, color="#888888", linewidth=0.8)
