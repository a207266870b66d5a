"""Draws a graph: one square per operation, coloured by kind, from the inputs down."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flyball.models.graph.cost import flop, is_work
from flyball.models.graph.edit import Node
from flyball.models.program import Program

KINDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("convolution", "#1f77b4", ("conv",)),
    ("linear, product", "#2ca02c", ("linear", "matmul", "bmm", "mm", "lstm")),
    ("attention", "#9467bd", ("attention",)),
    ("normalisation", "#ff7f0e", ("norm",)),
    ("activation", "#d62728", ("relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "swish")),
    ("arithmetic", "#e7ba52", ("add", "mul", "sub", "div", "mean", "pow", "sqrt", "sum")),
    ("other", "#bbbbbb", ("",)),
)
"""Kind of an operation, its colour, and what its name contains; the first that fits counts."""
LABELS_UP_TO = 45
MOST_NODES = 4000
INCH_PER_LEVEL = 0.16
BEND = 0.2
"""How far an edge that passes other operations of its lane keeps from them."""


def draw(program: Program, title: str, path: Path) -> None:
    """Write a picture of a program's graph to a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    nodes = [node for node in program.graph.graph.nodes if is_work(node)][:MOST_NODES]
    places = _places(nodes)
    levels = max((level for _lane, level in places.values()), default=0) + 1
    figure = Figure(figsize=(8, min(60.0, 1.5 + INCH_PER_LEVEL * levels)), dpi=80)
    axes = figure.add_subplot()
    for node, (lane, level) in places.items():
        for source in _sources(node, places):
            axes.plot(*_line(places[source], (lane, level)), color="#999999", lw=0.5, zorder=1)
    for label, colour, _words in KINDS:
        chosen = [node for node in places if kind_of(node)[0] == label]
        if chosen:
            lanes, depths = zip(*(places[node] for node in chosen), strict=True)
            sizes = [8 + 2 * min(20.0, (flop(node) + 1) ** 0.15) for node in chosen]
            axes.scatter(lanes, depths, s=sizes, color=colour, marker="s", zorder=2)
    if len(places) <= LABELS_UP_TO:
        for node, (lane, level) in places.items():
            axes.text(lane + 0.08, level, name_of(node), fontsize=6, va="center")
    axes.set_ylim(levels, -1)
    widest = max((lane for lane, _level in places.values()), default=0.0)
    axes.set_xlim(-0.5, max(3.0, widest + 1.5))
    axes.set_axis_off()
    axes.set_title(f"{title}, {len(nodes)} operations", fontsize=9)
    handles = [
        Line2D([], [], color=colour, marker="s", linestyle="", markersize=5, label=label)
        for label, colour, _words in KINDS
        if any(kind_of(node)[0] == label for node in places)
    ]
    axes.legend(handles=handles, fontsize=6, loc="upper right")
    figure.tight_layout()
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


def _line(source: tuple[float, int], target: tuple[float, int]) -> tuple[list[float], list[float]]:
    """Return the points of an edge; one that skips levels in its lane is bent around them."""
    (left, top), (right, bottom) = source, target
    if left != right or bottom - top < 2:
        return [left, right], [top, bottom]
    return [left, left - BEND, left - BEND, right], [top, top + 1, bottom - 1, bottom]


def name_of(node: Node) -> str:
    """Return an operation's name without its namespace: `conv2d`."""
    schema = getattr(node.target, "_schema", None)
    name = schema.name if schema is not None else getattr(node.target, "__name__", node.target)
    return str(name).split("::")[-1]


def kind_of(node: Node) -> tuple[str, str]:
    """Return the kind of an operation, and its colour."""
    name = name_of(node)
    return next((kind, colour) for kind, colour, words in KINDS if any(w in name for w in words))


def _places(nodes: Iterable[Node]) -> dict[Node, tuple[float, int]]:
    """Return lane and level of each node: its level is its longest way from an input."""
    levels: dict[Node, int] = {}
    lanes: dict[int, int] = {}
    places: dict[Node, tuple[float, int]] = {}
    for node in nodes:
        level = max((levels[source] + 1 for source in _sources(node, levels)), default=0)
        levels[node] = level
        places[node] = (float(lanes.get(level, 0)), level)
        lanes[level] = lanes.get(level, 0) + 1
    return places


def _sources(node: Node, drawn: Any) -> list[Node]:
    """Return the drawn operations that a node reads, through views."""
    sources: dict[Node, None] = {}
    pending = list(node.all_input_nodes)
    while pending:
        source = pending.pop()
        if source in drawn:
            sources[source] = None
        elif source.op == "call_function":
            pending += source.all_input_nodes
    return list(sources)
