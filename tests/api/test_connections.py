"""Clients without a token: how many connections, header bytes and seconds they may hold."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.api.test_serve import certificate
from tests.api.world import World, calling
from tests.until import WAIT_S, until

from flyball.api.bounded_http import MOST_PIPELINED
from flyball.api.connections import connection_limit
from flyball.api.serve import serve
from flyball.sdk.client import Client

JOBS = "/api/v1/jobs"
HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
DESCRIPTORS = 256
HANGING = 600
"""More than twice as many as the process may open files."""


def connect(port: int, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    if data:
        with contextlib.suppress(OSError):  # it may be dropped already
            connection.sendall(data)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Return everything up to the end of the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            received += piece
    return received


@contextlib.contextmanager
def hanging(port: int, count: int, data: bytes = HALF) -> Iterator[list[socket.socket]]:
    """Hold connections that begin a request and never finish it."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(port, data)) for _ in range(count)]


@pytest.fixture
def small_plane(tmp_path: Path) -> Iterator[Path]:
    """Run `flyball up` in a process that may open few files; the state folder."""
    state = tmp_path / "state"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    process = subprocess.Popen(
        [sys.executable, "-m", "flyball", "up", "--state", str(state), "--no-agent",
         "--no-foresight"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limit,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"flyball is up")
        yield state
    finally:
        process.kill()
        process.communicate()


def test_jobs_start_and_end_while_clients_hang(small_plane: Path, tmp_path: Path) -> None:
    port = urlsplit(json.loads((small_plane / "endpoint.json").read_text())["url"]).port
    assert port is not None
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done"
    with Client(small_plane) as client:
        first = client.submit(["/bin/sh", "-c", script])
        second = client.submit(["/bin/true"], after=[["afterok", first]])
        until(lambda: client.job(first)["state"] == "RUNNING", limit_s=WAIT_S)
        with hanging(port, HANGING):
            # The client's connection of before is kept; a new one is served as well.
            go.touch()
            assert client.wait(second, WAIT_S)["state"] == "COMPLETED"
            with Client(small_plane) as newcomer:
                third = newcomer.submit(["/bin/true"])
                assert newcomer.wait(third, WAIT_S)["state"] == "COMPLETED"
    assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=WAIT_S).json() == {"ok": True}


def test_limit_leaves_descriptors_to_the_engine() -> None:
    for descriptors in (64, 256, 1024, 4096):
        limit = connection_limit(10_000, descriptors)
        assert 2 * limit <= descriptors - min(256, descriptors // 2)
    assert connection_limit(1_000, 1_000_000) == 1_000
    assert connection_limit(1_000, resource.RLIM_INFINITY) == 1_000


def test_oldest_without_token_gives_way(world: World) -> None:
    with world.server(connections=8) as server, calling(server, world.token) as client:
        assert client.get(JOBS).status_code == 200
        with hanging(server.port, 20) as connections:
            assert client.get(JOBS).status_code == 200
            for connection in connections[:12]:
                assert read_all(connection) == b""
            # The newest may still finish their requests.
            connections[-1].sendall(b"x\r\n\r\n")
            assert connections[-1].recv(65536).startswith(b"HTTP/1.1 200")
            with calling(server, world.token) as newcomer:
                text = newcomer.get("/metrics").text
        assert 'flyball_api_dropped_total{why="limit"}' in text
        assert "flyball_api_connections 8.0" in text


def test_client_is_told_when_all_connections_are_in_use(world: World) -> None:
    with (
        world.server(connections=2) as server,
        calling(server, world.token) as first,
        calling(server, world.token) as second,
    ):
        stream = "/api/v1/events?follow=true"
        with (
            first.stream("GET", stream) as one,
            second.stream("GET", stream) as two,
        ):
            assert (one.status_code, two.status_code) == (200, 200)
            with connect(server.port) as third:
                answer = read_all(third)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"Retry-After: 1" in answer


def test_idle_connection_of_a_token_holder_gives_way_last(world: World) -> None:
    with (
        world.server(connections=1, idle_s=3600) as server,
        calling(server, world.token) as first,
        calling(server, world.token) as second,
    ):
        for _ in range(3):
            assert first.get(JOBS).status_code == 200
            assert second.get(JOBS).status_code == 200


def test_header_has_to_arrive_in_time(world: World) -> None:
    with world.server(header_s=0.5, idle_s=3600) as server:
        with connect(server.port, HALF) as half, connect(server.port) as silent:
            over = threading.Event()

            def drip() -> None:  # a byte now and then buys no time
                with contextlib.suppress(OSError):
                    while not over.wait(0.05):
                        half.sendall(b"x")

            thread = threading.Thread(target=drip)
            thread.start()
            try:
                assert read_all(half) == b""
                assert read_all(silent) == b""
            finally:
                over.set()
                thread.join()
        with calling(server, world.token) as client:
            assert 'why="header-time"' in client.get("/metrics").text


def test_body_after_a_refusal_has_to_end_in_time(world: World) -> None:
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n"
    with (
        world.server(header_s=0.5, idle_s=3600) as server,
        connect(server.port, head) as connection,
    ):
        assert connection.recv(65536).startswith(b"HTTP/1.1 401")
        connection.sendall(b"x")
        read_all(connection)


def test_idle_connection_is_closed(world: World) -> None:
    with world.server(idle_s=1) as server, connect(server.port, WHOLE) as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_header_bytes_are_bounded(world: World) -> None:
    long_value = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(5_000))
    with world.server(header_bytes=32_768) as server:
        sent = 0
        with connect(server.port, long_value) as connection:
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    connection.sendall(b"x" * 2**20)
                    sent += 2**20
            assert sent < 100 * 2**20
        for data in (
            long_value + b"x" * 40_000 + b"\r\n\r\n",
            b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n",
        ):
            with connect(server.port, data) as connection:
                received = read_all(connection)
                # The reset that follows unread bytes may overtake the answer.
                assert received == b"" or received.startswith(b"HTTP/1.1 431")
        with connect(server.port, long_value + b"x" * 20_000 + b"\r\n\r\n") as connection:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_endless_trailer_is_bounded(world: World) -> None:
    head = (
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\nX-Trailer: "
    )
    with (
        world.server() as server,
        connect(server.port, head) as connection,
        pytest.raises(ConnectionError),
    ):
        for _ in range(100):
            connection.sendall(b"x" * 2**20)


def test_pipelined_requests_are_bounded(world: World) -> None:
    with world.server(open_burst=1e6, open_rate=1e6) as server:
        with connect(server.port, WHOLE * (MOST_PIPELINED * 10)) as connection:
            assert read_all(connection).count(b"HTTP/1.1 200") <= MOST_PIPELINED + 1
        with connect(server.port, WHOLE * 10) as connection:
            received = b""
            while received.count(b"HTTP/1.1 200") < 10:
                piece = connection.recv(65536)
                assert piece
                received += piece


def test_tls_handshakes_count_and_end(world: World, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    settings = world.settings(connections=4, header_s=2)
    server = serve(world.plane, settings, "localhost", 0, cert, key)
    try:
        with contextlib.ExitStack() as stack:
            hung = [
                stack.enter_context(socket.create_connection(("localhost", server.port), WAIT_S))
                for _ in range(12)
            ]
            with Client(url=server.url, token=world.token, ca=str(cert)) as client:
                assert client.health()["ok"]
            for connection in hung:
                read_all(connection)
    finally:
        server.stop()
