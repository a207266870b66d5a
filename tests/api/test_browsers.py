"""Sessions of browsers: links that work once, cookies, read-only links, the web socket's guard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.api.world import World

from flyball.api.app import create_app
from flyball.api.guard import SOCKET_BURST
from flyball.api.sessions import CODE_S, SESSION_S, Sessions, cookie_in, cookie_name
from flyball.api.settings import ApiSettings
from flyball.api.token import Secret

SECRET = "s" * 40
HOST = "127.0.0.1:8700"
ORIGIN = f"http://{HOST}"
COOKIE = "flyball_8700"


class Time:
    """A clock that tests move."""

    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


async def load(api: FastAPI) -> ASGIApp:
    """Return pages that say which path was asked for."""

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": "heard"})
            return
        await PlainTextResponse(f"page {scope['path']}")(scope, receive, send)

    return pages


@pytest.fixture
def app(world: World) -> Iterator[FastAPI]:
    api = create_app(world.plane, ApiSettings(SECRET, hosts=frozenset({"127.0.0.1"})), pages=load)
    yield api
    api.state.bridge.close()


def client_of(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers)


def run(call: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await call()

    return asyncio.run(main())


async def logged_in(app: FastAPI, read_only: bool = False) -> httpx.AsyncClient:
    code, _ = app.state.sessions.issue("", read_only)
    browser = client_of(app, Origin=ORIGIN)
    answer = await browser.post("/open", data={"code": code})
    assert answer.status_code == 303
    return browser


def test_a_code_works_once_and_for_a_while() -> None:
    now = Time()
    sessions = Sessions(Secret(SECRET), now)
    code, expires_s = sessions.issue()
    assert expires_s == now.now_s + CODE_S
    assert sessions.redeem(code) is not None
    assert sessions.redeem(code) is None
    late, _ = sessions.issue()
    now.now_s += CODE_S + 1
    assert sessions.redeem(late) is None
    assert sessions.redeem("") is None


def test_a_cookie_is_signed_and_expires() -> None:
    now = Time()
    sessions = Sessions(Secret(SECRET), now)
    session = sessions.redeem(sessions.issue()[0])
    assert session is not None
    cookie = sessions.cookie(session)
    assert sessions.read(cookie) == session
    forged = cookie.replace(".w.", ".r.")
    for wrong in (forged, cookie[:-1], cookie + "0", "", "a.b.c.d.e.f", "é" * 10, "x" * 1000):
        assert sessions.read(wrong) is None, wrong
    assert Sessions(Secret("t" * 40), now).read(cookie) is None  # the token was replaced
    now.now_s += SESSION_S
    assert sessions.read(cookie) is None


def test_cookies_tell_ports_apart() -> None:
    assert cookie_name("localhost:8700") != cookie_name("localhost:8701")
    assert cookie_in(b"a=1; flyball_8700=x.y; b=2", COOKIE) == "x.y"
    assert cookie_in(b"flyball_8700=x; flyball_8700=y", COOKIE) == ""


def test_a_link_becomes_a_cookie_that_scripts_cannot_read(app: FastAPI) -> None:
    async def call() -> None:
        async with client_of(app, Authorization=f"Bearer {SECRET}") as owner:
            link = (await owner.post("/api/v1/links", json={})).json()
        async with client_of(app) as browser:
            page = await browser.get(link["path"])  # following it does not use it up
            assert page.status_code == 200
            assert "http-equiv" not in page.text
            code = link["path"].partition("=")[2]
            answer = await browser.post("/open", data={"code": code}, headers={"Origin": ORIGIN})
            cookie = answer.headers["set-cookie"]
            assert (answer.status_code, answer.headers["location"]) == (303, "/now")
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert SECRET not in cookie
            assert (await browser.get("/now")).text == "page /now"
            assert (await browser.get("/api/v1/whoami")).json()["role"] == "operator"
            again = await browser.post("/open", data={"code": code}, headers={"Origin": ORIGIN})
            assert again.status_code == 403
            assert "flyball open" in again.text

    run(call)


def test_without_a_session_a_page_says_how_to_get_a_link(app: FastAPI) -> None:
    async def call() -> None:
        async with client_of(app, Accept="text/html") as browser:
            for path in ("/", "/now", "/jobs/1"):
                answer = await browser.get(path)
                assert answer.status_code == 401
                assert "flyball open" in answer.text
                assert "script-src" in answer.headers["content-security-policy"]
            assert (await browser.get("/api/v1/queue")).json()["token"] == "unauthorized"

    run(call)


def test_a_read_only_session_changes_nothing(app: FastAPI) -> None:
    async def call() -> None:
        browser = await logged_in(app, read_only=True)
        assert (await browser.get("/api/v1/queue")).status_code == 200
        answer = await browser.post("/api/v1/jobs", json={"argv": ["true"]})
        assert (answer.status_code, answer.json()["token"]) == (403, "forbidden")
        link = await browser.post("/api/v1/links", json={"read_only": False})
        session = app.state.sessions.redeem(link.json()["path"].partition("=")[2])
        assert session.read_only  # it cannot become more than it is

    run(call)


def test_other_sites_cannot_use_the_cookie(app: FastAPI) -> None:
    async def call() -> None:
        browser = await logged_in(app)
        job: dict[str, Any] = {"argv": ["true"], "cwd": "/"}
        assert (await browser.post("/api/v1/jobs", json=job)).status_code == 201
        foreign = {"Origin": "http://127.0.0.1:9999"}
        assert (await browser.post("/api/v1/jobs", json=job, headers=foreign)).status_code == 403
        del browser.headers["origin"]
        assert (await browser.post("/api/v1/jobs", json=job)).status_code == 403
        same_site = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
        assert (await browser.get("/api/v1/queue", headers=same_site)).status_code == 401

    run(call)


def test_logging_out_removes_the_cookie(app: FastAPI) -> None:
    async def call() -> None:
        browser = await logged_in(app)
        assert (await browser.post("/close")).status_code == 200
        assert (await browser.get("/now")).status_code == 401

    run(call)


async def socket(
    app: FastAPI, cookie: str, messages: int = 1, origin: str = ORIGIN, host: str = HOST
) -> list[str]:
    """Open a web socket, send messages, and return the kinds of what came back."""
    incoming: list[dict[str, Any]] = [{"type": "websocket.connect"}]
    incoming += [{"type": "websocket.receive", "text": "ping"}] * messages
    incoming += [{"type": "websocket.disconnect", "code": 1000}]
    sent: list[str] = []
    headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
    headers += [(b"origin", origin.encode())] if origin else []

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "websocket", "path": "/_nicegui_ws/", "headers": headers, "query_string": b""}
    await app({**scope, "client": ("127.0.0.1", 5), "extensions": {}}, receive, send)
    return sent


def test_the_web_socket_has_the_same_guard(app: FastAPI) -> None:
    async def call() -> None:
        sessions: Sessions = app.state.sessions
        session = sessions.redeem(sessions.issue()[0])
        assert session is not None
        good = f"{COOKIE}={sessions.cookie(session)}"
        assert await socket(app, good) == ["websocket.accept", "websocket.send"]
        refused = ["websocket.close"]
        assert await socket(app, "") == refused
        assert await socket(app, good + "0") == refused
        assert await socket(app, good, origin="http://evil.example") == refused
        assert await socket(app, good, origin="") == refused
        assert await socket(app, good, host="evil.example:8700") == refused
        flood = await socket(app, good, messages=int(SOCKET_BURST) + 100)
        assert flood[-1] == "websocket.close"
        assert flood.count("websocket.send") < SOCKET_BURST + 50

    run(call)
