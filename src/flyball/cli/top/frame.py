"""The state of the cluster at one moment, and its picture as plain lines."""

from __future__ import annotations

import itertools
import string
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flyball.cli.formats import Job, clean, clock_text, size_text, span_s
from flyball.cli.jobs.queue import grouped, label_of, why_text
from flyball.cli.jobs.sensor_text import device_lines, uses_text
from flyball.cli.jobs.show import progress_text
from flyball.cli.live import unit_of
from flyball.core.jobs import JobState
from flyball.core.units import duration_text

if TYPE_CHECKING:
    from rich.text import Text

    from flyball.sdk.client import Client

LETTERS = string.ascii_uppercase + string.ascii_lowercase
COLOURS = ("blue", "green", "magenta", "cyan", "yellow", "red")
IDLE, SHARED, DOWN = ".", "+", "x"
WINDOW_S = 300.0
"""Length of the window over which rates are counted."""
LOOK_BACK_S = 86_400.0
MAX_RATED = 1000
"""Maximum number of jobs that rates are computed from: the newest of the last day."""
MAX_ACTIVE = 1000
"""Maximum number of active jobs requested; the others are only counted."""


class Rates(NamedTuple):
    """Counts of the last minutes; `partial` if they cover only the newest jobs."""

    submitted: int
    started: int
    ended: int
    mean_wait_s: float | None
    partial: bool = False


class Snapshot(NamedTuple):
    """Holds the state of the cluster at one moment.

    Attributes:
        queue: the first active jobs, more than any terminal shows.
        total, waiting: number of active jobs, and of those that wait.
        sensors: the newest measured values.
    """

    now: float
    nodes: Sequence[Mapping[str, Any]]
    queue: Sequence[Job]
    total: int
    waiting: int
    rates: Rates
    sensors: Mapping[str, Any]


# Querying --------------------------------------------------------------------------


def take_snapshot(client: Client, rates: Rates) -> Snapshot:
    """Query the server for everything that a frame shows."""
    page, nodes, sensors = client.queue_page(MAX_ACTIVE), client.nodes(), client.telemetry()
    return Snapshot(
        time.time(), nodes, page["jobs"], page["total"], page["pending"], rates, sensors
    )


def recent_rates(client: Client) -> Rates:
    """Query the server for the newest jobs and count their recent events."""
    now = time.time()
    jobs = client.jobs(since=now - LOOK_BACK_S, limit=MAX_RATED)
    return rates_of(list(itertools.islice(jobs, MAX_RATED)), now)


def rates_of(jobs: Sequence[Job], now: float) -> Rates:
    """Count the events of these jobs in the window that ends now."""

    def in_window(moment: float | None) -> bool:
        return moment is not None and moment >= now - WINDOW_S

    waits = [job["start_time"] - job["submit_time"] for job in jobs if in_window(job["start_time"])]
    return Rates(
        sum(in_window(job["submit_time"]) for job in jobs),
        len(waits),
        sum(in_window(job["end_time"]) for job in jobs),
        sum(waits) / len(waits) if waits else None,
        len(jobs) >= MAX_RATED,
    )


# Drawing ---------------------------------------------------------------------------


def letters_of(jobs: Sequence[int]) -> dict[int, str]:
    """Assign a letter to each job, the same from frame to frame where possible."""
    taken: dict[str, int] = {}
    for job in sorted(jobs):
        places = (LETTERS[(job + step) % len(LETTERS)] for step in range(len(LETTERS)))
        taken.setdefault(next((letter for letter in places if letter not in taken), "*"), job)
    letters = {job: letter for letter, job in taken.items()}
    return {job: letters.get(job, "*") for job in jobs}


def blocks(node: Mapping[str, Any], letters: Mapping[int, str]) -> Text:
    """Return one block per device of a node, with the letter of the job that holds it."""
    from rich.text import Text

    row = Text()
    for held in node["held"]:
        if not node["up"]:
            row.append(DOWN, "dim red")
        elif not held:
            row.append(IDLE, "dim")
        elif len(held) > 1:
            row.append(SHARED, "black on white")
        else:
            letter = letters.get(held[0], "*")
            row.append(letter, f"black on {COLOURS[held[0] % len(COLOURS)]}")
    return row


