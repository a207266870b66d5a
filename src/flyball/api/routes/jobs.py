"""Routes of jobs: submit, list, show, explain, cancel, report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from flyball.api.bridge import Bridge, bridge_of, json_response
from flyball.api.callers import (
    caller_of,
    check_change,
    forbidden,
    key_of,
    needs,
    visible,
    who_of,
)
from flyball.api.job_model import JobIn, OneIn
from flyball.api.models import BATCH, CANCEL, JOB, ONE, REPORT, JobsQuery, NoQuery
from flyball.api.problems import Problem, documented
from flyball.api.specs import checked, specs_of
from flyball.api.views import Cancelled, JobPage, JobView, Progress, Submitted, View
from flyball.control.access.roles import Right
from flyball.control.ask.active_pages import QueueQuery
from flyball.control.journal.store import JobQuery
from flyball.core.jobs import Job
from flyball.core.units import to_us

router = APIRouter(prefix="/api/v1", tags=["jobs"])

JobId = Annotated[
    str,
    Path(
        pattern=r"^[1-9][0-9]{0,14}(_[0-9]{1,7})?$",
        description="`12`, or `12_3` for a task of an array.",
    ),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Makes a request safe to repeat: the same key and jobs give the same ids.",
    ),
]
NoParameters = Annotated[NoQuery, Query()]
TASKS_PAGE = 1000
"""Page size when the tasks of an array are read."""
LOCATION = {"headers": {"Location": {"schema": {"type": "string"}}}}


def body_schema(schema: str) -> dict[str, Any]:
    """Return the OpenAPI documentation of a body that the route reads itself."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": True, "content": content}}


async def read_json(request: Request) -> bytes:
    """Return the body, which must be declared as JSON: a web form of another site cannot be."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, f"the body is {kind or 'of no stated type'}", "send application/json")
    return await request.body()


async def find_job(bridge: Bridge, label: str) -> Job:
    """Return the job with an id or a label.

    Raises:
        Problem: 404 if there is none.
    """
    first, _, index = label.partition("_")
    if not index:
        return await bridge.call(bridge.plane.ask.job, int(first))
    for task in await tasks_of(bridge, int(first)):
        if task.spec.array_index == int(index):
            return task
    raise Problem(404, f"there is no job {label}", "`flyball queue` lists the jobs")


async def tasks_of(bridge: Bridge, array: int) -> list[Job]:
    """Return all tasks of an array, newest first; none if the id is not an array's."""
    tasks: list[Job] = []
    while True:
        query = JobQuery(array=array, after_id=tasks[-1].id if tasks else 0, limit=TASKS_PAGE)
        page = await bridge.call(bridge.plane.ask.jobs, query)
        tasks += page
        if len(page) < TASKS_PAGE:
            return tasks


async def find_jobs(bridge: Bridge, label: str) -> list[Job]:
    """Return the job with an id or a label; for the id of an array all its tasks, by id."""
    job = await find_job(bridge, label)
    is_array = "_" not in label and job.spec.array == job.id
    jobs = await tasks_of(bridge, job.id) if is_array else [job]
    return sorted(jobs, key=lambda job: job.id)


# Submit -----------------------------------------------------------------------------


@router.post(
    "/jobs",
    status_code=201,
    dependencies=needs(Right.SUBMIT),
    response_model=Submitted,
    responses={201: LOCATION, **documented(404, 409, 415, 422, 503)},
    openapi_extra=body_schema("OneIn"),
)
async def submit_job(request: Request, query: NoParameters, key: Key = None) -> Response:
    """Submit one job, or one array of them. They are durable when the response is sent."""
    bridge = bridge_of(request)
    job: OneIn = checked(ONE, await read_json(request))
    return await _submit(request, bridge, [job], key)


