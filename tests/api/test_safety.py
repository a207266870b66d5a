"""Requests that must be refused: foreign hosts and origins, wrong tokens, floods, large bodies."""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from tests.api.test_jobs import JOBS, refused
from tests.api.world import SLEEP, World, calling
from tests.until import WAIT_S, until

from flyball.api.callers import Callers
from flyball.api.guard import Guard
from flyball.api.metrics_text import Counts
from flyball.api.settings import ApiSettings
from flyball.api.token import Secret
from flyball.control.access.user_tokens import UserTokens
from flyball.control.plane import Plane
from flyball.core.errors import Unavailable

BEARER = "Authorization"


def raw(port: int, text: bytes) -> bytes:
    """Send bytes and return everything that the server replies."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_every_route_wants_the_token(world: World, client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    with world.server(failure_burst=10_000) as server, httpx.Client(base_url=server.url) as bare:
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                answer = bare.request(method, path.replace("{job}", "1"))
                if operation.get("security") == []:
                    assert answer.status_code == 200, path
                else:
                    problem = refused(answer, 401, "unauthorized")
                    assert "Bearer" in problem["remedy"]
                    assert answer.headers["www-authenticate"].startswith("Bearer")
        assert bare.get("/nowhere").status_code == 401
        assert {path for path in document["paths"] if "/api/" not in path} == {
            "/healthz", "/metrics", "/openapi.json", "/docs",
        }  # fmt: skip


def test_wrong_tokens_are_refused_and_audited(world: World, client: httpx.Client) -> None:
    token = world.token
    wrong = [
        "Bearer",
        f"Basic {token}",
        f"Bearer {token}x",
        f"Bearer {token[:-1]}",
        token,
    ]
    for header in wrong:
        refused(client.get(JOBS, headers={BEARER: header}), 401)
    assert client.get(JOBS, headers={BEARER: f"bearer {token}"}).status_code == 200
    until(lambda: len(world.plane.ask.events(0, 100, ["audit"])) == len(wrong))
    audit = world.plane.ask.events(0, 100, ["audit"])[0]
    assert (audit["what"], audit["who"]) == ("token refused", "127.0.0.1")
    assert token[:8] not in str(audit)


def test_hosts_and_origins(client: httpx.Client) -> None:
    port = client.base_url.port
    address = f"127.0.0.1:{port}"
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.2",
                 "localhost:x", "user@localhost", "", "[::2]", "localhost:99999999"):  # fmt: skip
        refused(client.get(JOBS, headers={"Host": host}), 421, "host-refused")
        refused(client.get("/healthz", headers={"Host": host}), 421, "host-refused")
    for host in (f"localhost:{port}", "LOCALHOST", "[::1]:80", address):
        assert client.get(JOBS, headers={"Host": host}).status_code == 200
    for origin in ("http://evil.example", "null", "http://localhost:1", f"ftp://{address}", ""):
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            answer = client.request(method, JOBS, headers={"Origin": origin})
            refused(answer, 403, "origin-refused")
            assert "access-control-allow-origin" not in answer.headers
    assert client.get(JOBS, headers={"Origin": f"http://{address}"}).status_code == 200


def test_two_hosts_are_none(world: World, client: httpx.Client) -> None:
    port = client.base_url.port or 0
    reply = raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
    assert b" 400 " in reply or b" 421 " in reply
    reply = raw(port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert b" 421 " in reply


def test_guesses_are_slowed_down(world: World) -> None:
    with (
        world.server(failure_burst=5, failure_rate=0.01) as server,
        calling(server, world.token) as good,
        calling(server, "wrong" * 10) as bad,
    ):
        answers = [bad.get(JOBS).status_code for _ in range(8)]
        assert answers == [401] * 5 + [429] * 3
        problem = bad.get(JOBS)
        refused(problem, 429, "too-many-requests")
        assert int(problem.headers["retry-after"]) > 1
        # The owner, at the same address, is not locked out by them.
        assert good.get(JOBS).status_code == 200


def test_rates_for_all_and_for_probes(world: World) -> None:
    with (
        world.server(burst=3, rate=0.01, open_burst=2, open_rate=0) as server,
        calling(server, world.token) as client,
        httpx.Client(base_url=server.url) as probe,
    ):
        assert [client.get(JOBS).status_code for _ in range(4)] == [200] * 3 + [429]
        assert [probe.get("/healthz").status_code for _ in range(3)] == [200] * 2 + [429]
        assert probe.get("/healthz").headers["retry-after"] == "3600"


def test_bodies_are_bounded_while_they_come(world: World) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b" " * 10_000

    with (
        world.server(one_bytes=50_000, batch_bytes=200_000) as server,
        calling(server, world.token) as client,
    ):
        kind = {"Content-Type": "application/json"}
        for path in (JOBS, f"{JOBS}/batch", f"{JOBS}/dry-run", f"{JOBS}/1/report"):
            try:
                answer = client.post(path, content=endless(), headers=kind)
            except httpx.TransportError:  # it stopped listening while we were still talking
                continue
            refused(answer, 413, "too-large")
        assert taken < 1000 * 4
        large = {**SLEEP, "env": {"A": "x" * 60_000}}
        refused(client.post(JOBS, json=large), 413)
        assert client.post(f"{JOBS}/batch", json={"jobs": [large]}).status_code == 201
        refused(client.post(f"{JOBS}/batch", json={"jobs": [large] * 4}), 413)
        assert len(client.get(JOBS).json()["jobs"]) == 1


def test_a_megabyte_of_noise_to_every_route(world: World, client: httpx.Client) -> None:
    noise = random.Random(1).randbytes(2**20)
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            for kind in ("application/json", "application/octet-stream"):
                for body in (noise, noise + b"x"):
                    try:
                        answer = client.request(
                            method, path.replace("{job}", "1"), content=body,
                            headers={"Content-Type": kind},
                        )  # fmt: skip
                    except httpx.TransportError:
                        continue  # it closed the connection instead of listening to the rest
                    assert answer.status_code < 500, (method, path)
    assert client.get("/healthz").json() == {"ok": True}


def test_noise_instead_of_http(client: httpx.Client) -> None:
    port = client.base_url.port or 0
    for seed in range(5):
        noise = random.Random(seed).randbytes(100_000)
        try:
            reply = raw(port, noise)
        except OSError:
            continue
        assert reply == b"" or b" 400 " in reply
    assert client.get("/healthz").status_code == 200


def test_headers_of_every_answer(client: httpx.Client) -> None:
    for path in ("/healthz", "/docs", JOBS, f"{JOBS}/99", "/nowhere", "/metrics"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_paths_and_methods_there_are_not(client: httpx.Client) -> None:
    for path in ("/", "/nowhere", "/api/v1", f"{JOBS}/", "/api/v1/jobs/../../etc/passwd", "//x"):
        refused(client.get(path), 404, "not-found")
    for method in ("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND"):
        answer = client.request(method, JOBS)
        assert answer.status_code == 405
        assert answer.headers["allow"]
        if method != "HEAD":
            refused(answer, 405, "method-not-allowed")


def test_errors_of_our_own(
    world: World, client: httpx.Client, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def broken() -> list[Any]:
        raise RuntimeError("secret detail")

    def full(*args: object) -> list[int]:
        raise Unavailable("the disk is full", "make room")

    monkeypatch.setattr(world.plane.ask, "nodes", broken)
    monkeypatch.setattr(world.plane, "submit", full)
    with caplog.at_level(logging.CRITICAL):
        problem = refused(client.get("/api/v1/nodes"), 500, "internal-error")
    assert "secret" not in str(problem)
    answer = client.post(JOBS, json=SLEEP)
    assert refused(answer, 503, "unavailable")["remedy"] == "make room"
    assert answer.headers["retry-after"] == "1"


def test_no_secret_in_the_logs(
    world: World, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        client.get(f"{JOBS}?name={world.token}")
        client.get(f"{JOBS}/%0aforged?x={world.token}")
        client.get(JOBS, headers={BEARER: f"Bearer {world.token}x"})
        until(lambda: "401" in caplog.text)
    ours = [record for record in caplog.records if record.name.startswith("flyball")]
    assert any("GET /api/v1/jobs 200" in record.getMessage() for record in ours)
    for record in ours:
        assert world.token not in record.getMessage()
        assert "\n" not in record.getMessage()


def test_many_submits_wait_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty connections get as far as the journal at the same time."""
    together = threading.Barrier(40, timeout=WAIT_S)
    submit = world.plane.submit

    def slow(*args: Any) -> list[int]:
        together.wait()
        return submit(*args)

    monkeypatch.setattr(world.plane, "submit", slow)
    ids: list[int] = []
    with world.server() as server:

        def send() -> None:
            with calling(server, world.token) as client:
                ids.append(client.post(JOBS, json=SLEEP).json()["id"])

        threads = [threading.Thread(target=send) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(ids) == list(range(1, 41))


def test_rates_follow_the_clock() -> None:
    from flyball.api.rates import Buckets

    now_s = 0.0
    buckets = Buckets(2.0, 2.0, lambda: now_s, most=2)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    now_s = 0.5
    assert buckets.take("a") == 0.0
    buckets.take("b")
    buckets.take("c")  # only two are remembered: "a" starts again
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.5]


def test_there_are_no_web_sockets() -> None:
    import asyncio

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*args: Any) -> Any:
        raise AssertionError("the request was not refused")

    plane, settings = cast(Plane, None), ApiSettings("x" * 40)
    callers = Callers(plane, UserTokens(None), Secret(settings.token))
    guard = Guard(never, settings, callers, lambda what, who: None, Counts())
    asyncio.run(guard({"type": "websocket"}, never, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
