"""Files that only their owner can read: written whole or not at all, checked when read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from flyball.core.errors import BadInput


def write_private(path: Path, text: str) -> None:
    """Write or replace a file of mode 0600; it is on disk when this returns."""
    draft = write_draft(path, text)
    try:
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def create_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 unless there is one: of two processes at once, one text wins."""
    if path.exists():
        return
    draft = write_draft(path, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_draft(path: Path, text: str) -> Path:
    """Write a draft next to a file, synced; return its path."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft


def sync_folder(folder: Path) -> None:
    """Make a rename durable: otherwise a power failure might restore the old file."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_private(path: Path, what: str, remedy: str, most: int) -> str:
    """Return the text of a file.

    Args:
        what: names the file in errors.
        most: maximum length; one more character is returned of a longer file.

    Raises:
        BadInput: there is none, it is not a file of this user, or others can read it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput(f"cannot read {what} {path}: {error.strerror}", remedy) from error
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise BadInput(f"{what} {path} is not a file of this user", remedy)
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise BadInput(f"others may read {what} {path} (mode {mode:04o})", remedy)
        return file.read(most + 1)


def state_of(path: Path) -> tuple[int, ...]:
    """Return what changes whenever a file is replaced; () if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
