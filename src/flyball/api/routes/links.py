"""Route of links that open the dashboard in a browser."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from flyball.api.bridge import json_response
from flyball.api.callers import caller_of, needs
from flyball.api.entrance import OPEN_PATH
from flyball.api.models import LINK
from flyball.api.problems import documented
from flyball.api.routes.jobs import NoParameters, body_schema, read_json
from flyball.api.specs import checked
from flyball.api.views import Link
from flyball.control.access.roles import Right, Role

router = APIRouter(prefix="/api/v1", tags=["service"])


@router.post(
    "/links",
    dependencies=needs(Right.READ),
    status_code=201,
    response_model=Link,
    responses=documented(415, 422, 503),
    openapi_extra=body_schema("LinkIn"),
)
async def make_link(request: Request, query: NoParameters) -> Response:
    """Return a link that opens the dashboard once, in one browser, within 15 minutes."""
    body = checked(LINK, await read_json(request))
    caller = caller_of(request)
    read_only = bool(body.get("read_only")) or caller.role == Role.VIEWER
    code, expires_s = request.app.state.sessions.issue(caller.token_id, read_only)
    return json_response({"path": f"{OPEN_PATH}?code={code}", "expires": expires_s}, 201)