def frame(snapshot: Snapshot, height: int) -> list[Text]:
    """Return the lines of one frame, at most `height`; what does not fit is counted."""
    from rich.text import Text

    running = [job for job in snapshot.queue if job["state"] != JobState.PENDING]
    waiting = grouped([job for job in snapshot.queue if job["state"] == JobState.PENDING])
    letters = letters_of([job["id"] for job in running])
    lines = [Text(line) for line in (head(snapshot), rates_text(snapshot.rates))]
    if sensors := sensors_text(snapshot.sensors):
        lines.append(Text(sensors))
    lines += [Text(line) for line in device_lines(snapshot.sensors)]
    width = max((len(clean(node["name"])) for node in snapshot.nodes), default=0)
    for node in snapshot.nodes:
        row = Text(f"{clean(node['name']):{width}}  {clean(node['device'])} ")
        row.append_text(blocks(node, letters))
        lines.append(row.append(f" {node['used']}/{node['devices']}"))
    room = max(4, height - len(lines) - 4)
    shown = min(len(running), room if not waiting else max(room // 2, room - len(waiting)))
    lines.append(Text(f"running ({snapshot.total - snapshot.waiting:,})", "bold"))
    for job in running[:shown]:
        colour = COLOURS[job["id"] % len(COLOURS)]
        row = Text("  ").append(letters[job["id"]], f"black on {colour}")
        lines.append(row.append(f" {_line(job, snapshot)}"))
    lines += [Text(line) for line in _more(snapshot.total - snapshot.waiting - shown)]
    lines.append(Text(f"waiting ({snapshot.waiting:,})", "bold"))
    fits = max(1, room - shown)
    lines += [Text(f"    {_waiting(group, snapshot.now)}") for group in waiting[:fits]]
    lines += [Text(line) for line in _more(snapshot.waiting - sum(map(len, waiting[:fits])))]
    return lines


def head(snapshot: Snapshot) -> str:
    """Return the first line: time, devices in use, jobs."""
    used, total = (
        sum(int(node[field]) for node in snapshot.nodes) for field in ("used", "devices")
    )
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.now))
    busy = f"{used:,} of {total:,} {unit_of(snapshot.nodes)}s busy"
    running = snapshot.total - snapshot.waiting
    return f"flyball top  {clock}  {busy}, {running:,} running, {snapshot.waiting:,} waiting"


def rates_text(rates: Rates) -> str:
    """Return the counts of the last minutes in a line."""
    wait = "" if rates.mean_wait_s is None else f", mean wait {duration_text(rates.mean_wait_s)}"
    minutes = f"{WINDOW_S / 60:.0f} min"
    counts = f"{rates.submitted:,} submitted, {rates.started:,} started, {rates.ended:,} ended"
    whose = f", the newest {MAX_RATED:,} jobs" if rates.partial else ""
    return f"last {minutes}{whose}: {counts}{wait}"


def sensors_text(sensors: Mapping[str, Any]) -> str:
    """Return use, memory and power, if measured."""
    parts = []
    if (percent := sensors.get("compute.total_percent")) is not None:
        parts.append(f"cores {percent:.0f} %")
    total, free = (sensors.get(f"memory.{part}_bytes") for part in ("total", "available"))
    if total and free is not None:
        parts.append(f"memory {size_text((total - free) / 2**20)} of {size_text(total / 2**20)}")
    power = [
        (name.removeprefix("power.").removesuffix("_w"), value)
        for name, value in sensors.items()
        if name.startswith("power.") and name.endswith("_w") and value is not None
    ]
    parts += [f"{clean(name)} {value:.0f} W" for name, value in power[:3]]
    return ", ".join(parts)


def _line(job: Job, snapshot: Snapshot) -> str:
    details = "  ".join(filter(None, (uses_text(snapshot.sensors, job["id"]), progress_text(job))))
    now = snapshot.now
    size = f"{job['gpus']} gpu" if job["gpus"] else f"{job['cpus']} cpu"
    name = clean(job["name"])[:24]
    ending = "" if job["state"] == JobState.RUNNING else f" {job['state']}"
    return (
        f"{job['label']:>8} {name:24} {size:>7} {clock_text(span_s(job, now)):>9}{ending} {details}"
    )


def _waiting(group: Sequence[Job], now: float) -> str:
    job = group[0]
    size = f"{job['gpus']} gpu" if job["gpus"] else f"{job['cpus']} cpu"
    reason = why_text(job)
    name = clean(job["name"])[:24]
    return f"{label_of(group):>8} {name:24} {size:>7} {clock_text(span_s(job, now)):>9} {reason}"


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"    and {count:,} more"
