"""Builds the FastAPI app from routes, error handlers, schema and guard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from flyball import __version__
from flyball.api.bridge import Bridge, bridge_of
from flyball.api.callers import FORBIDDEN, check_rights, who_of
from flyball.api.guard import OPEN_PATHS, Guard, line_of
from flyball.api.methods import Methods
from flyball.api.metrics_text import Counts
from flyball.api.models import (
    ATTEMPT_REPORT,
    BATCH,
    CANCEL,
    CAP,
    DRAIN,
    FAST,
    HOLD,
    JOB,
    ONE,
    REPORT,
    RESIZE,
    schema_of,
)
from flyball.api.problems import Problem, ProblemDocument
from flyball.api.routes import attempts, cluster, jobs, logs, nodes, service, steer, telemetry
from flyball.api.settings import ApiSettings
from flyball.api.specs import faulty

if TYPE_CHECKING:
    from flyball.control.plane import Plane

ROUTERS = tuple(
    module.router for module in (jobs, steer, nodes, logs, cluster, telemetry, attempts, service)
)
DESCRIPTION = (
    "Jobs, queue, nodes and decisions of a Flyball control plane. Every request needs a bearer "
    "token: that of the state folder, of a user, or of an attempt. Errors are problem documents "
    "(RFC 9457) with a remedy."
)
BODIES = (ONE, JOB, BATCH, REPORT, ATTEMPT_REPORT, RESIZE, CAP, HOLD, DRAIN, CANCEL, FAST)


def create_app(
    plane: Plane, settings: ApiSettings, clock: Callable[[], float] = time.monotonic
) -> FastAPI:
    """Return the API of a control plane. `app.state.bridge.close()`, or the end of the lifespan,
    releases its threads.

    Args:
        clock: clock of the rate limits and of the access log.
    """
    bridge, counts = Bridge(plane, settings), Counts()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            bridge.close()

    app = FastAPI(
        title="Flyball",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.bridge, app.state.counts = bridge, counts
    routes = [route for router in ROUTERS for route in router.routes]
    check_rights(routes, OPEN_PATHS.__contains__)
    app.add_middleware(Methods, routes=routes)
    app.add_middleware(
        Guard, settings=settings, callers=bridge.callers, audit=bridge.audit, counts=counts,
        clock=clock,
    )  # fmt: skip
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    if error.token == FORBIDDEN:
        what = f"{error.detail}: {line_of(request.scope)}"
        bridge_of(request).audit_refusal(what, who_of(request))
    return error.response()


async def _http(request: Request, error: Exception) -> Response:
    """Convert errors of the router: no such path, no such method, an unreadable body."""
    assert isinstance(error, HTTPException)
    remedy = "see /docs for the available routes"
    return Problem(error.status_code, str(error.detail), remedy, "", error.headers).response()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return faulty(list(error.errors())).response()


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return FastAPI's schema plus the bodies that routes read themselves, problems and token."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for adapter in BODIES:
            schema = schema_of(adapter)
            schemas.update(schema.pop("$defs", {}))
            schemas[schema["title"]] = schema
        schemas["Problem"] = ProblemDocument.model_json_schema(
            ref_template="#/components/schemas/{model}"
        )
        schemas.update(schemas["Problem"].pop("$defs", {}))
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
