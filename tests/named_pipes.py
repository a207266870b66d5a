"""Writes to named pipes that a job reads, without waiting for ever for a reader."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.until import until


def open_for_reader(path: Path) -> int:
    """Return the write end of a named pipe as soon as somebody reads it.

    A plain open never returns if nobody does.
    """

    def write_end() -> int | None:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return None

    descriptor = until(write_end, f"a reader of {path}")
    assert descriptor is not None
    return descriptor


def send_line(path: Path) -> None:
    """Write one line to a named pipe, once somebody reads it."""
    descriptor = open_for_reader(path)
    os.write(descriptor, b"x\n")
    os.close(descriptor)
