"""Routes of the service itself: health, metrics, schema, documentation."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import caller_of, needs
from flyball.api.docs_page import page
from flyball.api.metrics_text import MEDIA_TYPE, text_of
from flyball.api.problems import documented
from flyball.api.routes.jobs import NoParameters
from flyball.api.views import Health, View, WhoAmI
from flyball.control.access.roles import Right
from flyball.sdk.submitter import user_name

router = APIRouter(tags=["service"])

UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "It is not healthy.",
        "model": Health,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
}


async def _health(request: Request) -> dict[str, Any]:
    bridge = bridge_of(request)
    return await bridge.call(bridge.plane.ask.health)


@router.get(
    "/healthz",
    response_model=Health,
    responses={**documented(422), **UNHEALTHY},
    openapi_extra={"security": []},
)
async def healthz(request: Request, query: NoParameters) -> Response:
    """Return whether the queue works, for probes without a token: yes (200) or no (503)."""
    ok = bool((await _health(request))["ok"])
    return json_response({"ok": ok}, 200 if ok else 503)


@router.get(
    "/api/v1/healthz",
    dependencies=needs(Right.READ),
    response_model=Health,
    responses={**documented(422), **UNHEALTHY},
)
async def health(request: Request, query: NoParameters) -> Response:
    """Return whether the queue works, with the result of each check."""
    checks = await _health(request)
    return json_response(checks, 200 if checks["ok"] else 503)


@router.get(
    "/metrics",
    dependencies=needs(Right.READ),
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(422, 503),
    },
)
async def metrics(request: Request, query: NoParameters) -> Response:
    """Return all metrics for Prometheus (`authorization: {credentials_file: STATE/token}`)."""
    bridge = bridge_of(request)
    rows = await bridge.call(bridge.plane.ask.metrics)
    api_rows = request.app.state.counts.rows()
    return Response(text_of([*rows, *api_rows]), media_type=MEDIA_TYPE)


@router.get(
    "/api/v1/whoami",
    dependencies=needs(Right.READ),
    response_model=WhoAmI,
    responses=documented(422),
)
async def whoami(request: Request, query: NoParameters) -> Response:
    """Return the name and role that the token stands for, and what they may do."""
    caller = caller_of(request)
    return json_response(
        {
            "name": caller.name or user_name(),
            "role": caller.role,
            "rights": sorted(caller.rights),
            "is_owner": not caller.name,
        }
    )


@router.get(
    "/openapi.json",
    dependencies=needs(Right.READ),
    response_model=View,
    responses=documented(422),
)
async def openapi(request: Request, query: NoParameters) -> Response:
    """Return the OpenAPI document of this interface."""
    return json_response(request.app.openapi())


@router.get(
    "/docs",
    response_class=HTMLResponse,
    responses=documented(422),
    openapi_extra={"security": []},
)
async def docs(request: Request, query: NoParameters) -> Response:
    """Return a page that documents this interface, without scripts or external resources."""
    html, policy = page(request.app.openapi())
    return HTMLResponse(html, headers={"Content-Security-Policy": policy})
