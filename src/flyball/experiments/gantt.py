"""Draws a Gantt chart: the devices of every node over time, and the jobs that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from flyball.core.cluster import Cluster
from flyball.core.units import MILLI_PER_DEVICE, S_PER_DAY, S_PER_HOUR, US_PER_S
from flyball.experiments.figures import Picture
from flyball.experiments.timeline import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "running": "#56b4e9",
    "started again: it was set aside, or its node failed": "#e69f00",
    "shares a device that another job holds": "#009e73",
    "node down": "#4a5455",
}
"""What each colour means; only those that occur are in the legend."""
RUNNING, AGAIN, GUEST, DOWN = COLOURS
WIDTH_IN = 13.0
LANE_IN, MIN_IN, MAX_IN = 0.17, 1.6, 9.5
"""Height of a device, and of all of them together."""
GAP = 0.6
"""Space between two nodes, in heights of a device."""
MOST_LABELS = 34
"""Maximum number of nodes that are labelled; of more nodes, those without a job are left out."""
EDGE_IN = 0.04
"""Bars that are narrower or lower have no white edge, which would hide them."""
GLYPH_IN, TEXT_IN = 0.062, 0.11
"""Width of a character and height of a line, for names inside bars."""

Outage = tuple[int, int, int]
"""A node, and when it goes down and comes back."""
Box = tuple[float, float, float, float]
"""Left, right (in units of the axis), top, bottom (lanes)."""
Offsets = dict[tuple[int, int], list[tuple[int, float, float]]]
"""By node and device: the fractions in use, as (until when, from, to)."""


class Lane(NamedTuple):
    """The name of a node as it is shown, and the number of its devices."""

    name: str
    devices: int


def gantt_figure(
    spans: Sequence[Span],
    cluster: Cluster,
    names: Sequence[str],
    title: str,
    window_us: tuple[int, int],
    start_us: int,
    outages: Sequence[Outage] = (),
) -> Picture:
    """Draw who held which devices when.

    Args:
        spans: of the jobs.
        cluster: its nodes, from top to bottom.
        names: of the jobs, by index.
        title: of the figure.
        window_us: the span of time to draw.
        start_us: time 0 of the axis: the first submission.
        outages: of nodes.
    """
    unit_s, unit = _unit(window_us)
    left, right = ((edge - start_us) / US_PER_S / unit_s for edge in window_us)
    seen = [s for s in spans if s.mask and s.end_us > window_us[0] and s.begin_us < window_us[1]]
    nodes = _drawn_nodes(cluster, seen)
    tops, lanes = _tops(nodes)
    height_in = min(MAX_IN, max(MIN_IN, LANE_IN * lanes))
    figure = Picture(figsize=(WIDTH_IN, height_in + 1.5), layout="constrained")
    axes = figure.subplots()

    def times(begin_us: int, end_us: int) -> tuple[float, float]:
        begin, end = ((at - start_us) / US_PER_S / unit_s for at in (begin_us, end_us))
        return max(begin, left), min(end, right)

    boxes: dict[str, list[Box]] = {meaning: [] for meaning in COLOURS}
    labels: list[tuple[Box, str]] = []
    offsets: Offsets = {}
    for span in sorted(seen, key=lambda span: (span.begin_us, span.job)):
        for lane in _lanes(span, tops[span.node], offsets):
            box = (*times(span.begin_us, span.end_us), *lane)
            boxes[_meaning(span)].append(box)
            labels.append((box, names[span.job]))
    for node, down_us, up_us in outages:
        if node in tops and up_us > window_us[0] and down_us < window_us[1]:
            lane = (tops[node], tops[node] + nodes[node].devices)
            boxes[DOWN].append((*times(down_us, up_us), *lane))
    scale = WIDTH_IN * 0.9 / (right - left), height_in / lanes
    _draw(axes, boxes, scale)
    _write_names(axes, labels, scale)
    _label(axes, nodes, tops, lanes, cluster.node_count - len(nodes))
    axes.set_xlim(left, right)
    axes.set_xlabel(f"{unit} since the first submission")
    axes.set_title(title, fontsize=12)
    shown = [meaning for meaning, content in boxes.items() if content]
    handles = [Patch(color=COLOURS[meaning], label=meaning) for meaning in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _drawn_nodes(cluster: Cluster, spans: Sequence[Span]) -> dict[int, Lane]:
    """Return the nodes to draw by their number: all of a small cluster, else those with jobs."""
    lanes = [
        Lane(f"{group.name}{number}  {group.device}", group.devices)
        for group in cluster.groups
        for number in range(group.count)
    ]
    used = {span.node for span in spans}
    return {
        node: lane
        for node, lane in enumerate(lanes)
        if len(lanes) <= MOST_LABELS or node in used or not used
    }


def _unit(window_us: tuple[int, int]) -> tuple[float, str]:
    span_s = (window_us[1] - window_us[0]) / US_PER_S
    if span_s > 3 * S_PER_DAY:
        return float(S_PER_DAY), "days"
    return (float(S_PER_HOUR), "hours") if span_s > 3 * S_PER_HOUR else (60.0, "minutes")


def _tops(nodes: Mapping[int, Lane]) -> tuple[dict[int, float], float]:
    """Return where each node begins, from the top, and the height of all, in lanes."""
    tops, at = {}, 0.0
    for node, lane in nodes.items():
        tops[node] = at
        at += lane.devices + GAP
    return tops, at - GAP


def _meaning(span: Span) -> str:
    if span.milli == 0:
        return GUEST
    return RUNNING if span.attempt <= 1 else AGAIN


def _lanes(span: Span, top: float, offsets: Offsets) -> Iterator[tuple[float, float]]:
    """Yield (top, bottom) of a span: neighbouring whole devices as one, fractions inside one."""
    bits = [bit for bit in range(64) if span.mask >> bit & 1]
    if span.milli == MILLI_PER_DEVICE:
        first = bits[0]
        for bit, following in zip(bits, [*bits[1:], -2], strict=True):
            if following != bit + 1:
                yield top + first, top + bit + 1
                first = following
        return
    height = span.milli / MILLI_PER_DEVICE if span.milli else 0.5
    for bit in bits:
        taken = offsets.setdefault((span.node, bit), [])
        taken[:] = [entry for entry in taken if entry[0] > span.begin_us]
        at = 0.0 if span.milli else 0.5
        for _, low, high in sorted(taken, key=lambda entry: entry[1]):
            if low < at + height - 1e-9 and high > at + 1e-9:
                at = high
        taken.append((span.end_us, at, at + height))
        yield top + bit + at, top + bit + min(1.0, at + height)


def _draw(axes: Axes, boxes: Mapping[str, Sequence[Box]], scale: tuple[float, float]) -> None:
    """Draw the boxes of each meaning: first the fine ones, then those with a white edge."""
    for meaning, content in boxes.items():
        fine: list[Any] = []
        clear: list[Any] = []
        for left, right, top, bottom in content:
            size_in = min((right - left) * scale[0], (bottom - top) * scale[1])
            corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
            (clear if size_in >= EDGE_IN else fine).append(corners)
        colour = COLOURS[meaning]
        axes.add_collection(PolyCollection(fine, facecolors=colour, linewidths=0))
        axes.add_collection(
            PolyCollection(clear, facecolors=colour, edgecolors="white", linewidths=0.6)
        )


def _write_names(axes: Axes, labels: Sequence[tuple[Box, str]], scale: tuple[float, float]) -> None:
    """Write the names of jobs into the bars that have room for them."""
    for (left, right, top, bottom), name in labels:
        wide = (right - left) * scale[0] >= GLYPH_IN * (len(name) + 1)
        if wide and (bottom - top) * scale[1] >= TEXT_IN:
            middle = (left + right) / 2, (top + bottom) / 2
            axes.text(*middle, name, ha="center", va="center", fontsize=7, clip_on=True)


def _label(
    axes: Axes, nodes: Mapping[int, Lane], tops: Mapping[int, float], lanes: float, idle: int
) -> None:
    """Name the nodes, all or at even distances, and draw a line between two."""
    every = -(-len(nodes) // MOST_LABELS)
    middles = [tops[node] + lane.devices / 2 for node, lane in nodes.items()]
    axes.set_yticks(middles[::every], [lane.name for lane in nodes.values()][::every], fontsize=8)
    axes.tick_params(axis="y", length=0 if every == 1 else 3)
    if every == 1:
        for top in list(tops.values())[1:]:
            axes.axhline(top - GAP / 2, color="#d0d4d6", linewidth=0.6, zorder=0)
    axes.set_ylim(lanes + GAP / 2, -GAP / 2)
    parts = ["node, a row per device"]
    if every > 1:
        parts.append(f"one node in {every} is named")
    if idle:
        parts.append(f"{idle:,} without a job left out")
    axes.set_ylabel("; ".join(parts), fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(12))
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
