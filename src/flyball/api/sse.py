"""Server-sent events: their format, and the streams of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.responses import StreamingResponse

from flyball.api.bridge import Bridge
from flyball.api.problems import Problem
from flyball.control.access.roles import Caller

MEDIA_TYPE = "text/event-stream"
SCHEMA = {
    "type": "object",
    "description": "One event of the stream; `data` is JSON.",
    "required": ["data"],
    "properties": {name: {"type": "string"} for name in ("event", "data", "id")},
}
HEARTBEAT = b": waiting\n\n"
RETRY = b"retry: 1000\n\n"
"""First frame of a stream: a client that loses the connection retries after a second."""
PAGE = 1000


def frame(data: Any, event: str = "", id: str = "") -> bytes:
    """Return one event. JSON contains no newlines, so one data line is enough."""
    head = f"event: {event}\n" if event else ""
    tail = f"\nid: {id}" if id else ""
    body = data if isinstance(data, bytes) else to_json(data, inf_nan_mode="null")
    return head.encode() + b"data: " + body + tail.encode() + b"\n\n"


def heartbeat(seq: int) -> bytes:
    """Return a heartbeat with the id from which a client can resume."""
    return HEARTBEAT if seq <= 0 else f": waiting\nid: {seq}\n\n".encode()


def streaming(bridge: Bridge, caller: Caller, frames: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a response that sends frames until they, the client or the server end.

    It also ends when the caller's token is replaced or revoked: its client may not have the new
    one.

    Raises:
        Problem: 429 if too many streams are open: each uses a connection and memory.
    """
    if bridge.streams >= bridge.settings.streams:
        raise Problem(429, f"{bridge.streams} streams are open", "close some, or poll")

    changes = bridge.secret.changes

    async def counted() -> AsyncIterator[bytes]:
        bridge.streams += 1
        try:
            yield RETRY
            async for one_frame in frames:
                if bridge.secret.changes != changes or not bridge.callers.is_current(caller):
                    return
                yield one_frame
        except Problem as problem:  # too late for a status: it is sent as an event
            yield frame(problem.document(), "error")
        finally:
            bridge.streams -= 1

    return StreamingResponse(counted(), media_type=MEDIA_TYPE)


async def event_frames(
    bridge: Bridge,
    after: int,
    kinds: Sequence[str],
    job: int,
    shown: Callable[[dict[str, Any]], dict[str, Any]],
) -> AsyncIterator[bytes]:
    """Yield the events newer than `after`, then new ones as they happen.

    Args:
        shown: returns an event as the caller may see it.
    """
    end_s = bridge.now_s() + bridge.settings.stream_s
    sent_s = bridge.now_s()
    while not bridge.closing and (left_s := end_s - bridge.now_s()) > 0:
        # The newest number is read first: all events up to it are in the rows, or filtered out.
        newest = await bridge.newer(after, min(left_s, bridge.settings.heartbeat_s))
        rows: list[Any] = []
        if newest > after:
            rows = await bridge.call(bridge.plane.ask.events, after, PAGE, kinds, job)
        for row in rows:
            yield frame(shown(row), str(row["kind"]), str(row["seq"]))
        after = int(rows[-1]["seq"]) if len(rows) == PAGE else max(after, newest)
        # Events that are filtered out may come all the time: the client still gets heartbeats.
        if not rows and bridge.now_s() - sent_s >= bridge.settings.heartbeat_s:
            yield heartbeat(after)
        elif not rows:
            continue
        sent_s = bridge.now_s()
