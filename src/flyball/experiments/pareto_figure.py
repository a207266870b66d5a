"""The figure of a Pareto front: how much of one aim costs how much of the other."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

from flyball.experiments.pareto import Aim, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRONT, DOMINATED, BEFORE = "#0072b2", "#b8b8b8", "#d55e00"
TITLE_WIDTH = 90
"""Maximum characters in a line of the title."""


def pareto_figure(
    points: Sequence[Point], aims: tuple[Aim, Aim], title: str, kind: str = "png"
) -> bytes:
    """Draw the front joined and numbered, other points grey, the policy without tuners marked.

    Args:
        points: the first is the policy without tuners.
        aims: of the two axes.
        title: of the figure.
        kind: png, svg or pdf.

    Returns:
        The image file's bytes.
    """
    figure = pareto_drawing(points, aims, title)
    image = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
    with rc_context({"svg.hashsalt": "flyball"}):  # else names in an SVG are drawn at random
        figure.savefig(image, format=kind, dpi=130, metadata=stamp)
    return image.getvalue()


def pareto_drawing(points: Sequence[Point], aims: tuple[Aim, Aim], title: str) -> Figure:
    """Return the figure before it is rendered."""
    figure = Figure(figsize=(8.0, 5.6), layout="constrained")
    axes = figure.subplots()
    _draw(axes, points)
    axes.set(xlabel=_axis(aims[0]), ylabel=_axis(aims[1]))
    axes.set_title(fill(title, TITLE_WIDTH), fontsize=11, loc="left", pad=10)
    axes.margins(0.09)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    base, *others = points
    behind = [point.values for point in others if not point.on_front]
    if behind:
        x, y = zip(*behind, strict=True)
        axes.scatter(x, y, s=26, color=DOMINATED, label="dominated", zorder=2)
    front = sorted((point for point in points if point.on_front), key=lambda point: point.values)
    if front:
        x, y = zip(*(point.values for point in front), strict=True)
        axes.plot(x, y, "o-", color=FRONT, linewidth=1.8, markersize=6, label="front", zorder=3)
    for point in front:
        if point is base:
            continue
        axes.annotate(
            point.name.rpartition(" ")[2],
            point.values,
            xytext=(6, 6),
            textcoords="offset points",
            fontsize=8,
            color=FRONT,
        )
    axes.plot(
        *base.values,
        marker="X",
        linestyle="none",
        color=BEFORE,
        markersize=10,
        label=f"{base.name}, not tuned",
        zorder=4,
    )


def _axis(aim: Aim) -> str:
    return f"{aim.label} ({'more' if aim.larger else 'less'} is better)"
