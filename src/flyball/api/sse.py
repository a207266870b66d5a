"""Server-sent events: one line format, one way to end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.responses import StreamingResponse

from flyball.api.bridge import Bridge
from flyball.api.problems import Problem

MEDIA_TYPE = "text/event-stream"
SCHEMA = {
    "type": "object",
    "description": "One event of the stream; `data` is JSON.",
    "required": ["data"],
    "properties": {each: {"type": "string"} for each in ("event", "data", "id")},
}
HEARTBEAT = b": waiting\n\n"
RETRY = b"retry: 1000\n\n"
"""Comes first: a client that loses us tries again after a second."""
PAGE = 1000


def frame(data: Any, event: str = "", id: str = "") -> bytes:
    """One event. JSON has no line ends of its own, so one data line is enough."""
    head = f"event: {event}\n" if event else ""
    tail = f"\nid: {id}" if id else ""
    body = data if isinstance(data, bytes) else to_json(data, inf_nan_mode="null")
    return head.encode() + b"data: " + body + tail.encode() + b"\n\n"


def seen(seq: int) -> bytes:
    """A sign of life from which a client that comes again knows how far it was."""
    return HEARTBEAT if seq <= 0 else f": waiting\nid: {seq}\n\n".encode()


def streaming(bridge: Bridge, frames: AsyncIterator[bytes]) -> StreamingResponse:
    """The response that sends frames until they, the client or the server end.

    It also ends when the token is replaced: whoever opened it may not have the new one.

    Raises:
        Problem: 429, too many streams are open: each holds a connection and memory.
    """
    if bridge.streams >= bridge.settings.streams:
        raise Problem(429, f"{bridge.streams} streams are open", "close some, or poll")

    changes = bridge.secret.changes

    async def counted() -> AsyncIterator[bytes]:
        bridge.streams += 1
        try:
            yield RETRY
            async for each in frames:
                if bridge.secret.changes != changes:
                    return
                yield each
        except Problem as problem:  # too late for a status: the stream says it itself
            yield frame(problem.document(), "error")
        finally:
            bridge.streams -= 1

    return StreamingResponse(counted(), media_type=MEDIA_TYPE)


async def event_frames(
    bridge: Bridge, after: int, kinds: Sequence[str], job: int
) -> AsyncIterator[bytes]:
    """Events newer than `after`, then those to come."""
    end_s = bridge.now_s() + bridge.settings.stream_s
    spoke_s = bridge.now_s()
    while not bridge.closing and (left_s := end_s - bridge.now_s()) > 0:
        # What is newest is asked first: all up to it will be among the rows, or not wanted.
        newest = await bridge.newer(after, min(left_s, bridge.settings.heartbeat_s))
        rows: list[Any] = []
        if newest > after:
            rows = await bridge.call(bridge.plane.events, after, PAGE, kinds, job)
        for row in rows:
            yield frame(row, str(row["kind"]), str(row["seq"]))
        after = int(rows[-1]["seq"]) if len(rows) == PAGE else max(after, newest)
        # What is not wanted may come all the time: a client is to hear from us all the same.
        if not rows and bridge.now_s() - spoke_s >= bridge.settings.heartbeat_s:
            yield seen(after)
        elif not rows:
            continue
        spoke_s = bridge.now_s()
