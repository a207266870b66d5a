"""Routes of a running attempt, which calls them with a token of its own: reports and orders.

Jobs on the control plane's machine use a socket and a file instead, which are cheaper.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import caller_of, needs
from flyball.api.models import ATTEMPT_REPORT, OrdersQuery
from flyball.api.problems import Problem, documented
from flyball.api.routes.jobs import NoParameters, body_schema, read_json
from flyball.api.specs import checked
from flyball.api.views import AttemptOrders
from flyball.control.access.roles import Right
from flyball.control.jobs.attempt_orders import orders_view, runs, sequence_of
from flyball.core.jobs import Job

router = APIRouter(
    prefix="/api/v1/attempt", tags=["attempts"], dependencies=needs(Right.ATTEMPT)
)  # fmt: skip


@router.post(
    "/report",
    status_code=204,
    response_class=Response,
    responses=documented(415, 422, 503),
    openapi_extra=body_schema("AttemptReportIn"),
)
async def report(request: Request, query: NoParameters) -> Response:
    """Report progress of the attempt that the token belongs to."""
    bridge, caller = bridge_of(request), caller_of(request)
    body = checked(ATTEMPT_REPORT, await read_json(request))
    await bridge.call(bridge.plane.report, caller.job, caller.attempt, body["values"])
    return Response(status_code=204)


@router.get("/orders", response_model=AttemptOrders, responses=documented(422, 503))
async def orders(request: Request, query: Annotated[OrdersQuery, Query()]) -> Response:
    """Return the orders to the attempt that the token belongs to.

    With `wait_s` the answer comes once there is an order above `after`, the attempt is to stop, or
    the time is up. 401 once the attempt has ended.
    """
    bridge, caller = bridge_of(request), caller_of(request)
    live_state = bridge.plane.live_state
    end_s = bridge.now_s() + min(query.wait_s, bridge.settings.stream_s)

    def read() -> tuple[int, Job | None]:
        with live_state.lock:
            return live_state.seq, live_state.get(caller.job)

    while True:
        seen, job = await bridge.call(read)
        if job is None or not runs(job, caller.attempt):
            raise Problem(401, f"attempt {caller.attempt} of job {caller.job} does not run")
        left_s = end_s - bridge.now_s()
        if sequence_of(job) > query.after or job.stopping or left_s <= 0 or bridge.closing:
            return json_response(orders_view(job))
        await bridge.newer(seen, left_s)
