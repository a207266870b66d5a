"""Starts the pages: NiceGUI in the server's process and on its event loop."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui
from starlette.types import ASGIApp

from flyball.web.feed import Feed
from flyball.web.views import (
    decisions,
    history,
    job,
    learning,
    loop,
    now,
    prediction,
    queue,
    system,
    whatif,
)

STATIC = Path(__file__).parent / "static"
VIEWS = (now, queue, job, history, decisions, whatif, prediction, learning, loop, system)
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Cpath "
    "d='M16 4v24M6 12l10-8 10 8' fill='none' stroke='%230a5ea8' stroke-width='3'/%3E%3Ccircle "
    "cx='6' cy='15' r='5' fill='%230a5ea8'/%3E%3Ccircle cx='26' cy='15' r='5' "
    "fill='%230a5ea8'/%3E%3C/svg%3E"
)
"""The governor: two balls on a shaft."""


async def start(api: FastAPI) -> ASGIApp:
    """Register the views, start NiceGUI on the running loop, and return its app."""
    feed = Feed(api.state.bridge)
    for view in VIEWS:
        view.register(api, feed)
    for name in ("flyball.css", "flyball.js"):
        pages.add_static_file(
            local_file=STATIC / name, url_path=f"/static/{name}", max_cache_age=31_536_000
        )
    host = FastAPI()
    ui.run_with(
        host,
        title="Flyball",
        favicon=ICON,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=5.0,
        message_history_length=50,
        gzip_middleware_factory=None,
        show_welcome_message=False,
    )
    await api.state.pages.enter_async_context(host.router.lifespan_context(host))
    return pages
