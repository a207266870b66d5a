"""The entrance of the dashboard: one-time codes become cookies, and pages are loaded when needed.

It stands between the guard and the API's routes. The pages are loaded with the first request of a
session, so that a control plane that nobody looks at does not pay for them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from collections.abc import Awaitable, Callable
from html import escape
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flyball.api.sessions import Session, Sessions, cookie_name

API_PATHS = ("/api/", "/healthz", "/metrics", "/openapi.json", "/docs")
OPEN_PATH = "/open"
CLOSE_PATH = "/close"
HOME = "/now"

Load = Callable[[], Awaitable[ASGIApp]]

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 34rem; margin: 12vh auto;
  padding: 0 1.2rem }
h1 { font-size: 1.4rem } code { font: 15px ui-monospace, monospace; padding: .1rem .3rem }
pre { padding: .8rem; border: 1px solid #8886; border-radius: 6px; overflow-x: auto }
button { font: inherit; padding: .5rem 1.2rem }
"""
SCRIPT = "document.forms[0].requestSubmit()"

logger = logging.getLogger("flyball.api")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


PLAIN_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_digest(STYLE)}'; "
    f"script-src 'sha256-{_digest(SCRIPT)}'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def page_policy(host: str) -> str:
    """Return the content security policy of the dashboard: nothing from elsewhere.

    Its framework compiles templates in the browser, which needs `unsafe-eval`.
    """
    return (
        "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        f"connect-src 'self' ws://{host} wss://{host}; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def sign_in_page(status: int = 401) -> Response:
    """Return the page that says how to get a link, for browsers without a session."""
    return _plain_page(
        "A link is needed",
        "<p>This is a Flyball control plane. Its pages open with a link that works once:</p>"
        "<pre>flyball open</pre><p>Run it on the machine of the control plane, as the user who "
        "started it. For a wall screen, <code>flyball open --read-only</code> gives a link that "
        "changes nothing.</p><p>Programs send the token: see <a href='/docs'>the API</a>.</p>",
        status,
    )


def _plain_page(title: str, body: str, status: int = 200) -> Response:
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)} - Flyball'
        '</title><meta name="viewport" content="width=device-width"><link rel="icon" '
        f'href="data:,"><style>{STYLE}</style><main><h1>{escape(title)}</h1>{body}</main></html>'
    )
    # With `no-referrer`, as elsewhere, browsers would send the form with the origin `null`.
    policies = {"Content-Security-Policy": PLAIN_POLICY, "Referrer-Policy": "strict-origin"}
    return HTMLResponse(html, status, policies)


class Entrance:
    """Sends requests to the API or to the pages.

    Args:
        api: the app of the API's routes.
        sessions: issue and check sessions.
        load: returns the pages; None = there are none, only the API.
        audit: called with `(what, who)`; must not block.
    """

    def __init__(
        self,
        api: ASGIApp,
        sessions: Sessions,
        load: Load | None,
        audit: Callable[[str, str], None],
    ) -> None:
        self._api, self._sessions, self._load, self._audit = api, sessions, load, audit
        self._pages: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._load is None or scope["type"] == "lifespan" or is_api(scope["path"]):
            await self._api(scope, receive, send)
            return
        if scope["type"] == "http":
            response = await self._own_page(scope, receive)
            if response is not None:
                await response(scope, receive, send)
                return
        pages = await self._loaded()
        await pages(scope, receive, _with_policy(scope, send))

    async def _own_page(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer of the entrance itself; None for the pages behind it."""
        path, method = scope["path"], scope["method"]
        if path == "/":
            return RedirectResponse(HOME, 303)
        if path == OPEN_PATH and method == "POST":
            return await self._redeem(Request(scope, receive))
        if path == OPEN_PATH:
            return _open_page(Request(scope))
        if path == CLOSE_PATH and method == "POST":
            response = sign_in_page(200)
            response.delete_cookie(cookie_name(Request(scope).headers.get("host", "")))
            return response
        return None

    async def _redeem(self, request: Request) -> Response:
        """Turn the code of a form into a cookie."""
        try:
            form = parse_qs((await request.body())[:1000].decode("ascii", "replace"))
        except ClientDisconnect:
            return Response(status_code=400)
        session = self._sessions.redeem(form.get("code", [""])[0])
        who = request.client.host if request.client else "unknown"
        if session is None:
            self._audit("link refused", who)
            body = "<p>It was used before, or it is older than 15 minutes. Get another:</p>"
            return _plain_page(
                "This link is no longer valid", f"{body}<pre>flyball open</pre>", 403
            )
        self._audit("read-only session opened" if session.read_only else "session opened", who)
        response = RedirectResponse(HOME, 303)
        self._set_cookie(response, request, session)
        return response

    def _set_cookie(self, response: Response, request: Request, session: Session) -> None:
        response.set_cookie(
            cookie_name(request.headers.get("host", "")),
            self._sessions.cookie(session),
            expires=_http_date(session.expires_s),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path="/",
        )

    async def _loaded(self) -> ASGIApp:
        if self._pages is None:
            async with self._loading:
                if self._pages is None:
                    assert self._load is not None
                    self._pages = await self._load()
                    logger.info("the dashboard was loaded")
        return self._pages


def is_api(path: str) -> bool:
    """Return whether a path belongs to the API and not to the pages."""
    return path.startswith(API_PATHS)


def _open_page(request: Request) -> Response:
    """Return a form that sends the code. Following a link must not use it up, so a preview of the
    link, which only gets the page, does no harm."""
    code = escape(request.query_params.get("code", "")[:100], quote=True)
    return _plain_page(
        "Opening Flyball",
        f"<form method='post' action='{OPEN_PATH}'><input type='hidden' name='code' value='{code}'>"
        f"<button>Continue</button></form><script>{SCRIPT}</script>",
    )


def _http_date(seconds: int) -> str:
    from email.utils import formatdate

    return formatdate(seconds, usegmt=True)


def _with_policy(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds the content security policy of the pages."""
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    policy = page_policy(host).encode("latin-1")

    async def send_with_policy(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message["headers"], (b"content-security-policy", policy),
                (b"x-frame-options", b"DENY"),
            ]  # fmt: skip
        await send(message)

    return send_with_policy
