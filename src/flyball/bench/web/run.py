"""What the dashboard costs: the first paint, a viewer, twenty viewers, and memory over a long time.

A real `flyball up` on virtual nodes, and Debian's Chromium by Playwright (tools of `dev`). The CPU
time is that of the control plane's process, which other load on the machine hardly changes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from flyball.bench.figure import Bar, Figure
from flyball.bench.submit.server import Up
from flyball.bench.web.gantt import gantt
from flyball.bench.web.soak import soak
from flyball.bench.web.viewer import DEVICES, NODES, Viewer, browser, virtual_cluster

Note = Callable[[str], None]

PAINT_S = 1.5
"""Bar of the first useful paint: the first rows of the queue."""
VIEWER_PERCENT = 1.5
"""Bar of what a viewer costs, in percent of a core, beside none."""
IDLE_PERCENT = 0.2
"""Bar of what the pages cost once they are loaded and nobody looks."""
PAIRS, T95 = 5, 2.776
"""Spans with viewers that are each compared with one before it, and Student's t for that many."""
SETTLE_S = 3.0
"""After viewers have come or gone."""
PARTS = ("viewers", "gantt")
"""What is measured besides the soak."""
VIEWERS = 20
QUEUED = 5_000
STIRRED, STIR_S = 10, 20.0
"""Nodes on which jobs come and go in the second part, and how long each of these jobs runs."""
HELD_S = 60_000.0


@dataclass(frozen=True)
class Settings:
    """How long each part is measured, in seconds; `soak_s` 0 = no soak."""

    span_s: float = 30.0
    soak_s: float = 0.0
    paints: int = 5
    parts: Sequence[str] = PARTS


def run(note: Note, settings: Settings) -> list[Figure]:
    """Measure everything on one server.

    Raises:
        Unavailable: there is no browser.
    """
    figures: list[Figure] = []
    with browser() as chromium:
        if "viewers" in settings.parts:
            with virtual_cluster() as up:
                for figure in _figures(note, settings, chromium, up):
                    note(f"{figure.name}: {figure.value:.3g} {figure.unit}")
                    figures.append(figure)
        if "gantt" in settings.parts:
            with virtual_cluster() as up:
                figures += gantt(note, chromium, up)
        if settings.soak_s:
            with virtual_cluster() as up:
                figures += soak(note, settings.soak_s, chromium, up)
    return figures


def _figures(note: Note, settings: Settings, chromium: Any, up: Up) -> Iterator[Figure]:
    # 1. Fill the cluster and the queue.
    note(f"submitting {QUEUED:,} jobs that wait and {NODES * DEVICES:,} devices full of work")
    fill(up)
    process = psutil.Process(up.process.pid)
    yield Figure(
        "pages loaded before the first viewer", float(_has_pages(process)), "", Bar(most=0)
    )
    idle = percent(up, settings.span_s)
    yield Figure("nobody looks", idle, "% of a core")
    before_mib = process.memory_info().rss / 2**20
    # 2. The first paint, by new browsers without a cache, after the pages were loaded once.
    Viewer(chromium, up).close()
    loaded_mib = process.memory_info().rss / 2**20
    yield Figure("memory of the pages, once loaded", loaded_mib - before_mib, "MiB")
    times = sorted(_paint_s(chromium, up) for _ in range(settings.paints))
    median_s = times[len(times) // 2]
    yield Figure(
        "queue of 5,000: first rows", median_s, "s", Bar.at_most(PAINT_S), times[0], times[-1]
    )
    yield Figure(
        "nobody looks any more, beside before", percent(up, settings.span_s) - idle, "% of a core",
        Bar.at_most(IDLE_PERCENT),
    )  # fmt: skip
    # 3. One viewer, then twenty, each beside none; then the same while jobs start and end.
    for moving in (False, True):
        if moving:
            note(f"{stir(up)} jobs start and end every {STIR_S:g} s from now on")
        for count in (1, VIEWERS):
            note(f"{count} viewers")
            used, low, high = _viewers_cost(chromium, up, count, settings.span_s)
            bar = Bar.at_most(VIEWER_PERCENT if count == 1 else VIEWER_PERCENT * VIEWERS)
            while_ = "while jobs start and end" if moving else "nothing changes"
            name = f"viewers: {count}, at 1 Hz with 1,600 devices, {while_}"
            yield Figure(name, used, "% of a core", bar, low, high)


def _viewers_cost(
    chromium: Any, up: Up, count: int, span_s: float
) -> tuple[float, float | None, float | None]:
    """Return what viewers cost the control plane beside none: mean and 95 % interval.

    Spans with and without a viewer take turns, as what else it does changes over time. Twenty are
    compared once, without an interval.
    """
    gaps = []
    pairs = PAIRS if count == 1 else 1  # twenty browsers take long to open
    for _ in range(pairs):
        before = percent(up, span_s / pairs)
        viewers = [Viewer(chromium, up) for _ in range(count)]
        time.sleep(SETTLE_S)
        gaps.append(percent(up, span_s / pairs) - before)
        for viewer in viewers:
            viewer.close()
        time.sleep(SETTLE_S)
    mean = statistics.fmean(gaps)
    if pairs == 1:
        return mean, None, None
    half = T95 * statistics.stdev(gaps) / PAIRS**0.5
    return mean, mean - half, mean + half


def fill(up: Up) -> None:
    """Submit jobs that keep the devices busy, and thousands that wait."""
    held = [{"argv": ["true"], "gpus": DEVICES, "estimate_s": HELD_S}] * NODES
    short = [{"argv": ["true"], "name": f"job-{at}", "gpus": 1, "estimate_s": STIR_S}
             for at in range(QUEUED)]  # fmt: skip
    with up.client() as client:
        client.submit_many(held)
        client.submit_many(short)


def stir(up: Up) -> int:
    """Free some nodes, on which waiting jobs then run in turn; return how many run at a time."""
    with up.client() as client:
        for job in client.queue(limit=STIRRED):
            client.cancel(job["id"])
    return STIRRED * DEVICES


def percent(up: Up, span_s: float) -> float:
    """Return the CPU time of the control plane over a span, in percent of a core."""
    before_s, began_s = up.cpu_s(), time.monotonic()
    time.sleep(span_s)
    return 100 * (up.cpu_s() - before_s) / (time.monotonic() - began_s)


def _has_pages(process: psutil.Process) -> bool:
    """Return whether the process has loaded the framework of the pages."""
    return any("aiohttp" in row.path for row in process.memory_maps())


def _paint_s(chromium: Any, up: Up) -> float:
    viewer = Viewer(chromium, up)
    viewer.page.goto(viewer.url + "/queue")
    viewer.page.wait_for_selector(".ag-row")
    took_ms = viewer.page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => done(performance.now())))"
    )
    viewer.close()
    return float(took_ms) / 1000
