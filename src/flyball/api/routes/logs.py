"""Route of a job's log: all of it, a range, the last lines, or a stream."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse

from flyball.api import sse
from flyball.api.bridge import bridge_of
from flyball.api.callers import caller_of, needs, visible
from flyball.api.logs import LogFollower, LogReader
from flyball.api.models import LogsQuery
from flyball.api.problems import Problem, documented
from flyball.api.routes.jobs import JobId, find_job
from flyball.control.access.roles import Right
from flyball.core.jobs import Job

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=needs(Right.READ))

TEXT = "text/plain; charset=utf-8"
CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The log, or (`follow`) a stream: each event's data is "
        '`{"text", "attempt"}`; the last event, `end`, holds the job. Bytes that are not '
        "UTF-8 are lone surrogates there (`surrogateescape`).",
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            sse.MEDIA_TYPE: {"schema": sse.SCHEMA},
        },
    },
    206: {
        "description": "The requested range.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
}
RANGE = re.compile(r"^bytes=(\d{0,18})-(\d{0,18})$")


@router.get(
    "/jobs/{job}/logs",
    response_class=Response,
    responses={**CONTENT, **documented(404, 416, 422, 503)},
)
async def logs(
    request: Request,
    job: JobId,
    query: Annotated[LogsQuery, Query()],
    range: Annotated[str | None, Header(max_length=100, description="`bytes=0-999`")] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", max_length=40, description="Resume after this event."),
    ] = None,
) -> Response:
    """Return a job's log, stdout and stderr together unless the job set two files."""
    bridge = bridge_of(request)
    target = await find_job(bridge, job)
    if query.follow:
        if query.attempt > target.attempt:
            raise Problem(404, f"job {target.label} has no attempt {query.attempt}", "leave it out")
        frames = _frames(request, target, query, last_event_id or "")
        return sse.streaming(bridge, caller_of(request), frames)
    path = await bridge.call(bridge.plane.ask.log_path, target.id, query.attempt, query.stream)
    log = await bridge.call(LogReader, path)
    if not log.exists:
        raise Problem(
            404, f"job {target.label} has printed nothing: it is {target.state.value}",
            f"`flyball why {target.label}` explains why it waits", "no-log",
        )  # fmt: skip
    try:
        if query.tail is not None:
            start, stop = await bridge.call(log.tail_start, query.tail), log.size
        else:
            start, stop = _byte_range(range, log.size)
    except BaseException:
        log.close()
        raise
    partial = query.tail is None and range is not None and RANGE.match(range) is not None
    headers = {"Accept-Ranges": "bytes"}
    if partial:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{log.size}"
    chunks = iterate_in_threadpool(log.chunks(start, stop))
    return StreamingResponse(chunks, 206 if partial else 200, headers, TEXT)


def _byte_range(range: str | None, size: int) -> tuple[int, int]:
    """Return the first byte and the one after the last; all for other than one range of bytes."""
    match = RANGE.match(range or "")
    if match is None:
        return 0, size
    first_byte, last_byte = match.groups()
    if first_byte:
        start, stop = int(first_byte), min(int(last_byte) + 1 if last_byte else size, size)
    else:  # a suffix of the log
        start, stop = max(size - int(last_byte or 0), 0), size
    if start >= stop:
        raise Problem(
            416, f"{range} is outside the log of {size:,} bytes", "request a smaller range",
            headers={"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return start, stop


async def _frames(request: Request, job: Job, query: LogsQuery, last: str) -> AsyncIterator[bytes]:
    """Yield the log as it grows, through all attempts, until the job has ended."""
    bridge = bridge_of(request)
    settings, plane = bridge.settings, bridge.plane
    end_s = bridge.now_s() + settings.stream_s
    attempt, start = _resumed(last, query.attempt or job.attempt, job.attempt)
    tail = None if last else query.tail
    follower: LogFollower | None = None
    sent_s = bridge.now_s()
    try:
        while not bridge.closing and bridge.now_s() < end_s:
            # The state is read before the log: if the job has ended, all output is written.
            now = await bridge.call(plane.ask.job, job.id)
            if attempt > 0:
                path = await bridge.call(plane.ask.log_path, job.id, attempt, query.stream)
                if follower is None or follower.path != path:  # attempts may share a file
                    if follower:
                        follower.close()
                    follower = await bridge.call(LogFollower, path, tail, start)
            while follower and (chunk := await bridge.call(follower.read)):
                yield _chunk(chunk, attempt, follower.offset)
                sent_s = bridge.now_s()
            if now.attempt > attempt and not query.attempt:  # it was requeued
                attempt, start, tail = now.attempt, 0, None
                continue
            if now.state.final or now.attempt > attempt:
                view = await bridge.call(plane.ask.view, now)
                yield sse.frame(visible(request, view), "end")
                return
            if bridge.now_s() - sent_s >= settings.heartbeat_s:
                yield sse.HEARTBEAT
                sent_s = bridge.now_s()
            await asyncio.sleep(settings.poll_s)
    finally:
        if follower:
            follower.close()


def _chunk(chunk: bytes, attempt: int, offset: int) -> bytes:
    # Not `to_json`, which refuses the lone surrogates for bytes that are not UTF-8.
    text = chunk.decode("utf-8", "surrogateescape")
    data = json.dumps({"text": text, "attempt": attempt}).encode()
    return sse.frame(data, "", f"{attempt}-{offset}")


def _resumed(last: str, attempt: int, newest: int) -> tuple[int, int]:
    """Return attempt and offset of a `Last-Event-ID`; the start if it is not valid."""
    match = re.fullmatch(r"(\d{1,9})-(\d{1,18})", last)
    if match and 1 <= int(match[1]) <= newest:
        return int(match[1]), int(match[2])
    return attempt, 0
