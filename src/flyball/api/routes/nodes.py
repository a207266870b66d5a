"""Routes that steer nodes: drain and resume."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import needs, who_of
from flyball.api.models import DRAIN
from flyball.api.problems import documented
from flyball.api.routes.jobs import NoParameters, body_schema, read_json
from flyball.api.specs import checked
from flyball.api.views import NodeOrdered
from flyball.control.access.roles import Right

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=needs(Right.OPERATE))

NodeName = Annotated[str, Path(max_length=255, description="Name of the node.")]


@router.post(
    "/nodes/{node}/drain",
    response_model=NodeOrdered,
    responses=documented(404, 415, 422, 503),
    openapi_extra=body_schema("DrainIn"),
)
async def drain(request: Request, node: NodeName, query: NoParameters) -> Response:
    """Start no more jobs on a node until it is resumed; those that run there run on."""
    bridge = bridge_of(request)
    reason = checked(DRAIN, await read_json(request)).get("reason", "")
    await bridge.call(bridge.plane.drain, node, reason, who_of(request))
    return json_response({"name": node, "drained": True})


@router.post(
    "/nodes/{node}/resume", response_model=NodeOrdered, responses=documented(404, 422, 503)
)
async def resume(request: Request, node: NodeName, query: NoParameters) -> Response:
    """Let a drained node take jobs again, if it is up."""
    bridge = bridge_of(request)
    await bridge.call(bridge.plane.resume, node, who_of(request))
    return json_response({"name": node, "drained": False})
