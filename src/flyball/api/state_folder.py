"""The state folder: its location, the checks of its permissions, and its lock."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flyball.core.errors import BadInput, Unavailable


def default_state() -> Path:
    """Return `FLYBALL_STATE`, else `flyball` in `XDG_STATE_HOME`, else in `~/.local/state`.

    Raises:
        BadInput: `FLYBALL_STATE` is set and is not an absolute path.
    """
    if stated := os.environ.get("FLYBALL_STATE"):
        if not os.path.isabs(stated):
            raise BadInput(f"FLYBALL_STATE={stated} is not absolute", "give an absolute path")
        return Path(stated)
    home = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative path.
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "flyball"


def open_state(path: Path) -> Path:
    """Create the folder (mode 0700) if it does not exist, and check it; returns it resolved.

    A user who can write here can run programs as this user, so no other user may: neither in the
    folder nor in its parent, where the folder could be replaced.

    Raises:
        BadInput: it cannot be created, is not a folder, is another user's, or others may write
            to it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        resolved = path.resolve(strict=True)
        status = os.stat(resolved)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"cannot use the state folder {path}: {why}", "name another") from error
    me = os.geteuid()
    if status.st_uid != me:
        raise BadInput(
            f"the state folder {resolved} belongs to user {status.st_uid}, not to {me}",
            "name a folder of your own",
        )
    if status.st_mode & 0o022:
        mode = stat.S_IMODE(status.st_mode)
        raise BadInput(
            f"others may write to the state folder {resolved} (mode {mode:04o})",
            f"chmod 700 {resolved}",
        )
    _check_parent(resolved)
    if status.st_mode & 0o077:
        os.chmod(resolved, 0o700)
    return resolved


def _check_parent(resolved: Path) -> None:
    """Refuse a parent that others may write to, as they could replace the folder, unless sticky."""
    status = os.stat(resolved.parent)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o002 and not mode & stat.S_ISVTX:
        raise BadInput(
            f"any user may rename the state folder: {resolved.parent} has mode {mode:04o}",
            "name a folder elsewhere",
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder; only one control plane may use it.

    Raises:
        Unavailable: another process has locked it.
    """
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(
                f"another control plane uses {folder}", "stop it, or name another --state"
            ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a control plane has locked the folder, even one that is still starting."""
    try:
        with open(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
