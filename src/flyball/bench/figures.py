"""Figures of replays. Drawn without a display; colours that colour-blind readers tell apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from flyball.bench.replay import Run
from flyball.core.metrics import completions_s, cost_device_h
from flyball.core.results import Floats, Results
from flyball.core.units import S_PER_DAY, S_PER_HOUR, US_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
"""Ticks of an axis of durations."""
STYLES = ("-", "--", "-.", ":")
CURVE_POINTS = 2000


def replay_figure(runs: Sequence[Run], title: str, kind: str = "png") -> bytes:
    """Completion times and queues as curves; completion, energy and cost as bars.

    Args:
        runs: one per policy, with their raw results.
        title: of the whole figure.
        kind: png, svg or pdf.

    Returns:
        The image file's bytes.
    """
    figure = Figure(figsize=(12.0, 8.0), layout="constrained")
    figure.suptitle(title, fontsize=13)
    grid = figure.add_gridspec(2, 6, height_ratios=(1.15, 1.0))
    _draw_completion(figure.add_subplot(grid[0, :3]), runs)
    _draw_queue(figure.add_subplot(grid[0, 3:]), runs)
    _draw_times(figure.add_subplot(grid[1, :2]), runs)
    _draw_bars(
        figure.add_subplot(grid[1, 2:4]),
        runs,
        "Energy per work, all nodes",
        "kWh / reference device-hour",
        lambda run: run.summary.energy_per_work,
    )
    _draw_cost(figure.add_subplot(grid[1, 4:]), runs)
    names = [run.policy for run in runs]
    curves = figure.axes[0].get_lines()
    figure.legend(
        curves, names, loc="outside lower center", ncols=min(8, len(names)), frameon=False
    )
    image = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    figure.savefig(image, format=kind, dpi=130, metadata=stamp)
    return image.getvalue()


def _draw_completion(axes: Axes, runs: Sequence[Run]) -> None:
    for index, run in enumerate(runs):
        hours = np.sort(completions_s(_results(run))) / S_PER_HOUR
        share = np.arange(1, len(hours) + 1) / max(1, len(hours))
        thin = _thin(len(hours))
        axes.plot(hours[thin], share[thin], **_style(index))
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    seen = {label: at for label, at in TIMES_H.items() if low <= at <= high}
    axes.set_xticks(list(seen.values()), list(seen))
    axes.minorticks_off()
    axes.set(title="Completion time", xlabel="from submission to end", ylabel="share of jobs")
    axes.set_ylim(0, 1.01)
    axes.grid(alpha=0.25)


def _draw_queue(axes: Axes, runs: Sequence[Run]) -> None:
    for index, run in enumerate(runs):
        days, waiting = queue_curve(_results(run))
        axes.plot(days, waiting, drawstyle="steps-post", **_style(index))
    axes.set(title="Queue", xlabel="days", ylabel="jobs waiting for their first start")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)


def queue_curve(results: Results) -> tuple[Floats, Floats]:
    """Jobs submitted and never started so far: (days since the first submission, jobs)."""
    started = results.first_start_us[results.first_start_us >= 0]
    instants = np.concatenate((results.submit_us, started))
    steps = np.concatenate((np.ones(len(results.submit_us)), -np.ones(len(started))))
    order = np.argsort(instants, kind="stable")
    days = (instants[order] - results.start_us) / (US_PER_S * S_PER_DAY)
    waiting = np.cumsum(steps[order])
    # Of the changes at one instant only the outcome is seen.
    last = np.append(days[1:] != days[:-1], True)[: len(days)]
    days, waiting = days[last], waiting[last]
    thin = _thin(len(days))
    return days[thin], waiting[thin]


def _draw_times(axes: Axes, runs: Sequence[Run]) -> None:
    waits = np.array([run.summary.wait_s.mean for run in runs]) / S_PER_HOUR
    wholes = np.array([run.summary.completion_s.mean for run in runs]) / S_PER_HOUR
    _stacked(axes, runs, (("waiting", waits), ("running", wholes - waits)))
    axes.set(title="Mean completion time", xlabel="hours")


def _draw_cost(axes: Axes, runs: Sequence[Run]) -> None:
    idle = np.array([cost_device_h(_results(run), delay_weight=0.0) for run in runs])
    delay = np.array([cost_device_h(_results(run), idle_weight=0.0) for run in runs])
    _stacked(axes, runs, (("idle devices", idle), ("waiting jobs", delay)))
    axes.set(title="Cost: idle + delay", xlabel="device-hours")


def _stacked(axes: Axes, runs: Sequence[Run], parts: Sequence[tuple[str, Floats]]) -> None:
    places = np.arange(len(runs))
    left = np.zeros(len(runs))
    for (label, values), colour in zip(parts, ("#4c72b0", "#c9a227"), strict=True):
        axes.barh(places, values, left=left, color=colour, label=label, height=0.7)
        left = left + values
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    _name_bars(axes, runs)


def _draw_bars(
    axes: Axes, runs: Sequence[Run], title: str, unit: str, value: Callable[[Run], float]
) -> None:
    values = [value(run) for run in runs]
    axes.barh(np.arange(len(runs)), values, color="#4c72b0", height=0.7)
    axes.set(title=title, xlabel=unit)
    _name_bars(axes, runs)


def _name_bars(axes: Axes, runs: Sequence[Run]) -> None:
    axes.set_yticks(np.arange(len(runs)), [run.policy for run in runs])
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _style(index: int) -> dict[str, Any]:
    style = STYLES[index % len(STYLES)] if index < 8 else STYLES[(index // 8) % len(STYLES)]
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": style, "linewidth": 1.5}


def _thin(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Indices of at most `CURVE_POINTS` points, first and last among them."""
    return np.unique(np.linspace(0, max(0, size - 1), min(size, CURVE_POINTS)).astype(np.int64))


def _results(run: Run) -> Results:
    assert run.results is not None, "figures need runs that kept their results"
    return run.results
