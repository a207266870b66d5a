"""Runs `flyball up` and kills it: `python killed_up.py POINTS KILL_AT up --state DIR ...`.

A point is a file of the state folder that is opened, linked, renamed, removed or made, or a
statement that SQLite is about to run. The process appends the name of every point it reaches to
the file POINTS and, on reaching number KILL_AT (0 = never), ends by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.truncate"}


def main() -> int:
    points_path, kill_at, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    state = str(Path(arguments[arguments.index("--state") + 1]).resolve())
    log = os.open(points_path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    reached = 0

    def pass_point(name: str) -> None:
        nonlocal reached
        reached += 1
        os.write(log, f"{name}\n".encode())
        if reached == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(event: str, details: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS:
            paths = [os.fsdecode(detail) for detail in details if isinstance(detail, (str, bytes))]
            if any(path.startswith(state) for path in paths):
                pass_point(f"{event} {paths[0].removeprefix(state)}")

    connect = sqlite3.connect

    def connect_traced(*where: Any, **settings: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*where, **settings)
        connection.set_trace_callback(lambda statement: pass_point(_short(statement)))
        return connection

    for module in (sqlite3, sqlite3.dbapi2):
        setattr(module, "connect", connect_traced)  # noqa: B010
    sys.addaudithook(hear)
    from flyball.cli.main import run

    return run(arguments)


def _short(statement: str) -> str:
    return " ".join(statement.split())[:60]


if __name__ == "__main__":
    sys.exit(main())
