"""Keeps what a long command has finished, so that an interrupted run continues where it stopped.

The file has a line of JSON per finished piece of work, with a key built from all that its result
depends on. A piece that is in the file is not run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from flyball import __version__
from flyball.core.errors import BadInput
from flyball.physics.kernel_sources import PACKAGE

Record = dict[str, Any]
Note = Callable[[str], None]

SYNC_S = 1.0
"""Minimum time between two fsyncs."""


@cache
def source_version(patterns: tuple[str, ...]) -> str:
    """Return the package's version and a digest of the sources that match the patterns."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for source in sorted(path for path in PACKAGE.glob(pattern) if path.is_file()):
            name = source.relative_to(PACKAGE).as_posix()
            digest.update(name.encode() + b"\0" + source.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:16]}"


def key_of(*parts: Any) -> str:
    """Return a short key; the same parts give the same key."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class RunFile:
    """The file of runs: read completely, then appended to. Use it in a `with` statement.

    A line is written when its run ends and synced to disk within about a second: a killed process
    loses nothing, a power cut next to nothing. A damaged line is left where it is, and its run is
    done again.

    Args:
        path: created if it does not exist.
        note: receives which lines cannot be used.
    """

    def __init__(self, path: Path, note: Note | None = None) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        ends_with_newline = True
        try:
            text = path.read_bytes() if path.exists() else b""
            ends_with_newline = not text or text.endswith(b"\n")
            self._read(text, path, note)
            self._file = path.open("ab")
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}", "name another folder") from None
        if not ends_with_newline:  # the next line must not become a part of the damaged one
            self._file.write(b"\n")
        self._synced = time.monotonic()

    def _read(self, text: bytes, path: Path, note: Note | None) -> None:
        damaged = []
        for row, line in enumerate(text.splitlines(), start=1):
            record = _parsed(line)
            if record is not None:
                self.records[record["key"]] = record
            elif line.strip():
                damaged.append(row)
        if damaged and note is not None:
            rows = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
            note(f"note: {path} row {rows} is damaged; that run is repeated")

    def append(self, record: Record) -> None:
        """Append a run."""
        self.records[record["key"]] = record
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > SYNC_S:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def __enter__(self) -> RunFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.flush()
        self._sync()
        self._file.close()


def holds_records(path: Path) -> bool:
    """Return whether a file has at least one record of a run, without changing it."""
    return any(_parsed(line) is not None for line in path.read_bytes().splitlines())


def _parsed(line: bytes) -> Record | None:
    """Return the record in a line, None if it is not one."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None
