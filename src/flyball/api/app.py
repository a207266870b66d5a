"""Builds the FastAPI app from routes, error handlers, schema and guard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from flyball import __version__
from flyball.api.bridge import Bridge, bridge_of
from flyball.api.callers import FORBIDDEN, check_rights, who_of
from flyball.api.entrance import Entrance
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
    LINK,
    ONE,
    PRIORITY,
    REPORT,
    RESIZE,
    schema_of,
)
from flyball.api.problems import Problem, ProblemDocument
from flyball.api.routes import (
    attempts,
    cluster,
    jobs,
    links,
    logs,
    nodes,
    service,
    steer,
    telemetry,
)
from flyball.api.sessions import Sessions
from flyball.api.settings import ApiSettings
from flyball.api.shared import Shared
from flyball.api.specs import faulty

if TYPE_CHECKING:
    from flyball.control.plane import Plane

LoadPages = Callable[[FastAPI], Awaitable[ASGIApp]]

ROUTERS = tuple(
    module.router
    for module in (jobs, steer, nodes, logs, cluster, telemetry, attempts, service, links)
)
DESCRIPTION = (
    "Jobs, queue, nodes and decisions of a Flyball control plane. Every request needs a bearer "
    "token: that of the state folder, of a user, or of an attempt. Errors are problem documents "
    "(RFC 9457) with a remedy."
)
BODIES = (
    *(ONE, JOB, BATCH, REPORT, ATTEMPT_REPORT, RESIZE, CAP, HOLD, PRIORITY, DRAIN, CANCEL),
    *(FAST, LINK),
)


def create_app(
    plane: Plane,
    settings: ApiSettings,
    clock: Callable[[], float] = time.monotonic,
    pages: LoadPages | None = None,
) -> FastAPI:
    """Return the API of a control plane. `app.state.bridge.close()`, or the end of the lifespan,
    releases its threads.

    Args:
        clock: clock of the rate limits and of the access log.
        pages: loads the dashboard of an app, with the first request for it; None = there is none.
    """
    bridge, counts = Bridge(plane, settings), Counts()
    sessions = Sessions(bridge.secret)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await app.state.pages.aclose()
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
    app.state.bridge, app.state.counts, app.state.sessions = bridge, counts, sessions
    app.state.brief_queue = Shared(bridge, lambda: plane.ask.brief_queue())
    app.state.pages = AsyncExitStack()  # what the dashboard closes at its end
    routes = [route for router in ROUTERS for route in router.routes]
    check_rights(routes, OPEN_PATHS.__contains__)
    app.add_middleware(Methods, routes=routes)
    app.add_middleware(
        Entrance, sessions=sessions, audit=bridge.audit,
        load=None if pages is None else lambda: pages(app),
    )  # fmt: skip
    app.add_middleware(
        Guard, settings=settings, callers=bridge.callers, audit=bridge.audit, counts=counts,
        clock=clock, sessions=None if pages is None else sessions,
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
