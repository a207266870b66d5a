"""Debian's Chromium, driven by Playwright, and a control plane of its own for the pages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.until import WAIT_S, until

from flyball.sdk.client import Client

HOW_TO_GET = "as root: apt install chromium (make servers does it)"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SLOW_MS = WAIT_S * 1000
EXPECTED = ("Failed to load resource", "WebSocket connection to")
"""Starts of what the console says of a server that is gone, or refuses."""


def chromium() -> str | None:
    """Return the path of the browser; None if it is not installed."""
    return shutil.which("chromium")


class Server:
    """A control plane in a process of its own."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state, self.options = state, options
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is up; again after it was killed."""
        command = [sys.executable, "-m", "flyball", "up", "--state", str(self.state)]
        self.process = subprocess.Popen(
            [*command, *self.options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("flyball is up: "):
                self.url = line.split()[-1]
                return
        raise AssertionError(f"it did not start: exit code {self.process.wait()}")

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def link(self, read_only: bool = False) -> str:
        """Return a link that opens the pages once."""
        with Client(self.state) as client:
            return str(client.link(read_only)["url"])

    def client(self) -> Client:
        return Client(self.state)


class Viewer:
    """A browser of its own, which is logged in; notes what goes wrong in it.

    Attributes:
        page: the page of Playwright.
        faults: errors and warnings of the console, and errors that no code caught.
        foreign: addresses outside the server that something asked for.
    """

    def __init__(self, browser: Any, server: Server, link: str = "", **settings: Any) -> None:
        self.server = server
        self.context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, **settings}
        )
        self.context.set_default_timeout(SLOW_MS)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._check)
        self.page.on("websocket", self._check)
        self.page.goto(link or server.link())
        self.page.wait_for_url("**/now")

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.text} {message.location.get('url', '')}".strip())

    def _check(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if (
            parts.scheme not in ("data", "blob")
            and parts.netloc != urlsplit(self.server.url).netloc
        ):
            self.foreign.append(request.url)

    def go(self, path: str) -> Any:
        """Open a view and return the page."""
        self.page.goto(self.server.url + path)
        self.page.wait_for_selector("h1")
        return self.page

    def sees(self, text: str) -> None:
        """Wait until the page shows a text."""
        until(lambda: text in self.page.inner_text("body"), f"the text {text!r}", every_s=0.1)

    def check_clean(self, expected: Sequence[str] = ()) -> None:
        """Assert that nothing went wrong, and that nothing left the machine."""
        faults = [fault for fault in self.faults if not fault.startswith(tuple(expected))]
        assert not faults, json.dumps(faults, indent=1)
        assert not self.foreign, self.foreign

    def close(self) -> None:
        self.context.close()
