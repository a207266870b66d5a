"""What the dashboard costs: the first paint, a viewer, twenty viewers, and memory over a long time.

A real `flyball up` on virtual nodes, and Debian's Chromium by Playwright (tools of `dev`). The CPU
time is that of the control plane's process, which other load on the machine hardly changes.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from flyball.bench.figure import Bar, Figure
from flyball.bench.submit.server import Up, running, state_folder
from flyball.core.errors import Unavailable

Note = Callable[[str], None]

PAINT_S = 1.5
"""Bar of the first useful paint: the first rows of the queue."""
VIEWER_PERCENT = 1.5
"""Bar of what a viewer costs, in percent of a core, beside none."""
GROWTH_MIB = 16.0
"""Bar of the growth of memory during the soak, after its first tenth."""
VIEWERS = 20
QUEUED = 5_000
NODES, DEVICES = 200, 8
RUN_S = 600.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOW_TO_GET = "make servers installs chromium, pip install playwright its driver"
CLUSTER = f"""name: bench
nodes:
  - {{name: n, count: {NODES}, device: A100, devices: {DEVICES}, cpus: 64, memory_gib: 512}}
"""


@dataclass(frozen=True)
class Settings:
    """How long each part is measured, in seconds; `soak_s` 0 = no soak."""

    span_s: float = 30.0
    soak_s: float = 0.0
    paints: int = 5


def run(note: Note, settings: Settings) -> list[Figure]:
    """Measure everything on one server.

    Raises:
        Unavailable: there is no browser.
    """
    with browser() as chromium, state_folder(Path(tempfile.gettempdir())) as folder:
        options = ("--engine", "twin", "--no-foresight", "--cluster")
        with cluster_file() as cluster, running(folder, *options, str(cluster)) as up:
            return list(_figures(note, settings, chromium, up))


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
    # 3. One viewer, then twenty, each beside none.
    for count in (1, VIEWERS):
        note(f"{count} viewers")
        viewers = [Viewer(chromium, up) for _ in range(count)]
        used = percent(up, settings.span_s)
        for viewer in viewers:
            viewer.close()
        beside = percent(up, settings.span_s)
        bar = Bar.at_most(VIEWER_PERCENT if count == 1 else VIEWER_PERCENT * VIEWERS)
        yield Figure(
            f"viewers: {count}, at 1 Hz with 1,600 devices", used - beside, "% of a core", bar
        )
    # 4. Memory over a long time.
    if settings.soak_s:
        yield _soak(note, settings.soak_s, chromium, up, process)


def _soak(note: Note, length_s: float, chromium: Any, up: Up, process: psutil.Process) -> Figure:
    """Return the growth of memory while a viewer looks and jobs come and go."""
    viewer = Viewer(chromium, up)
    first_mib, began_s = 0.0, time.monotonic()
    with up.client() as client:
        while (passed_s := time.monotonic() - began_s) < length_s:
            client.submit(["true"], cwd="/", gpus=1, estimate_s=5)
            time.sleep(1.0)
            if not first_mib and passed_s > length_s / 10:
                first_mib = process.memory_info().rss / 2**20
    last_mib = process.memory_info().rss / 2**20
    viewer.close()
    note(f"{first_mib:.0f} MiB after a tenth of the soak, {last_mib:.0f} MiB at its end")
    name = f"growth of memory in {length_s / 60:.0f} min of pushes"
    return Figure(name, last_mib - first_mib, "MiB", Bar.at_most(GROWTH_MIB))


def fill(up: Up) -> None:
    """Submit jobs that keep the devices busy, and thousands that wait."""
    held = [{"argv": ["true"], "gpus": DEVICES, "estimate_s": RUN_S * 100}] * NODES
    short = [{"argv": ["true"], "name": f"job-{at}", "gpus": 1, "estimate_s": RUN_S}
             for at in range(QUEUED)]  # fmt: skip
    with up.client() as client:
        client.submit_many(held)
        client.submit_many(short)


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


class Viewer:
    """A browser that is logged in and looks at Now."""

    def __init__(self, chromium: Any, up: Up) -> None:
        with up.client() as client:
            link = str(client.link()["url"])
        self.context = chromium.new_context(viewport={"width": 1440, "height": 900})
        self.page = self.context.new_page()
        self.url = link.partition("/open")[0]
        self.page.goto(link)
        self.page.wait_for_url("**/now")
        self.page.wait_for_selector("canvas")

    def close(self) -> None:
        self.context.close()


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium.

    Raises:
        Unavailable: it or its driver is not installed.
    """
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Unavailable("playwright is not installed", HOW_TO_GET) from error
    if path is None:
        raise Unavailable("chromium is not installed", HOW_TO_GET)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@contextlib.contextmanager
def cluster_file() -> Iterator[Path]:
    """Write the cluster file of 1,600 devices."""
    with tempfile.TemporaryDirectory(prefix="flyball-bench-") as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(CLUSTER, "utf-8")
        yield path
