"""Routes that steer jobs: hold and release, priority, resize, cap, checkpoint."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import caller_of, check_change, forbidden, key_of, needs, who_of
from flyball.api.models import CAP, HOLD, PRIORITY, RESIZE
from flyball.api.problems import documented
from flyball.api.routes.jobs import (
    JobId,
    Key,
    NoParameters,
    body_schema,
    find_job,
    find_jobs,
    read_json,
)
from flyball.api.specs import checked
from flyball.api.views import Held, Ordered
from flyball.control.access.roles import Right
from flyball.control.jobs import holds

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=needs(Right.CHANGE))

WITH_BODY = documented(404, 409, 415, 422, 503)


@router.post(
    "/jobs/{job}/resize",
    response_model=Ordered,
    responses=WITH_BODY,
    openapi_extra=body_schema("ResizeIn"),
)
async def resize(request: Request, job: JobId, query: NoParameters, key: Key = None) -> Response:
    """Change the number of devices of an elastic job. 503 while they are not free."""
    bridge = bridge_of(request)
    order = checked(RESIZE, await read_json(request))
    target = await find_job(bridge, job)
    check_change(request, [target])
    return json_response(
        await bridge.call(
            bridge.plane.resize, target.id, order["devices"], key_of(request, key), who_of(request)
        )
    )


@router.post(
    "/jobs/{job}/cap",
    response_model=Ordered,
    responses=WITH_BODY,
    openapi_extra=body_schema("CapIn"),
)
async def cap(request: Request, job: JobId, query: NoParameters, key: Key = None) -> Response:
    """Limit a job to a share of its devices' time or power; 1 removes the cap."""
    bridge = bridge_of(request)
    order = checked(CAP, await read_json(request))
    target = await find_job(bridge, job)
    check_change(request, [target])
    return json_response(
        await bridge.call(
            bridge.plane.cap, target.id, order["share"], key_of(request, key), who_of(request)
        )
    )


@router.post(
    "/jobs/{job}/checkpoint", response_model=Ordered, responses=documented(404, 409, 422, 503)
)
async def checkpoint(
    request: Request, job: JobId, query: NoParameters, key: Key = None
) -> Response:
    """Ask a running job to save a checkpoint, which it does between two of its steps."""
    bridge = bridge_of(request)
    target = await find_job(bridge, job)
    check_change(request, [target])
    return json_response(
        await bridge.call(bridge.plane.checkpoint, target.id, key_of(request, key), who_of(request))
    )


@router.post(
    "/jobs/{job}/hold",
    response_model=Held,
    responses=WITH_BODY,
    openapi_extra=body_schema("HoldIn"),
)
async def hold(request: Request, job: JobId, query: NoParameters) -> Response:
    """Keep a waiting job from starting until it is released. An array's id means all its tasks."""
    bridge = bridge_of(request)
    body = checked(HOLD, await read_json(request))
    user = caller_of(request).name or body.get("user", "")
    tasks = await find_jobs(bridge, job)
    check_change(request, tasks)
    ids = [task.id for task in tasks]
    return json_response({"ids": await bridge.call(bridge.plane.hold, ids, user, who_of(request))})


@router.post("/jobs/{job}/release", response_model=Held, responses=documented(404, 409, 422, 503))
async def release(request: Request, job: JobId, query: NoParameters) -> Response:
    """Release a held job, so that it may start. An array's id means all its tasks."""
    bridge = bridge_of(request)
    tasks = await find_jobs(bridge, job)
    check_change(request, tasks)
    caller = caller_of(request)
    for task in tasks:
        holder = holds.holder(task)
        if not caller.may(Right.OPERATE) and holder not in (None, caller.name):
            raise forbidden(
                f"job {task.label} is held by {holder or 'the owner of the state folder'}",
                "ask them to release it, or someone with the role operator",
            )
    ids = [task.id for task in tasks]
    return json_response({"ids": await bridge.call(bridge.plane.release, ids, who_of(request))})


@router.post(
    "/jobs/{job}/priority",
    response_model=Held,
    responses=WITH_BODY,
    openapi_extra=body_schema("PriorityIn"),
)
async def priority(request: Request, job: JobId, query: NoParameters) -> Response:
    """Give an active job another priority. An array's id means all its tasks."""
    bridge = bridge_of(request)
    order = checked(PRIORITY, await read_json(request))
    tasks = await find_jobs(bridge, job)
    check_change(request, tasks)
    ids = [task.id for task in tasks]
    prioritise = bridge.plane.prioritise
    return json_response(
        {"ids": await bridge.call(prioritise, ids, order["priority"], who_of(request))}
    )
