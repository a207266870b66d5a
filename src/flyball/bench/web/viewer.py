"""A control plane on virtual nodes, and Debian's Chromium that looks at its pages."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.bench.submit.server import Up, running, state_folder
from flyball.core.errors import Unavailable

NODES, DEVICES = 200, 8
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOW_TO_GET = "make servers installs chromium, pip install playwright its driver"
CLUSTER = f"""name: bench
nodes:
  - {{name: n, count: {NODES}, device: A100, devices: {DEVICES}, cpus: 64, memory_gib: 512}}
"""


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

    def heap_mib(self) -> float:
        """Return the memory of the page's script, once what is unused was freed."""
        session = self.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        used: float = session.send("Runtime.getHeapUsage")["usedSize"]
        session.detach()
        return used / 2**20

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


@contextlib.contextmanager
def virtual_cluster() -> Iterator[Up]:
    """Run a control plane on 1,600 virtual devices."""
    options = ("--engine", "twin", "--no-foresight", "--cluster")
    with (
        state_folder(Path(tempfile.gettempdir())) as folder,
        cluster_file() as cluster,
        running(folder, *options, str(cluster)) as up,
    ):
        yield up