@router.post(
    "/jobs/batch",
    status_code=201,
    dependencies=needs(Right.SUBMIT),
    response_model=Submitted,
    responses={201: LOCATION, **documented(404, 409, 415, 422, 503)},
    openapi_extra=body_schema("BatchIn"),
)
async def submit_batch(request: Request, query: NoParameters, key: Key = None) -> Response:
    """Submit many jobs, all or none. They are durable when the response is sent."""
    bridge = bridge_of(request)
    # Validating ten thousand jobs would block the event loop.
    batch = await bridge.call(checked, BATCH, await read_json(request))
    return await _submit(request, bridge, batch["jobs"], key)


async def _submit(
    request: Request, bridge: Bridge, jobs: Sequence[JobIn | OneIn], key: str | None
) -> Response:
    def submit() -> dict[str, Any]:
        notes = _in_own_name(request, jobs)
        specs = specs_of(jobs)
        ids = bridge.plane.submit(specs, key_of(request, key), who_of(request))
        return {"id": ids[0], "ids": ids, "notes": bridge.plane.notes(specs) + notes}

    answer = await bridge.call(submit)
    return json_response(answer, 201, {"Location": f"/api/v1/jobs/{answer['id']}"})


def _in_own_name(request: Request, jobs: Sequence[JobIn | OneIn]) -> list[dict[str, Any]]:
    """Make the caller the user of these jobs, whatever they state; return notes on that.

    Only the owner of the state folder submits in any name.
    """
    name, others = caller_of(request).name, 0
    if not name:
        return []
    for job in jobs:
        others += job.get("user", name) != name
        job["user"] = name
    if not others:
        return []
    return [{"field": "user", "why": f"the token is {name}'s: so is the job", "jobs": others}]


@router.post(
    "/jobs/dry-run",
    dependencies=needs(Right.SUBMIT),
    response_model=View,
    responses=documented(404, 415, 422, 503),
    openapi_extra=body_schema("JobIn"),
)
async def dry_run(request: Request, query: NoParameters) -> Response:
    """Return whether a job would fit, and when it would start. Nothing is submitted."""
    bridge = bridge_of(request)
    job: JobIn = checked(JOB, await read_json(request))
    notes = _in_own_name(request, [job])
    specs = await bridge.call(specs_of, [job])
    answer = await bridge.call(bridge.plane.dry_run, specs[0])
    return json_response(answer | {"notes": answer["notes"] + notes})


# Read -------------------------------------------------------------------------------


@router.get(
    "/jobs",
    dependencies=needs(Right.READ),
    response_model=JobPage,
    responses=documented(422, 503),
)
async def list_jobs(request: Request, query: Annotated[JobsQuery, Query()]) -> Response:
    """Return a page of jobs, newest first."""
    bridge = bridge_of(request)
    filters = JobQuery(
        states=tuple(query.state), user=query.user, tenant=query.tenant, name=query.name,
        array=query.array, since_us=to_us(query.since), until_us=to_us(query.until),
        limit=query.limit, after_id=int(query.cursor or 0),
    )  # fmt: skip

    def page() -> tuple[list[dict[str, Any]], int]:
        jobs = bridge.plane.ask.jobs(filters)
        tokens = bridge.plane.ask.waiting_tokens(jobs)
        views = [bridge.plane.ask.view(job) | {"token": tokens.get(job.id)} for job in jobs]
        return [visible(request, view) for view in views], jobs[-1].id if jobs else 0

    views, last = await bridge.call(page)
    full = len(views) == query.limit and last > 1
    return json_response({"jobs": views, "next": str(last) if full else None})


@router.get(
    "/jobs/{job}",
    dependencies=needs(Right.READ),
    response_model=JobView,
    responses=documented(404, 422, 503),
)
async def show_job(request: Request, job: JobId, query: NoParameters) -> Response:
    """Return one job."""
    bridge = bridge_of(request)
    view = await bridge.call(bridge.plane.ask.view, await find_job(bridge, job))
    return json_response(visible(request, view))


