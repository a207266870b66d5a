"""Memory of the control plane and of an open page, while jobs come and go for a long time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil

from flyball.bench.figure import Bar, Figure
from flyball.bench.submit.server import Up
from flyball.bench.web.viewer import DEVICES, NODES, Viewer

GROWTH_MIB = 16.0
"""Bar of the growth from the first sixth to the last: of the server, and of the page."""
EVERY_S = 1.0
PER_STEP, RUN_S = 4, 20.0
"""Jobs that are submitted in each step, and how long each runs."""
BUSY_NODES = NODES - 10
SAMPLES_S = 60.0
NOTED_S = 300.0


def soak(note: Callable[[str], None], length_s: float, chromium: Any, up: Up) -> list[Figure]:
    """Return how memory grew while a page was open and jobs started and ended."""
    process = psutil.Process(up.process.pid)
    held = [{"argv": ["true"], "gpus": DEVICES, "estimate_s": 10 * length_s}] * BUSY_NODES
    short = [{"argv": ["true"], "name": "short", "gpus": 1, "estimate_s": RUN_S}] * PER_STEP
    viewer = Viewer(chromium, up)
    server_mib: list[float] = []
    page_mib: list[float] = []
    began_s = time.monotonic()
    with up.client() as client:
        client.submit_many(held)
        while (passed_s := time.monotonic() - began_s) < length_s:
            client.submit_many(short)
            viewer.page.wait_for_timeout(EVERY_S * 1000)
            if passed_s >= len(server_mib) * min(SAMPLES_S, length_s / 12):
                server_mib.append(process.memory_info().rss / 2**20)
                page_mib.append(viewer.heap_mib())
                if passed_s % NOTED_S < SAMPLES_S:
                    note(f"{passed_s / 60:.0f} min: {server_mib[-1]:.1f}, {page_mib[-1]:.1f} MiB")
        ended = sum(1 for _job in client.jobs(state=["COMPLETED"], limit=1000))
    viewer.close()
    note("server, MiB: " + " ".join(f"{value:.1f}" for value in server_mib))
    note("page, MiB: " + " ".join(f"{value:.1f}" for value in page_mib))
    minutes = f"{length_s / 60:.0f} min, {ended:,} jobs ended"
    return [
        Figure(f"growth of the server's memory in {minutes}", _growth(server_mib), "MiB",
               Bar.at_most(GROWTH_MIB)),
        Figure(f"growth of an open page's memory in {minutes}", _growth(page_mib), "MiB",
               Bar.at_most(GROWTH_MIB)),
    ]  # fmt: skip


def _growth(samples_mib: list[float]) -> float:
    """Return the mean of the last sixth less that of the second: the first one warms up."""
    part = max(1, len(samples_mib) // 6)
    first, last = samples_mib[part : 2 * part], samples_mib[-part:]
    return sum(last) / len(last) - sum(first) / len(first)
