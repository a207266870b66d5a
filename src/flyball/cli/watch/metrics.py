"""Serves Prometheus metrics on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from flyball.api.metrics_text import MEDIA_TYPE, text_of
from flyball.core.errors import BadInput

Rows = list[tuple[str, dict[str, str], float]]
LOOPBACK = "127.0.0.1"


def serve_metrics(port: int, rows: Callable[[], Rows]) -> ThreadingHTTPServer:
    """Serve metrics in a thread until `shutdown`.

    Args:
        port: 0 = any free one; the server's `server_port` tells it.
        rows: returns the present figures.

    Raises:
        BadInput: the port is taken or not ours to use.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = text_of(rows())
            self.send_response(200)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing: the terminal shows the table."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise BadInput(f"port {port} is not available ({error.strerror})", "name another") from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
