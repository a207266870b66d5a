"""Reports which files of a folder were written to or closed (inotify).

The kernel closes the files of a dead process, so a supervisor that was killed is noticed as soon
as one that ended: both close their claim.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

IN_MODIFY, IN_CLOSE_WRITE, IN_Q_OVERFLOW = 0x2, 0x8, 0x4000
HEAD = struct.Struct("iIII")


class FolderWatch:
    """Collects the changes in a folder since the last call.

    If the user's limit of inotify watches is reached, `works` is False and `fileno` is -1: the
    folder must then be rescanned.
    """

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file >= 0:
            mask = IN_MODIFY | IN_CLOSE_WRITE
            if libc.inotify_add_watch(self._file, os.fsencode(folder), mask) < 0:
                os.close(self._file)
                self._file = -1

    @property
    def works(self) -> bool:
        return bool(self._file >= 0)

    def fileno(self) -> int:
        return int(self._file)

    def changed(self) -> dict[str, bool] | None:
        """Return the changed files and whether each was closed; None = rescan the folder."""
        if not self.works:
            return None
        closed: dict[str, bool] = {}
        overflow = False
        while data := self._read():
            at = 0
            while at < len(data):
                _watch, mask, _cookie, length = HEAD.unpack_from(data, at)
                at += HEAD.size + length
                overflow = overflow or bool(mask & IN_Q_OVERFLOW)
                name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
                closed[name] = closed.get(name, False) or bool(mask & IN_CLOSE_WRITE)
        return None if overflow else closed

    def close(self) -> None:
        if self.works:
            os.close(self._file)
            self._file = -1

    def _read(self) -> bytes:
        try:
            return os.read(self._file, 65536)
        except BlockingIOError:
            return b""
