"""Orders about jobs: hold and release those that wait; size, cap and checkpoint of others."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from flyball.api.bridge import answer, bridge_of
from flyball.api.models import CAP, HOLD, RESIZE
from flyball.api.problems import documented
from flyball.api.routes.jobs import JobId, Key, Nothing, body_of, found, meant, taking, who_of
from flyball.api.specs import checked
from flyball.api.views import Held, Ordered

router = APIRouter(prefix="/api/v1", tags=["jobs"])

WITH_BODY = documented(404, 409, 415, 422, 503)


@router.post(
    "/jobs/{job}/resize",
    response_model=Ordered,
    responses=WITH_BODY,
    openapi_extra=taking("ResizeIn"),
)
async def resize(request: Request, job: JobId, query: Nothing, key: Key = None) -> Response:
    """Let an elastic job go on with another number of devices. 503 while they are not free."""
    bridge = bridge_of(request)
    wanted = checked(RESIZE, await body_of(request))
    one = await found(bridge, job)
    return answer(
        await bridge.call(
            bridge.plane.resize, one.id, wanted["devices"], key or "", who_of(request)
        )
    )


@router.post(
    "/jobs/{job}/cap", response_model=Ordered, responses=WITH_BODY, openapi_extra=taking("CapIn")
)
async def cap(request: Request, job: JobId, query: Nothing, key: Key = None) -> Response:
    """Keep a job to a part of what its devices could do; 1 takes the cap off."""
    bridge = bridge_of(request)
    wanted = checked(CAP, await body_of(request))
    one = await found(bridge, job)
    return answer(
        await bridge.call(bridge.plane.cap, one.id, wanted["share"], key or "", who_of(request))
    )


@router.post(
    "/jobs/{job}/checkpoint", response_model=Ordered, responses=documented(404, 409, 422, 503)
)
async def checkpoint(request: Request, job: JobId, query: Nothing, key: Key = None) -> Response:
    """Have a running job save what it has. It does so between two of its steps."""
    bridge = bridge_of(request)
    one = await found(bridge, job)
    return answer(await bridge.call(bridge.plane.checkpoint, one.id, key or "", who_of(request)))


@router.post(
    "/jobs/{job}/hold", response_model=Held, responses=WITH_BODY, openapi_extra=taking("HoldIn")
)
async def hold(request: Request, job: JobId, query: Nothing) -> Response:
    """Keep a waiting job from starting until it is released. The id of an array means all of it."""
    bridge = bridge_of(request)
    user = checked(HOLD, await body_of(request)).get("user", "")
    ids = [each.id for each in await meant(bridge, job)]
    return answer({"ids": await bridge.call(bridge.plane.hold, ids, user, who_of(request))})


@router.post("/jobs/{job}/release", response_model=Held, responses=documented(404, 409, 422, 503))
async def release(request: Request, job: JobId, query: Nothing) -> Response:
    """Let a held job start as soon as it can. The id of an array means all of it."""
    bridge = bridge_of(request)
    ids = [each.id for each in await meant(bridge, job)]
    return answer({"ids": await bridge.call(bridge.plane.release, ids, who_of(request))})
