"""The figure of a comparison: each policy against the best one and against the baseline."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from flyball.experiments.compare.report import bound_row
from flyball.experiments.compare.summary import Comparison
from flyball.experiments.figures import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAT = LinearSegmentedColormap.from_list("heat", ["#f7fbff", "#9ecae1", "#2171b5", "#08306b"])
DARKEST = 4.0
"""Multiple of the best at which a cell is darkest."""
BOUND_COLOUR = "#555555"
TICKS = (-95, -90, -80, -60, -40, -20, 0, 30, 100, 200, 400, 900, 1900)
TICK_ROOM = 0.16
"""Minimum distance of two ticks, as a part of the axis."""
BETTER, UNCLEAR, WORSE = "#009e73", "#8c8c8c", "#d55e00"


def compare_figure(comparison: Comparison, kind: str = "png") -> bytes:
    """Draw a heat map of policies x scenarios, and the change from the baseline next to it.

    Args:
        comparison: to draw.
        kind: png, svg or pdf.

    Returns:
        The image file's bytes.
    """
    figure = compare_drawing(comparison)
    image = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    figure.savefig(image, format=kind, dpi=130, metadata=stamp)
    return image.getvalue()


def compare_drawing(comparison: Comparison) -> Figure:
    """Return the figure before it is rendered, as wide and high as the names need."""
    scenarios = len(comparison.scenarios)
    names = [wrapped(_short(row["policy"])) for row in comparison.overall]
    lines = max(1 + name.count("\n") for name in names)
    widest = max(len(line) for name in names for line in name.split("\n"))
    across = max(scenarios, 4) + 1
    size = (4.0 + 0.08 * widest + 0.85 * across, 2.3 + max(0.42, 0.19 * lines) * (len(names) + 1))
    figure = Figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(across, 3.4))
    _draw_heat(left, comparison)
    _draw_changes(right, comparison)
    return figure


def _draw_heat(axes: Axes, comparison: Comparison) -> None:
    scenarios = list(comparison.scenarios)
    names = [wrapped(_short(row["policy"])) for row in comparison.overall]
    values = np.array(
        [
            [comparison.mean(name, row["policy"])["relative"] for name in scenarios]
            + [row["relative"]]
            for row in comparison.overall
        ]
    )
    shades = np.vstack([np.log(values), np.full(len(scenarios) + 1, np.nan)])
    axes.imshow(shades, cmap=HEAT, vmin=0.0, vmax=math.log(DARKEST), aspect="auto")
    for row, column in np.ndindex(*values.shape):
        value = float(values[row, column])
        best = value < 1.005 and column < len(scenarios)
        _write(axes, column, row, value, "white" if value > 1.9 else "black", best)
    for column, bound in enumerate(bound_row(comparison)):
        _write(axes, column, len(names), bound, BOUND_COLOUR)
    axes.set_xticks(range(len(scenarios) + 1), [*scenarios, "overall"], rotation=35, ha="left")
    axes.set_yticks(range(len(names) + 1), [*names, "lower bound"])
    axes.get_yticklabels()[-1].set_color(BOUND_COLOUR)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    # White lines between the cells, a wider one before the overall column.
    axes.set_xticks(np.arange(len(scenarios)) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(names)) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.axvline(len(scenarios) - 0.5, color="white", linewidth=7)
    axes.set(xlabel="scenario", ylabel="policy")
    axes.set_title("Mean completion time / best policy of the scenario", fontsize=11, pad=12)


def _short(policy: str) -> str:
    """Return a policy's name; of one in a file (`tuned:FILE`), without the folders."""
    kind, colon, path = policy.partition(":")
    return f"{kind}:{path.rpartition('/')[2]}" if colon else policy


def _write(
    axes: Axes, column: int, row: int, value: float, colour: str, bold: bool = False
) -> None:
    text = f"{value:.2f}" if value < 9.995 else f"{value:.0f}"
    weight = "bold" if bold else "normal"
    axes.text(column, row, text, ha="center", va="center", color=colour, weight=weight, fontsize=9)


def _draw_changes(axes: Axes, comparison: Comparison) -> None:
    """Draw percent from the baseline with the 95 % interval, on the rows of the heat map.

    The axis shows ratios: half is as far to the left as double is to the right.
    """
    axes.axvline(0.0, color="#444444", linewidth=1)
    for row, policy in enumerate(comparison.overall):
        change = policy["change"].get(comparison.baseline)
        if change is None:  # the baseline itself
            continue
        mean, low, high = (math.nan if value is None else _ratio(value) for value in change)
        colour = BETTER if high < 0 else WORSE if low > 0 else UNCLEAR
        axes.plot([low, high], [row, row], color=colour, linewidth=2.5, solid_capstyle="round")
        axes.plot(mean, row, "o", color=colour, markersize=6)
        label = f"{change[0]:+.0f} %"
        clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.text(
            *(mean, row - 0.2, label),
            ha="center",
            va="bottom",
            fontsize=8,
            color=colour,
            bbox=clear,
        )
    axes.set_ylim(len(comparison.overall) + 0.5, -0.5)
    axes.set_yticks([])
    low, high = axes.get_xlim()
    seen = _apart([tick for tick in TICKS if low <= _ratio(tick) <= high], high - low)
    axes.set_xticks(
        [_ratio(tick) for tick in seen], [f"{tick:+d}" if tick else "0" for tick in seen]
    )
    axes.set_xlabel("percent, all scenarios, 95 % interval")
    axes.set_title(f"Change from {comparison.baseline}", fontsize=11, pad=12)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _apart(ticks: list[int], width: float) -> list[int]:
    """Return ticks that leave each other room, from no change outwards."""
    kept: list[int] = []
    for tick in sorted(ticks, key=abs):
        if all(abs(_ratio(tick) - _ratio(other)) >= TICK_ROOM * width for other in kept):
            kept.append(tick)
    return sorted(kept)


def _ratio(percent: float) -> float:
    return math.log(1 + percent / 100)
