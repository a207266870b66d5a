"""The loop of the worker process: steps while the journal changes, answers questions in between.

Messages go out as lines of JSON, and `{"alive": seq}` after every step; questions come in as lines
`{"ask": number, "spec": {...}}`. The loop ends when its input is closed. While the journal is not
written to it does next to nothing.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from flyball.control.ask.worker_state import WorkerState
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobSpec

POLL_S = 1.0
"""Time between two checks whether the journal was written to."""
STEP_S = 10.0
"""Time between two steps while the journal does not change, for what is due by the clock."""
REST_FACTOR = 9.0
"""Rest after a step as a multiple of its CPU time: the worker uses a tenth of a core at most."""


class JournalWatch:
    """Tells whether a journal was written to since the last check, without opening it."""

    def __init__(self, journal: Path) -> None:
        self._files = [journal, journal.with_name(journal.name + "-wal")]
        self._last: list[tuple[int, int]] = []

    def changed(self) -> bool:
        """Return whether it was, or may have been, written to."""
        last, self._last = self._last, [_stamp(path) for path in self._files]
        return self._last != last


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def serve(
    worker: WorkerState,
    questions: IO[bytes],
    send: Callable[[dict[str, Any]], None],
    changed: Callable[[], bool] = lambda: True,
) -> None:
    """Run until the input is closed."""
    partial_line, due_s, rested_s, news = b"", -math.inf, -math.inf, False
    while True:
        now_s = time.monotonic()
        news |= changed()
        if now_s >= rested_s and (news or now_s >= due_s):
            began_s, news = time.process_time(), False
            messages = worker.step()
            for message in messages:
                send(message)
            send({"alive": worker.live_state.seq})
            now_s = time.monotonic()
            rested_s = now_s + REST_FACTOR * (time.process_time() - began_s)
            due_s = now_s + (POLL_S if messages else STEP_S)  # there may be more to read
        ready, _, _ = select.select([questions], [], [], POLL_S)
        if ready:
            read = os.read(questions.fileno(), 65_536)
            if not read:
                worker.close()
                return
            *lines, partial_line = (partial_line + read).split(b"\n")
            for line in lines:
                send(_answer(worker, line))


def _answer(worker: WorkerState, line: bytes) -> dict[str, Any]:
    """Answer one question; a malformed one gets no run time."""
    number = None
    try:
        question = json.loads(line)
        number = question["ask"]
        return {"answer": number, "run": worker.predict(JobSpec.of(question["spec"]))}
    except (FlyballError, ValueError, KeyError, TypeError):
        return {"answer": number, "run": None}
