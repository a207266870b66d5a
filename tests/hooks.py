"""A web hook on a real loopback socket: remembers what was posted, answers as a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.until import WAIT_S


class Posted(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Hook:
    """What was posted, and what holds back answers to `/blocked` and `/drip`."""

    url: str = ""
    posted: list[Posted] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)

    def ids(self, path: str = "") -> list[int]:
        """The jobs that were posted (to a path), in order."""
        return [request.body["id"] for request in self.posted if path in ("", request.path)]


@contextmanager
def hook_server() -> Iterator[Hook]:
    """Serve until the block ends. `/ok` 204, `/fail` 500, `/redirect` to `/ok`."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.posted.append(Posted(self.path, dict(self.headers.items()), body))
            if self.path == "/drip":
                self._drip()
                return
            if self.path == "/blocked":
                hook.opened.wait(WAIT_S)
            self.send_response({"/fail": 500, "/redirect": 302}.get(self.path, 204))
            if self.path == "/redirect":
                self.send_header("Location", f"{hook.url}/ok")
            self.end_headers()

        def _drip(self) -> None:
            """Never be silent for long, and never finish."""
            try:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not hook.opened.wait(0.05):
                    self.wfile.write(b"x")
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hook
    finally:
        hook.opened.set()
        server.shutdown()
        server.server_close()
        thread.join()


def await_true(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until a condition holds."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, f"waited in vain for {what}"
        time.sleep(0.02)
