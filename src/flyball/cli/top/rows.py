"""What the application shows as text: bars of nodes and devices, rows of the queue, filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flyball.cli.formats import Job, clean, clock_text, span_s
from flyball.cli.jobs.queue import why_text
from flyball.cli.jobs.sensor_text import DEVICE, device_text
from flyball.cli.jobs.show import progress_text
from flyball.cli.top.frame import blocks
from flyball.core.jobs import JobState

if TYPE_CHECKING:
    from rich.text import Text

Node = Mapping[str, Any]
Starts = Mapping[int, tuple[float, float]]
"""Predicted start of pending jobs: median and 90 % quantile, in seconds from now."""

FULL, EMPTY = "█", "·"
PARTS = " ▏▎▍▌▋▊▉"
BAR = 20
SCROLLBAR = 2
MOST_NODES = 40
"""Beyond this number, nodes are shown as pools unless they are asked for."""
MOST_LINES = 500
"""Maximum number of nodes that are listed."""
MOST_BLOCKS = 64
"""Nodes with more devices get a bar instead of a block per device."""


# Nodes and devices --------------------------------------------------------------------


def bar(share: float, width: int = BAR) -> str:
    """Return a share of one as a bar, to an eighth of a character."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    whole, part = divmod(eighths, 8)
    return (FULL * whole + (PARTS[part] if part else "")).ljust(width, EMPTY)


class Pool(NamedTuple):
    """Adds up the nodes of one kind: same device, as many of them, up or down together."""

    device: str
    per_node: int
    nodes: int
    down: int
    used: int
    devices: int


def pools_of(nodes: Iterable[Node]) -> list[Pool]:
    """Return the nodes by kind, in order of their first node."""
    pools: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        pools.setdefault((node["device"], node["devices"]), []).append(node)
    return [
        Pool(
            device, size, len(members), sum(not node["up"] for node in members),
            sum(node["used"] for node in members), sum(node["devices"] for node in members),
        )
        for (device, size), members in pools.items()
    ]  # fmt: skip


def pool_lines(nodes: Sequence[Node]) -> Iterator[Text]:
    """Yield a bar per kind of node."""
    from rich.text import Text

    pools = pools_of(nodes)
    width = max((len(clean(pool.device)) for pool in pools), default=0)
    for pool in pools:
        down = f", {pool.down:,} down" if pool.down else ""
        line = Text(f"{clean(pool.device):{width}} ")
        line.append(bar(pool.used / max(pool.devices, 1)), "green")
        line.append(f" {pool.used:,}/{pool.devices:,} on {pool.nodes:,} nodes{down}")
        yield line


def node_lines(nodes: Sequence[Node], letters: Mapping[int, str]) -> Iterator[Text]:
    """Yield a line per node: a block per device with the letter of its job, or a bar if many."""
    from rich.text import Text

    name_width = max((len(clean(node["name"])) for node in nodes[:MOST_LINES]), default=0)
    device_width = max((len(clean(node["device"])) for node in nodes[:MOST_LINES]), default=0)
    for node in nodes[:MOST_LINES]:
        line = Text(f"{clean(node['name']):{name_width}} {clean(node['device']):{device_width}} ")
        if node["devices"] <= MOST_BLOCKS:
            line.append_text(blocks(node, letters))
        else:
            line.append(bar(node["used"] / node["devices"]), "green")
        line.append(f" {node['used']}/{node['devices']}")
        if not node["up"]:
            line.append(" down", "bold red")
        yield line
    if len(nodes) > MOST_LINES:
        yield Text(f"and {len(nodes) - MOST_LINES:,} more nodes", "dim")


def device_bars(sensors: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a bar per accelerator that is measured, with its memory and power."""
    from rich.text import Text

    devices: dict[tuple[str, int], dict[str, float]] = {}
    for name, value in sensors.items():
        if value is not None and (parts := DEVICE.fullmatch(name)):
            devices.setdefault((parts[1], int(parts[2])), {})[parts[3]] = value
    for (maker, number), values in sorted(devices.items()):
        line = Text(f"{maker} gpu{number:<3} ")
        percent = values.get("use_percent")
        if percent is not None:
            line.append(bar(percent / 100), "yellow" if percent >= 90 else "green")
            line.append(" ")
        yield line.append(", ".join(device_text(values)))


# The queue ----------------------------------------------------------------------------


class Row(NamedTuple):
    """One job of the queue as text."""

    id: int
    label: str
    name: str
    user: str
    size: str
    state: str
    time: str
    start: str
    why: str


def row_of(job: Job, now: float, starts: Starts) -> Row:
    """Return a job's row. `start` holds how long until it starts: half the time, 9 of 10 times."""
    waits = job["state"] == JobState.PENDING
    size = f"{job['gpus']} gpu" if job["gpus"] else f"{job['cpus']} cpu"
    start = ""
    if waits and (band := starts.get(job["id"])) is not None:
        start = f"{brief(band[0])}-{brief(band[1])}"
    why = why_text(job) if waits else progress_text(job)
    return Row(
        job["id"], clean(job["label"]), clean(job["name"]), clean(job["user"]) or "-", size,
        SHORT.get(job["state"], str(job["state"])), clock_text(span_s(job, now)), start, why,
    )  # fmt: skip


SHORT = {"PENDING": "wait", "RUNNING": "run", "COMPLETING": "ending"}
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"))


def brief(seconds: float) -> str:
    """Return a duration in at most four characters: `now`, `40s`, `12m`, `3h`, `2d`."""
    if seconds < 1:
        return "now"
    for length, unit in UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}" if seconds < 999.5 * length else f">999{unit}"
    return f"{seconds:.0f}s"


def matches(row: Row, words: Sequence[str], states: str) -> bool:
    """Return whether a row is in one of the states, and each word is in one of its texts.

    Args:
        words: in lower case.
        states: "" = any, else `run` or `wait`.
    """
    if states and row.state != states and not (states == "run" and row.state == "ending"):
        return False
    texts = [text.lower() for text in (row.label, row.name, row.user, row.size, row.why)]
    return all(any(word in text for text in texts) for word in words)


HEADS = {
    "label": "job", "name": "name", "user": "user", "size": "size", "state": "state",
    "time": "time", "start": "start", "why": "why or progress",
}  # fmt: skip
"""Columns of the queue, with their titles."""
FIXED = {"label": 8, "user": 8, "size": 7, "state": 6, "time": 8, "start": 9}
SPARED = ("user", "size", "time")
"""Columns that a narrow terminal goes without, in this order."""
LEAST_NAME, LEAST_WHY = 8, 16


def widths(columns: int) -> dict[str, int]:
    """Return the width of each column of the queue that a terminal of this width shows.

    The name and the reason share what the others leave.
    """
    fixed = dict(FIXED)
    for spared in ("", *SPARED):
        fixed.pop(spared, None)
        room = columns - sum(fixed.values()) - len(fixed) - len(("name", "why")) - SCROLLBAR
        if room >= LEAST_NAME + LEAST_WHY:
            break
    name = max(LEAST_NAME, min(32, room - LEAST_WHY, room // 2))
    free = {"name": name, "why": max(room - name, LEAST_WHY)}
    both = fixed | free
    return {column: both[column] for column in HEADS if column in both}


def cells(row: Row, columns: Mapping[str, int]) -> list[str]:
    """Return the texts of a row, cut to the widths of its columns."""
    return [cut(getattr(row, name), width) for name, width in columns.items()]


def cut(text: str, width: int) -> str:
    """Return a text that is at most this wide; what is cut off ends in an ellipsis."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
