"""The API's secret: a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from flyball.core.errors import BadInput

NAME = "token"
LEAST = 32
"""Characters of a token; ours have 43 (256 bits)."""
MOST = 512


def make_token(folder: Path) -> str:
    """The token in a state folder; made if there is none.

    Raises:
        BadInput: the file is not usable as a secret.
    """
    path = folder / NAME
    draft = folder / f"{NAME}.{os.getpid()}.new"
    if not path.exists():
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            # A link fails where a file exists: of two that start at once, one token wins.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
    return read_token(folder)


def read_token(folder: Path) -> str:
    """The token in a state folder.

    Raises:
        BadInput: there is none, others can read it, or it is too short to be a secret.
    """
    path = folder / NAME
    remedy = f"remove {path} and start the control plane again: it makes a new one"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput(f"cannot read the token {path}: {error.strerror}", remedy) from error
    with open(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise BadInput(f"the token {path} is not a file of this user", remedy)
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise BadInput(f"others may read the token {path} (mode {mode:04o})", remedy)
        token = file.read(MOST + 2).strip()
    if not LEAST <= len(token) <= MOST or not token.isascii() or not token.isprintable():
        raise BadInput(f"the token {path} is not {LEAST} to {MOST} printable characters", remedy)
    return token
