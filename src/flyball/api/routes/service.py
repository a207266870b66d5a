"""The service itself: is it well, how is it doing, what can it do."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from flyball.api.bridge import answer, bridge_of
from flyball.api.docs_page import page
from flyball.api.metrics_text import MEDIA_TYPE, text_of
from flyball.api.problems import documented
from flyball.api.routes.jobs import Nothing
from flyball.api.views import Health, View

router = APIRouter(tags=["service"])

ILL: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "It is not well.",
        "model": Health,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
}


async def _health(request: Request) -> dict[str, Any]:
    bridge = bridge_of(request)
    return await bridge.call(bridge.plane.health)


@router.get(
    "/healthz",
    response_model=Health,
    responses={**documented(422), **ILL},
    openapi_extra={"security": []},
)
async def healthz(request: Request, query: Nothing) -> Response:
    """Whether the queue works, for probes, which carry no token: yes (200) or no (503)."""
    ok = bool((await _health(request))["ok"])
    return answer({"ok": ok}, 200 if ok else 503)


@router.get("/api/v1/healthz", response_model=Health, responses={**documented(422), **ILL})
async def health(request: Request, query: Nothing) -> Response:
    """Whether the queue works, and each check that says so."""
    found = await _health(request)
    return answer(found, 200 if found["ok"] else 503)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(422, 503),
    },
)
async def metrics(request: Request, query: Nothing) -> Response:
    """Everything countable, for Prometheus (`authorization: {credentials_file: STATE/token}`)."""
    bridge = bridge_of(request)
    rows = await bridge.call(bridge.plane.metrics)
    own = request.app.state.counts.rows()
    return Response(text_of([*rows, *own]), media_type=MEDIA_TYPE)


@router.get("/openapi.json", response_model=View, responses=documented(422))
async def openapi(request: Request, query: Nothing) -> Response:
    """This interface, described for programs."""
    return answer(request.app.openapi())


@router.get(
    "/docs",
    response_class=HTMLResponse,
    responses=documented(422),
    openapi_extra={"security": []},
)
async def docs(request: Request, query: Nothing) -> Response:
    """This interface, described for people. Needs no network and no script."""
    html, policy = page(request.app.openapi())
    return HTMLResponse(html, headers={"Content-Security-Policy": policy})
