"""Draws a graph: one square per operation, coloured by kind, from the inputs down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.models.graph.cost import flop, is_work
from flyball.models.graph.edit import Node
from flyball.models.program import Program

KINDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("convolution", "#1f77b4", ("conv",)),
    ("linear, product", "#2ca02c", ("linear", "matmul", "gemm", "bmm", "mm", "lstm")),
    ("attention", "#9467bd", ("attention",)),
    ("normalisation", "#ff7f0e", ("norm",)),
    ("activation", "#d62728", ("relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "swish")),
    ("arithmetic", "#e7ba52", ("add", "mul", "sub", "div", "mean", "pow", "sqrt", "sum")),
    ("other", "#bbbbbb", ("",)),
)
"""Kind of an operation, its colour, and what its name contains; the first that fits counts."""
LABELS_UP_TO = 45
MOST_OPERATIONS = 4000
INCH_PER_LEVEL = 0.16
BEND = 0.2
"""How far an edge that passes other operations of its lane keeps from them."""


@dataclass(frozen=True)
class Operation:
    """One operation to draw.

    Attributes:
        name: without a namespace: `conv2d`.
        sources: places of the operations it reads in the list of all, earlier ones only.
        flop: its arithmetic, which sets the size of its square; 0 = unknown.
    """

    name: str
    sources: tuple[int, ...]
    flop: float = 0.0


def draw_operations(operations: Sequence[Operation], title: str, path: Path) -> None:
    """Write a picture of operations to a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = operations[:MOST_OPERATIONS]
    places = _places(shown)
    levels = max((level for _lane, level in places), default=0) + 1
    figure = Figure(figsize=(8, min(60.0, 1.5 + INCH_PER_LEVEL * levels)), dpi=80)
    axes = figure.add_subplot()
    for operation, place in zip(shown, places, strict=True):
        for source in operation.sources:
            axes.plot(*_line(places[source], place), color="#999999", lw=0.5, zorder=1)
    handles = []
    for label, colour, _words in KINDS:
        chosen = [at for at, operation in enumerate(shown) if kind_of(operation.name) == label]
        if not chosen:
            continue
        lanes, depths = zip(*(places[at] for at in chosen), strict=True)
        sizes = [8 + 2 * min(20.0, (shown[at].flop + 1) ** 0.15) for at in chosen]
        axes.scatter(lanes, depths, s=sizes, color=colour, marker="s", zorder=2)
        handles.append(
            Line2D([], [], color=colour, marker="s", linestyle="", markersize=5, label=label)
        )
    if len(shown) <= LABELS_UP_TO:
        for operation, (lane, level) in zip(shown, places, strict=True):
            axes.text(lane + 0.08, level, operation.name, fontsize=6, va="center")
    axes.set_ylim(levels, -1)
    widest = max((lane for lane, _level in places), default=0.0)
    axes.set_xlim(-0.5, max(3.0, widest + 1.5))
    axes.set_axis_off()
    axes.set_title(f"{title}, {len(operations)} operations", fontsize=9)
    axes.legend(handles=handles, fontsize=6, loc="upper right")
    figure.tight_layout()
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


def operations_of(program: Program) -> list[Operation]:
    """Return the operations of a program's graph; views are not drawn."""
    nodes = [node for node in program.graph.graph.nodes if is_work(node)]
    place = {node: at for at, node in enumerate(nodes)}
    return [
        Operation(
            name_of(node), tuple(place[source] for source in _sources(node, place)), flop(node)
        )
        for node in nodes
    ]


def operations_of_onnx(model: Any) -> list[Operation]:
    """Return the operations of a parsed ONNX model."""
    maker = {name: at for at, node in enumerate(model.graph.node) for name in node.output}
    return [
        Operation(
            node.op_type,
            tuple(sorted({maker[name] for name in node.input if maker.get(name, at) < at})),
        )
        for at, node in enumerate(model.graph.node)
    ]


def name_of(node: Node) -> str:
    """Return an operation's name without its namespace: `conv2d`."""
    schema = getattr(node.target, "_schema", None)
    name = schema.name if schema is not None else getattr(node.target, "__name__", node.target)
    return str(name).split("::")[-1]


def kind_of(name: str) -> str:
    """Return the kind of an operation by its name."""
    lower = name.lower()
    return next(kind for kind, _colour, words in KINDS if any(word in lower for word in words))


def _places(operations: Sequence[Operation]) -> list[tuple[float, int]]:
    """Return lane and level of each operation: its level is its longest way from an input."""
    lanes: dict[int, int] = {}
    places: list[tuple[float, int]] = []
    for operation in operations:
        level = max((places[source][1] + 1 for source in operation.sources), default=0)
        places.append((float(lanes.get(level, 0)), level))
        lanes[level] = lanes.get(level, 0) + 1
    return places


def _line(source: tuple[float, int], target: tuple[float, int]) -> tuple[list[float], list[float]]:
    """Return the points of an edge; one that skips levels in its lane is bent around them."""
    (left, top), (right, bottom) = source, target
    if left != right or bottom - top < 2:
        return [left, right], [top, bottom]
    return [left, left - BEND, left - BEND, right], [top, top + 1, bottom - 1, bottom]


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