@router.get(
    "/jobs/{job}/why",
    dependencies=needs(Right.READ),
    response_model=View,
    responses=documented(404, 422, 503),
)
async def why(request: Request, job: JobId, query: NoParameters) -> Response:
    """Return why a job waits, when it will start, and what would help."""
    bridge = bridge_of(request)
    return json_response(await bridge.call(bridge.plane.ask.why, (await find_job(bridge, job)).id))


@router.get(
    "/jobs/{job}/receipt",
    dependencies=needs(Right.READ),
    response_model=View,
    responses=documented(404, 422, 503),
)
async def receipt(request: Request, job: JobId, query: NoParameters) -> Response:
    """Return what a job used and cost."""
    bridge = bridge_of(request)
    return json_response(
        await bridge.call(bridge.plane.ask.receipt, (await find_job(bridge, job)).id)
    )


# Change -----------------------------------------------------------------------------


@router.delete(
    "/jobs/{job}",
    dependencies=needs(Right.CHANGE),
    response_model=Cancelled,
    responses=documented(404, 409, 422, 503),
)
async def cancel(request: Request, job: JobId, query: NoParameters) -> Response:
    """Cancel a job. The id of an array (not of a task) means all its tasks, as in Slurm."""
    bridge = bridge_of(request)
    tasks = await find_jobs(bridge, job)
    check_change(request, tasks)
    ids = [task.id for task in tasks if not task.state.final]
    return json_response({"ids": await bridge.call(bridge.plane.cancel_all, ids, who_of(request))})


@router.post(
    "/jobs/cancel",
    dependencies=needs(Right.CHANGE),
    response_model=Cancelled,
    responses=documented(415, 422, 503),
    openapi_extra=body_schema("CancelIn"),
)
async def cancel_jobs(request: Request, query: NoParameters) -> Response:
    """Cancel all active jobs that match: `{"user": "ada"}`, `{"all": true}`.

    `all` means all that the caller may cancel: a user's own.
    """
    bridge = bridge_of(request)
    filters = checked(CANCEL, await read_json(request))
    if not filters:
        raise Problem(422, "no jobs are selected", 'give user, name or "all": true')
    caller, user = caller_of(request), filters.get("user")
    if not caller.may(Right.OPERATE):
        if user not in (None, caller.name):
            raise forbidden(
                f"{caller.name} may not cancel jobs of {user}", "this needs the role operator"
            )
        user = caller.name
    query_filters = QueueQuery(user=user, name=filters.get("name"))

    def cancel_matching() -> list[int]:
        ids = sorted(job.id for job in bridge.plane.ask.queue(query_filters))
        return bridge.plane.cancel_all(ids, who_of(request))

    return json_response({"ids": await bridge.call(cancel_matching)})


@router.get(
    "/jobs/{job}/report",
    dependencies=needs(Right.READ),
    response_model=Progress,
    responses=documented(404, 422, 503),
)
async def progress(request: Request, job: JobId, query: NoParameters) -> Response:
    """Return the values that the job last reported: step, loss and so on."""
    bridge = bridge_of(request)
    target = await find_job(bridge, job)
    view = await bridge.call(bridge.plane.ask.view, target)
    return json_response({"job": target.id, "values": view.get("progress") or {}})


@router.post(
    "/jobs/{job}/report",
    status_code=204,
    dependencies=needs(Right.CHANGE),
    response_class=Response,
    responses=documented(404, 409, 415, 422, 503),
    openapi_extra=body_schema("ReportIn"),
)
async def report(request: Request, job: JobId, query: NoParameters) -> Response:
    """Report progress of a job. Jobs on this machine use `flyball.report`, which is cheaper."""
    bridge = bridge_of(request)
    body = checked(REPORT, await read_json(request))
    target = await find_job(bridge, job)
    check_change(request, [target])
    attempt = body.get("attempt") or target.attempt
    await bridge.call(bridge.plane.report, target.id, attempt, body["values"])
    return Response(status_code=204)
