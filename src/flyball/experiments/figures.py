"""Draws figures of replays without a display, in colours that colour-blind readers tell apart."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from flyball.core.metrics import completions_s, cost_device_h
from flyball.core.results import Floats, Results
from flyball.core.units import S_PER_DAY, S_PER_HOUR, US_PER_S
from flyball.experiments.replay import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAITING, RUNNING, IDLE, ENERGY = "#c8cdd0", "#7f8c8d", "#b39d84", "#4a5455"
"""Colours of bars; none of them stands for a policy."""
WRAP_AT = 16
"""Maximum characters in a line of a policy's name."""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#8c8c00")
"""Okabe and Ito's palette, its yellow darkened for lines on white."""
TIMES_H = {
    "1 s": 1 / 3600,
    "10 s": 10 / 3600,
    "1 min": 1 / 60,
    "10 min": 1 / 6,
    "1 h": 1.0,
    "6 h": 6.0,
    "1 d": 24.0,
    "1 week": 168.0,
    "5 weeks": 840.0,
}
"""Ticks of an axis of durations, in hours."""
STYLES = ("-", "--", "-.", ":")
CURVE_POINTS = 2000


DPI = 130


class Picture(Figure):
    """A figure that notebooks show, whether or not `matplotlib.pyplot` is loaded."""

    def _repr_png_(self) -> bytes:
        return image_of(self)


def image_of(figure: Figure, kind: str = "png") -> bytes:
    """Return the bytes of an image file: png, svg or pdf; the same figure gives the same bytes."""
    image = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    figure.savefig(image, format=kind, dpi=DPI, metadata=stamp)
    return image.getvalue()


def replay_figure(runs: Sequence[Run], title: str, kind: str = "png") -> bytes:
    """Draw completion times and queues as curves; completion, energy and cost as bars.

    Args:
        runs: one per policy, with their raw results.
        title: of the whole figure.
        kind: png, svg or pdf.

    Returns:
        The image file's bytes.
    """
    return image_of(replay_drawing(runs, title), kind)


def replay_drawing(runs: Sequence[Run], title: str) -> Picture:
    """Return the figure before it is rendered, as high as the policies' names need."""
    names = [wrapped(run.policy) for run in runs]
    lines = sum(1 + name.count("\n") for name in names)
    columns = legend_columns([run.policy for run in runs])
    legend_rows = math.ceil(len(runs) / columns)
    bars_in = max(2.4, 1.1 + 0.2 * lines)
    figure = Picture(figsize=(13.0, 4.6 + bars_in + 0.2 * legend_rows), layout="constrained")
    figure.suptitle(title, fontsize=13)
    heights = (4.4 + 0.2 * legend_rows, bars_in)
    halves: Any = figure.subfigures(2, 1, height_ratios=heights)
    upper, lower = halves
    left, right = upper.subplots(1, 2)
    _draw_completion(left, runs)
    _draw_queue(right, runs)
    upper.legend(
        left.get_lines(),
        [run.policy for run in runs],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )
    times, energy, cost = lower.subplots(1, 3, sharey=True)
    _draw_times(times, runs)
    _draw_energy(energy, runs)
    _draw_cost(cost, runs)
    times.set_yticks(np.arange(len(runs)), names, fontsize=9)
    times.set_ylabel("policy")
    times.invert_yaxis()
    return figure


def wrapped(name: str) -> str:
    """Break a policy's name into lines: `easy+elastic+share` breaks before a plus sign."""
    lines = [""]
    for at, piece in enumerate(name.split("+")):
        text = piece if not at else f"+{piece}"
        if lines[-1] and len(lines[-1]) + len(text) > WRAP_AT:
            lines.append(text)
        else:
            lines[-1] += text
    return "\n".join(lines)


def legend_columns(names: Sequence[str]) -> int:
    """Return how many columns of a legend fit into the width of the figure."""
    return max(1, min(8, len(names), int(150 / (max(map(len, names), default=1) + 9))))


def _draw_completion(axes: Axes, runs: Sequence[Run]) -> None:
    for index, run in enumerate(runs):
        hours = np.sort(completions_s(_results(run))) / S_PER_HOUR
        share = np.arange(1, len(hours) + 1) / max(1, len(hours))
        thin = _thin(len(hours))
        axes.plot(hours[thin], share[thin], **_style(index, len(runs)))
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    seen = {label: at for label, at in TIMES_H.items() if low <= at <= high}
    axes.set_xticks(list(seen.values()), list(seen))
    axes.minorticks_off()
    axes.set(title="Completion time", xlabel="time from submission to end", ylabel="share of jobs")
    axes.set_ylim(0, 1.01)
    axes.grid(alpha=0.25)


