"""The process beside the control plane: reads the journal, says what it expects, line by line.

    python -m flyball.learn.worker --state DIR

Lines of JSON go out on standard output (`follower.py` lists them, and `{"alive": seq}` at every
step); questions come in on standard input (`{"ask": number, "spec": {...}}`). It ends when that
is closed. It is nice, and whatever becomes of it the control plane goes on. While nothing is
written to the journal it does next to nothing.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from flyball.control.journal.history import History
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobSpec
from flyball.core.units import US_PER_S
from flyball.learn.worker_state import FOLDER, Follower
from flyball.monitor.contention import Contention
from flyball.monitor.reader import Telemetry

JOURNAL = "journal.db"
NICE = 10
LOOK_S = 1.0
"""Between two looks at whether the journal was written to."""
STEP_S = 10.0
"""Between two steps where it was not: some things are due by the clock."""
REST = 9.0
"""Times as long as a step took it rests after it: a tenth of a core at most, whatever happens."""


class Watched:
    """Tells whether a journal was written to since the last look, without opening it."""

    def __init__(self, journal: Path) -> None:
        self._files = [journal, journal.with_name(journal.name + "-wal")]
        self._last: list[tuple[int, int]] = []

    def changed(self) -> bool:
        """Whether it was, or may have been."""
        last, self._last = self._last, [_marks(each) for each in self._files]
        return self._last != last


def _marks(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def serve(
    follower: Follower,
    questions: IO[bytes],
    say: Callable[[dict[str, Any]], None],
    changed: Callable[[], bool] = lambda: True,
) -> None:
    """Follow until nobody asks any more."""
    waiting, due_s, rested_s, news = b"", -math.inf, -math.inf, False
    while True:
        now_s = time.monotonic()
        news |= changed()
        if now_s >= rested_s and (news or now_s >= due_s):
            began_s, news = time.process_time(), False
            messages = follower.step()
            for message in messages:
                say(message)
            say({"alive": follower.book.seq})
            now_s = time.monotonic()
            rested_s = now_s + REST * (time.process_time() - began_s)
            due_s = now_s + (LOOK_S if messages else STEP_S)  # there may be more
        ready, _, _ = select.select([questions], [], [], LOOK_S)
        if ready:
            read = os.read(questions.fileno(), 65_536)
            if not read:
                follower.close()
                return
            *lines, waiting = (waiting + read).split(b"\n")
            for line in lines:
                say(_answer(follower, line))


def _answer(follower: Follower, line: bytes) -> dict[str, Any]:
    """The answer to one question; none if it makes no sense."""
    number = None
    try:
        asked = json.loads(line)
        number = asked["ask"]
        return {"answer": number, "run": follower.predict(JobSpec.of(asked["spec"]))}
    except (FlyballError, ValueError, KeyError, TypeError):
        return {"answer": number, "run": None}


def main() -> None:
    """The process."""
    os.nice(NICE)
    state = Path(sys.argv[sys.argv.index("--state") + 1])
    out = sys.stdout

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    telemetry = Telemetry(state / "telemetry")
    with History(state / JOURNAL) as history:
        last_us = history.last().time_us
        ahead_us = max(0, last_us - round(time.time() * US_PER_S))

        def now_us() -> int:
            return round(time.time() * US_PER_S) + ahead_us

        follower = Follower(history, state / FOLDER, now_us, telemetry.series)
        # Measured on the control plane: a worker runs at a lower priority than jobs do.
        follower.forecaster.slowdown = Contention(os.getppid()).slowdown
        try:
            serve(follower, sys.stdin.buffer, say, Watched(state / JOURNAL).changed)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
