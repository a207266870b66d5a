"""Draws the curves of training runs: validation by epochs of the environment, a line per run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from flyball.learn.training.folder import FIGURE, read_curve


def plot_run(folder: Path) -> Path:
    """Draw the curve of a run in its folder; return the figure."""
    return plot([folder], folder / FIGURE)


def plot(folders: Sequence[Path], path: Path) -> Path:
    """Draw the curves of several runs, seeds of one kind in one colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    kinds: list[str] = []
    for folder in folders:
        rows = [row for row in read_curve(folder) if "validation" in row]
        kind = folder.name.rsplit("-s", 1)[0]
        is_new = kind not in kinds
        kinds += [kind] if is_new else []
        axes.plot(
            [row["epochs"] for row in rows],
            [100.0 * math.expm1(row["validation"]) for row in rows],
            color=f"C{kinds.index(kind)}", marker=".", label=kind if is_new else None,
        )  # fmt: skip
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    if len(folders) > 1:
        axes.set_xscale("log")  # evolution runs whole workloads: a hundred times the epochs
    axes.set_xlabel("epochs of the environment")
    axes.set_ylabel("completion x energy cost on validation problems,\n% of the incumbent's")
    axes.legend(frameon=False, ncols=2 if len(kinds) > 4 else 1)
    figure.savefig(path, dpi=150)
    return path
