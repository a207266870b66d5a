"""The state folder: where it is, and whether it can be trusted."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from flyball.core.errors import BadInput

ENDPOINT = "endpoint.json"


def default_state() -> Path:
    """`FLYBALL_STATE`, else `flyball` under `XDG_STATE_HOME`, else under `~/.local/state`.

    Raises:
        BadInput: `FLYBALL_STATE` is set and is not an absolute path.
    """
    if named := os.environ.get("FLYBALL_STATE"):
        if not os.path.isabs(named):
            raise BadInput(f"FLYBALL_STATE={named} is not absolute", "give the whole path")
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME", "")
    # A relative XDG path is to be ignored, says its specification.
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "flyball"


def open_state(path: Path) -> Path:
    """Make the folder (mode 0700) if it is not there, and check it. Returns it resolved.

    Whoever can write here can run programs as this user, so it must be nobody else's: not the
    folder, and not the name that leads to it.

    Raises:
        BadInput: it cannot be made, is no folder, is another user's, or others may write to it.
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
    """A parent that others may write to lets them swap the folder, unless it is sticky."""
    status = os.stat(resolved.parent)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o002 and not mode & stat.S_ISVTX:
        raise BadInput(
            f"anybody may rename the state folder: {resolved.parent} has mode {mode:04o}",
            "name a folder elsewhere",
        )


def write_endpoint(folder: Path, url: str, ca: str | Path = "") -> Path:
    """Say where the control plane of this folder is: `endpoint.json`, mode 0600, in one step.

    Args:
        ca: the certificate that clients on this machine are to trust, if there is one.
    """
    path = folder / ENDPOINT
    draft = folder / f"{ENDPOINT}.{os.getpid()}.new"
    found: dict[str, object] = {"url": url, "pid": os.getpid()}
    if ca:
        found["ca"] = str(Path(ca).resolve())
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(draft, path)
    return path


def remove_endpoint(folder: Path) -> None:
    """Nobody serves this folder any more."""
    (folder / ENDPOINT).unlink(missing_ok=True)
