"""The cluster as a whole: queue, nodes, decisions, events, forecast."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from flyball.api import sse
from flyball.api.bridge import bridge_of, json_response
from flyball.api.callers import caller_of, needs, visible
from flyball.api.models import ActiveQuery, DecisionsQuery, EventsQuery, HistoryQuery
from flyball.api.problems import documented
from flyball.api.routes.jobs import NoParameters
from flyball.api.shared import Shared
from flyball.api.views import (
    BriefQueue,
    Decisions,
    Events,
    Forecast,
    HistoryView,
    Nodes,
    Queue,
    Signals,
    Today,
)
from flyball.control.access.roles import Right
from flyball.control.ask.active_pages import QueueQuery
from flyball.control.ask.past import HISTORY_PARTS

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=needs(Right.READ))

USUAL = documented(422, 503)
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {sse.MEDIA_TYPE: {"schema": sse.SCHEMA}}}
}


@router.get("/queue", response_model=Queue, responses=USUAL)
async def queue(request: Request, query: Annotated[ActiveQuery, Query()]) -> Response:
    """Return a page of the active jobs: running, then waiting ones by priority and submission.

    The policy may start them in another order. A job that is active throughout is on one of the
    pages, on two if its state changed meanwhile.
    """
    bridge = bridge_of(request)
    plane = bridge.plane
    filters = QueueQuery(
        user=query.user, tenant=query.tenant, name=query.name, states=tuple(query.state),
        limit=query.limit, cursor=query.cursor,
    )  # fmt: skip

    def views() -> dict[str, Any]:
        page, tokens = plane.ask.queue_page(filters)
        jobs = [
            visible(request, plane.ask.view(job) | {"token": tokens.get(job.id)})
            for job in page.jobs
        ]
        return {"jobs": jobs, "total": page.total, "pending": page.pending, "next": page.next}

    return json_response(await bridge.call(views))


@router.get("/queue/brief", response_model=BriefQueue, responses=USUAL)
async def brief_queue(
    request: Request,
    query: NoParameters,
    if_none_match: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Return all active jobs in short, for pages that show thousands; 304 if nothing changed."""
    answer: Shared = request.app.state.brief_queue
    tag, body = await answer.fresh()
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if if_none_match == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "application/json")


@router.get("/nodes", response_model=Nodes, responses=USUAL)
async def nodes(request: Request, query: NoParameters) -> Response:
    """Return the nodes, with their resources and what is in use."""
    bridge = bridge_of(request)
    return json_response({"nodes": await bridge.call(bridge.plane.ask.nodes)})


@router.get("/signals", response_model=Signals, responses=USUAL)
async def signals(request: Request, query: NoParameters) -> Response:
    """Return the present price of electricity and its carbon intensity, where they are given."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.signals))


@router.get("/decisions", response_model=Decisions, responses=USUAL)
async def decisions(request: Request, query: Annotated[DecisionsQuery, Query()]) -> Response:
    """Return decisions and their reasons."""
    bridge = bridge_of(request)
    after, limit = query.after, query.limit
    if query.last:
        newest = await bridge.call(bridge.plane.ask.last_decision)
        after, limit = max(0, newest - query.last), query.last
    rows = await bridge.call(bridge.plane.ask.decisions, after, limit)
    return json_response({"decisions": rows})


@router.get("/history", response_model=HistoryView, responses=USUAL)
async def history(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Return what ran where within a span, and what it came to by user, account and class."""
    bridge = bridge_of(request)
    parts = HISTORY_PARTS if query.part == "all" else frozenset((query.part,))
    ask = bridge.plane.ask
    return json_response(
        await bridge.call(ask.history, query.since, query.until, query.limit, parts)
    )


@router.get("/today", response_model=Today, responses=USUAL)
async def today(request: Request, query: NoParameters) -> Response:
    """Return the energy since midnight UTC, and what was used of the budgets."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.today))


@router.get("/events", response_model=Events, responses={**STREAM, **USUAL})
async def events(
    request: Request,
    query: Annotated[EventsQuery, Query()],
    accept: Annotated[str | None, Header(max_length=1000)] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", max_length=40, description="Resume after this event."),
    ] = None,
) -> Response:
    """Return events, in order. A stream with `follow=true` or `Accept: text/event-stream`."""
    bridge = bridge_of(request)
    after, kinds = query.after, tuple(query.kind)
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        after = int(last_event_id)
    if query.follow or sse.MEDIA_TYPE in (accept or ""):
        if after is None:
            after = await bridge.call(bridge.plane.ask.wait_events, 0, 0.0)
        shown = partial(visible, request)
        frames = sse.event_frames(bridge, after, kinds, query.job, shown)
        return sse.streaming(bridge, caller_of(request), frames)
    rows = await bridge.call(bridge.plane.ask.events, after or 0, query.limit, kinds, query.job)
    return json_response({"events": [visible(request, row) for row in rows]})


@router.get("/forecast", response_model=Forecast, responses=USUAL)
async def forecast(request: Request, query: NoParameters) -> Response:
    """Return when pending jobs will start, the expected load, and past accuracy."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.forecast))
