"""Routes of telemetry: latest values, series, the state of sensors, and faster sampling."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import needs
from flyball.api.models import FAST, SeriesQuery
from flyball.api.problems import documented
from flyball.api.routes.jobs import NoParameters, body_schema, read_json
from flyball.api.specs import checked
from flyball.api.views import Fast, Sensors, SeriesView, View
from flyball.control.access.roles import Right

router = APIRouter(prefix="/api/v1/telemetry", tags=["telemetry"], dependencies=needs(Right.READ))


@router.get("", response_model=View, responses=documented(422, 503))
async def telemetry(request: Request, query: NoParameters) -> Response:
    """Return the latest values of every sensor."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.telemetry))


@router.get("/series", response_model=SeriesView, responses=documented(404, 422, 503))
async def series(request: Request, query: Annotated[SeriesQuery, Query()]) -> Response:
    """Return one series of the recent past, as sampled or smoothed."""
    bridge = bridge_of(request)
    arguments = (query.name, query.seconds, query.smooth, query.window_s, query.features)
    return json_response(await bridge.call(bridge.plane.ask.series, *arguments))


@router.get("/sensors", response_model=Sensors, responses=documented(422, 503))
async def sensors(request: Request, query: NoParameters) -> Response:
    """Return the state of every sensor: its period, whether it measures, why it is absent."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.sensor_states))


@router.post(
    "/fast",
    dependencies=needs(Right.OPERATE),
    response_model=Fast,
    responses=documented(415, 422, 503),
    openapi_extra=body_schema("FastIn"),
)
async def fast(request: Request, query: NoParameters) -> Response:
    """Sample at the fastest rates for some time. 503 while no agent runs."""
    bridge = bridge_of(request)
    body = checked(FAST, await read_json(request))
    return json_response(await bridge.call(bridge.plane.ask.fast, body["seconds"]))
