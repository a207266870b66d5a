"""Reads server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Frame(NamedTuple):
    """One event of a stream."""

    event: str
    data: str
    id: str


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Yield the events in the lines of a stream; comments and unknown fields are skipped.

    An id without an event is a frame without data.
    """
    event, last, moved = "", "", False
    data: list[str] = []
    for line in lines:
        if not line:
            if data or moved:
                yield Frame(event or "message", "\n".join(data), last)
            event, moved = "", False
            data = []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id":
            last, moved = value, True