def _draw_queue(axes: Axes, runs: Sequence[Run]) -> None:
    for index, run in enumerate(runs):
        days, waiting = queue_curve(_results(run))
        axes.plot(days, waiting, drawstyle="steps-post", **_style(index, len(runs)))
    axes.set(
        title="Queue",
        xlabel="days since the first submission",
        ylabel="jobs waiting for their first start",
    )
    axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
    axes.grid(alpha=0.25)


def queue_curve(results: Results) -> tuple[Floats, Floats]:
    """Return the jobs that wait for their first start: (days since the first submission, jobs)."""
    started = results.first_start_us[results.first_start_us >= 0]
    instants = np.concatenate((results.submit_us, started))
    steps = np.concatenate((np.ones(len(results.submit_us)), -np.ones(len(started))))
    order = np.argsort(instants, kind="stable")
    days = (instants[order] - results.start_us) / (US_PER_S * S_PER_DAY)
    waiting = np.cumsum(steps[order])
    # Of several changes at one instant, keep the last.
    last = np.append(days[1:] != days[:-1], True)[: len(days)]
    days, waiting = days[last], waiting[last]
    thin = _thin(len(days))
    return days[thin], waiting[thin]


def _draw_times(axes: Axes, runs: Sequence[Run]) -> None:
    waits = np.array([run.summary.wait_s.mean for run in runs]) / S_PER_HOUR
    wholes = np.array([run.summary.completion_s.mean for run in runs]) / S_PER_HOUR
    _draw_bars(axes, (("waiting", WAITING, waits), ("running", RUNNING, wholes - waits)))
    axes.set_xlabel("hours")
    axes.set_title("Mean completion time", loc="left", fontsize=11)


def _draw_energy(axes: Axes, runs: Sequence[Run]) -> None:
    _draw_bars(axes, (("", ENERGY, np.array([run.summary.energy_per_work for run in runs])),))
    axes.set_xlabel("kWh per reference device-hour")
    axes.set_title("Energy per work, all nodes", loc="left", fontsize=11)


def _draw_cost(axes: Axes, runs: Sequence[Run]) -> None:
    idle = np.array([cost_device_h(_results(run), delay_weight=0.0) for run in runs])
    delay = np.array([cost_device_h(_results(run), idle_weight=0.0) for run in runs])
    _draw_bars(axes, (("idle devices", IDLE, idle), ("waiting jobs", WAITING, delay)))
    axes.set_xlabel("device-hours")
    axes.set_title("Cost: idle + delay", loc="left", fontsize=11)


def _draw_bars(axes: Axes, parts: Sequence[tuple[str, str, Floats]]) -> None:
    """Draw bars of parts (label, colour, values), with the sum as a number at their end."""
    total = np.nansum([values for _, _, values in parts], axis=0)
    places = np.arange(len(total))
    left = np.zeros(len(total))
    for label, colour, values in parts:
        axes.barh(places, values, left=left, color=colour, label=label or None, height=0.7)
        left = left + np.nan_to_num(values)
    for place, value in zip(places, total, strict=True):
        axes.annotate(
            f"{value:,.3g}" if value < 1000 else f"{value:,.0f}",
            (value, place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.margins(x=0.16)  # room for the numbers
    axes.set_xlim(left=0)
    axes.set_ylim(-0.6, len(total) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(parts) > 1:
        axes.legend(
            frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1.02, 0.99)
        )


def _style(index: int, count: int) -> dict[str, Any]:
    """Return a policy's colour: of the palette if it is large enough, else of a colour map."""
    if count <= len(COLOURS):
        colour: Any = COLOURS[index]
    else:
        colour = colormaps["turbo"](0.04 + 0.92 * index / (count - 1))
    return {"color": colour, "linestyle": STYLES[index % len(STYLES)], "linewidth": 1.5}


def _thin(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the indices of at most `CURVE_POINTS` points, first and last among them."""
    return np.unique(np.linspace(0, max(0, size - 1), min(size, CURVE_POINTS)).astype(np.int64))


def _results(run: Run) -> Results:
    assert run.results is not None, "figures need runs that kept their results"
    return run.results
