"""Reports from a machine that is not the control plane's: HTTP with the attempt's token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PROGRAM = "import flyball\nfor step in range(50): flyball.report(step=step, loss=0.5)\n"


class Listener(ThreadingHTTPServer):
    """Keeps what is posted."""

    posts: list[tuple[str, str, dict[str, float]]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Listener)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, self.headers["Authorization"], body["values"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener(("127.0.0.1", 0), Handler) as server:
        server.posts = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("FLYBALL_")
    }
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**environment, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_last_values_arrive_with_the_token_of_the_attempt(listener: Listener) -> None:
    url = f"http://127.0.0.1:{listener.server_port}"
    done = run(FLYBALL_JOB_ID="7", FLYBALL_URL=url, FLYBALL_TOKEN="fba_7_1_x")
    assert (done.returncode, done.stderr) == (0, "")
    assert {(path, token) for path, token, _values in listener.posts} == {
        ("/api/v1/attempt/report", "Bearer fba_7_1_x")
    }
    assert listener.posts[-1][2] == {"step": 49, "loss": 0.5}
    assert len(listener.posts) < 10, "merged"


def test_nobody_who_listens_is_no_reason_to_fail() -> None:
    done = run(FLYBALL_JOB_ID="7", FLYBALL_URL="http://127.0.0.1:9", FLYBALL_TOKEN="x")
    assert (done.returncode, done.stderr) == (0, "")
