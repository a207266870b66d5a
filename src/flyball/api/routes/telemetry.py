"""What is measured: the newest values, series, the state of the sensors, and haste on demand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from flyball.api.bridge import answer, bridge_of
from flyball.api.models import FAST, SeriesQuery
from flyball.api.problems import documented
from flyball.api.routes.jobs import Nothing, body_of, taking
from flyball.api.specs import checked
from flyball.api.views import Fast, Sensors, SeriesView, View

router = APIRouter(prefix="/api/v1/telemetry", tags=["telemetry"])


@router.get("", response_model=View, responses=documented(422, 503))
async def telemetry(request: Request, query: Nothing) -> Response:
    """The newest sample of every sensor."""
    bridge = bridge_of(request)
    return answer(await bridge.call(bridge.plane.telemetry))


@router.get("/series", response_model=SeriesView, responses=documented(404, 422, 503))
async def series(request: Request, query: Annotated[SeriesQuery, Query()]) -> Response:
    """One series, from some time ago until now, as it was sampled or smoothed."""
    bridge = bridge_of(request)
    wanted = (query.name, query.seconds, query.smooth, query.window_s, query.features)
    return answer(await bridge.call(bridge.plane.series, *wanted))


@router.get("/sensors", response_model=Sensors, responses=documented(422, 503))
async def sensors(request: Request, query: Nothing) -> Response:
    """The state of every sensor: how often it is read, whether it measures, why it is absent."""
    bridge = bridge_of(request)
    return answer(await bridge.call(bridge.plane.sensor_states))


@router.post(
    "/fast",
    response_model=Fast,
    responses=documented(415, 422, 503),
    openapi_extra=taking("FastIn"),
)
async def fast(request: Request, query: Nothing) -> Response:
    """Sample at the fastest rates for a while, then as before. 503 while no agent runs."""
    bridge = bridge_of(request)
    wanted = checked(FAST, await body_of(request))
    return answer(await bridge.call(bridge.plane.fast, wanted["seconds"]))
