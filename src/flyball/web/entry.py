"""Loads the dashboard. Light, so that a server can name it without loading anything."""

from __future__ import annotations

import importlib
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from flyball.api.bridge import Bridge


async def load_pages(api: FastAPI) -> ASGIApp:
    """Import the pages in a thread, since that takes a while, and start them on this loop."""
    bridge: Bridge = api.state.bridge
    site: Any = await bridge.call(importlib.import_module, "flyball.web.site")
    pages: ASGIApp = await site.start(api)
    return pages
