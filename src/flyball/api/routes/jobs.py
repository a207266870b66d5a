"""Jobs: submit, look, cancel, ask why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from flyball.api.bridge import Bridge, answer, bridge_of
from flyball.api.models import (
    BATCH,
    CANCEL,
    JOB,
    ONE,
    REPORT,
    JobIn,
    JobsQuery,
    NoQuery,
    OneIn,
)
from flyball.api.problems import Problem, documented
from flyball.api.specs import checked, specs_of
from flyball.api.views import Cancelled, JobPage, JobView, Progress, Submitted, View
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
        description="The same key with the same jobs gives the same ids, however often it is sent.",
    ),
]
Nothing = Annotated[NoQuery, Query()]
TASKS_PAGE = 1000
"""Tasks of an array that are read at a time."""
LOCATION = {"headers": {"Location": {"schema": {"type": "string"}}}}


def taking(schema: str) -> dict[str, Any]:
    """The documentation of a body that the route reads itself."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": True, "content": content}}


async def body_of(request: Request) -> bytes:
    """The body, which must say that it is JSON: a web form of another site cannot say that."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, f"the body is {kind or 'of no stated type'}", "send application/json")
    return await request.body()


async def found(bridge: Bridge, label: str) -> Job:
    """The job of an id or a label.

    Raises:
        Problem: 404.
    """
    first, _, index = label.partition("_")
    if not index:
        return await bridge.call(bridge.plane.job, int(first))
    for task in await tasks_of(bridge, int(first)):
        if task.spec.array_index == int(index):
            return task
    raise Problem(404, f"there is no job {label}", "`flyball queue` lists what there is")


async def tasks_of(bridge: Bridge, array: int) -> list[Job]:
    """All tasks of an array, the newest first; none if it is no array."""
    tasks: list[Job] = []
    while True:
        query = JobQuery(array=array, after_id=tasks[-1].id if tasks else 0, limit=TASKS_PAGE)
        page = await bridge.call(bridge.plane.jobs, query)
        tasks += page
        if len(page) < TASKS_PAGE:
            return tasks


async def meant(bridge: Bridge, label: str) -> list[Job]:
    """The job of an id or a label; of the id of an array all its tasks, by id."""
    one = await found(bridge, label)
    whole = "_" not in label and one.spec.array == one.id
    jobs = await tasks_of(bridge, one.id) if whole else [one]
    return sorted(jobs, key=lambda job: job.id)


# Submit -----------------------------------------------------------------------------


@router.post(
    "/jobs",
    status_code=201,
    response_model=Submitted,
    responses={201: LOCATION, **documented(404, 409, 415, 422, 503)},
    openapi_extra=taking("OneIn"),
)
async def submit_job(request: Request, query: Nothing, key: Key = None) -> Response:
    """Submit one job, or one array of them. Durable when the answer comes."""
    bridge = bridge_of(request)
    job: OneIn = checked(ONE, await body_of(request))
    return await _submitted(request, bridge, [job], key)


@router.post(
    "/jobs/batch",
    status_code=201,
    response_model=Submitted,
    responses={201: LOCATION, **documented(404, 409, 415, 422, 503)},
    openapi_extra=taking("BatchIn"),
)
async def submit_batch(request: Request, query: Nothing, key: Key = None) -> Response:
    """Submit many jobs, all or none. Durable when the answer comes."""
    bridge = bridge_of(request)
    # Ten thousand jobs take a while to check: not in the loop.
    batch = await bridge.call(checked, BATCH, await body_of(request))
    return await _submitted(request, bridge, batch["jobs"], key)


async def _submitted(
    request: Request, bridge: Bridge, jobs: Sequence[JobIn | OneIn], key: str | None
) -> Response:
    def submit() -> list[int]:
        return bridge.plane.submit(specs_of(jobs), key or "", who_of(request))

    ids = await bridge.call(submit)
    headers = {"Location": f"/api/v1/jobs/{ids[0]}"}
    return answer({"id": ids[0], "ids": ids}, 201, headers)


def who_of(request: Request) -> str:
    return f"api {request.client.host}" if request.client else "api"


@router.post(
    "/jobs/dry-run",
    response_model=View,
    responses=documented(404, 415, 422, 503),
    openapi_extra=taking("JobIn"),
)
async def dry_run(request: Request, query: Nothing) -> Response:
    """What would become of a job: whether it fits, and when it would start. Nothing is kept."""
    bridge = bridge_of(request)
    job: JobIn = checked(JOB, await body_of(request))
    specs = await bridge.call(specs_of, [job])
    return answer(await bridge.call(bridge.plane.dry_run, specs[0]))


# Look -------------------------------------------------------------------------------


@router.get("/jobs", response_model=JobPage, responses=documented(422, 503))
async def list_jobs(request: Request, query: Annotated[JobsQuery, Query()]) -> Response:
    """Jobs, the newest first, a page at a time."""
    bridge = bridge_of(request)
    wanted = JobQuery(
        states=tuple(query.state), user=query.user, tenant=query.tenant, name=query.name,
        array=query.array, since_us=to_us(query.since), until_us=to_us(query.until),
        limit=query.limit, after_id=int(query.cursor or 0),
    )  # fmt: skip

    def page() -> tuple[list[dict[str, Any]], int]:
        jobs = bridge.plane.jobs(wanted)
        tokens = bridge.plane.waiting_tokens(jobs)
        views = [bridge.plane.view(job) | {"token": tokens.get(job.id)} for job in jobs]
        return views, jobs[-1].id if jobs else 0

    views, last = await bridge.call(page)
    full = len(views) == query.limit and last > 1
    return answer({"jobs": views, "next": str(last) if full else None})


@router.get("/jobs/{job}", response_model=JobView, responses=documented(404, 422, 503))
async def show_job(request: Request, job: JobId, query: Nothing) -> Response:
    """One job."""
    bridge = bridge_of(request)
    return answer(await bridge.call(bridge.plane.view, await found(bridge, job)))


@router.get("/jobs/{job}/why", response_model=View, responses=documented(404, 422, 503))
async def why(request: Request, job: JobId, query: Nothing) -> Response:
    """Why it waits, when it will start, and what would help."""
    bridge = bridge_of(request)
    return answer(await bridge.call(bridge.plane.why, (await found(bridge, job)).id))


@router.get("/jobs/{job}/receipt", response_model=View, responses=documented(404, 422, 503))
async def receipt(request: Request, job: JobId, query: Nothing) -> Response:
    """What it used and cost."""
    bridge = bridge_of(request)
    return answer(await bridge.call(bridge.plane.receipt, (await found(bridge, job)).id))


# Change -----------------------------------------------------------------------------


@router.delete("/jobs/{job}", response_model=Cancelled, responses=documented(404, 409, 422, 503))
async def cancel(request: Request, job: JobId, query: Nothing) -> Response:
    """Cancel a job. The id of an array (not of one of its tasks) means all of it, as in Slurm."""
    bridge = bridge_of(request)
    ids = [each.id for each in await meant(bridge, job) if not each.state.final]
    return answer({"ids": await bridge.call(bridge.plane.cancel_all, ids, who_of(request))})


@router.post(
    "/jobs/cancel",
    response_model=Cancelled,
    responses=documented(415, 422, 503),
    openapi_extra=taking("CancelIn"),
)
async def cancel_jobs(request: Request, query: Nothing) -> Response:
    """Cancel all active jobs of whom something is true: `{"user": "ada"}`, `{"all": true}`."""
    bridge = bridge_of(request)
    said = checked(CANCEL, await body_of(request))
    if not said:
        raise Problem(422, "which jobs are to end is not said", 'say user, name or "all": true')
    wanted = QueueQuery(user=said.get("user"), name=said.get("name"))

    def cancel_wanted() -> list[int]:
        ids = sorted(job.id for job in bridge.plane.queue(wanted))
        return bridge.plane.cancel_all(ids, who_of(request))

    return answer({"ids": await bridge.call(cancel_wanted)})


@router.get("/jobs/{job}/report", response_model=Progress, responses=documented(404, 422, 503))
async def progress(request: Request, job: JobId, query: Nothing) -> Response:
    """What the job last said of itself: step, loss and the like."""
    bridge = bridge_of(request)
    one = await found(bridge, job)
    view = await bridge.call(bridge.plane.view, one)
    return answer({"job": one.id, "values": view.get("progress") or {}})


@router.post(
    "/jobs/{job}/report",
    status_code=204,
    response_class=Response,
    responses=documented(404, 409, 415, 422, 503),
    openapi_extra=taking("ReportIn"),
)
async def report(request: Request, job: JobId, query: Nothing) -> Response:
    """Say how far a job has come. Jobs on this machine use `flyball.report`, which is cheaper."""
    bridge = bridge_of(request)
    said = checked(REPORT, await body_of(request))
    one = await found(bridge, job)
    attempt = said.get("attempt") or one.attempt
    await bridge.call(bridge.plane.report, one.id, attempt, said["values"])
    return Response(status_code=204)
