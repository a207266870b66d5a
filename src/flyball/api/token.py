"""The API's token: a secret in a file that only its owner can read."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
from pathlib import Path

from flyball.control.access.private_file import (
    create_private,
    read_private,
    state_of,
    write_private,
)
from flyball.core.errors import BadInput

NAME = "token"
LEAST = 32
"""Minimum length of a token; ours have 43 characters (256 bits)."""
MOST = 512

logger = logging.getLogger("flyball.api")


class Secret:
    """The token that requests must carry, which may be replaced while the server runs.

    The file is checked when a request carries another token, and whenever `refresh` is called, so
    a new token is accepted from its first request on. From then on the old one is refused.

    Attributes:
        changes: how often it was replaced since the start.
    """

    def __init__(self, token: str, folder: Path | None = None) -> None:
        self.changes = 0
        self._value, self._folder = token.encode(), folder
        self._seen: tuple[int, ...] = ()  # so that the first check always reads the file
        self._reading = threading.Lock()

    def matches(self, token: bytes) -> bool:
        """Return whether this is the current token."""
        if hmac.compare_digest(token, self._value):
            return True
        self.refresh()
        return hmac.compare_digest(token, self._value)

    def refresh(self) -> None:
        """Reread the token if its file was replaced; an invalid one is ignored."""
        if self._folder is None:
            return
        with self._reading:
            seen = state_of(self._folder / NAME)
            if not seen or seen == self._seen:  # removed: valid until there is another
                return
            self._seen = seen
            try:
                value = read_token(self._folder).encode()
            except BadInput as error:
                logger.warning("the token stays as it was: %s", error)
                return
            if not hmac.compare_digest(value, self._value):
                self._value = value
                self.changes += 1
                logger.warning("the token was replaced; the old one is refused from now on")


def make_token(folder: Path) -> str:
    """Return the token of a state folder; created if there is none.

    Raises:
        BadInput: the file is not valid as a secret.
    """
    create_private(folder / NAME, secrets.token_urlsafe(32) + "\n")
    return read_token(folder)


def replace_token(folder: Path) -> str:
    """Replace the token of a state folder, which may be invalid or absent.

    Returns:
        The new token, which is on disk.
    """
    write_private(folder / NAME, secrets.token_urlsafe(32) + "\n")
    return read_token(folder)


def read_token(folder: Path) -> str:
    """Return the token of a state folder.

    Raises:
        BadInput: there is none, others can read it, or it is too short to be a secret.
    """
    path = folder / NAME
    remedy = "`flyball token rotate` makes a new one"
    token = read_private(path, "the token", remedy, MOST + 1).strip()
    if not LEAST <= len(token) <= MOST or not token.isascii() or not token.isprintable():
        raise BadInput(f"the token {path} is not {LEAST} to {MOST} printable characters", remedy)
    return token
