"""Tokens of attempts: with one, a job on any host can report and read its orders, nothing else.

A token is derived from a key in the state folder by HMAC, so none is stored: (job, attempt) is what
it proves, and whether that attempt still runs is asked of the live state at every request.

    tokens = AttemptTokens(folder)
    tokens.token(17, 1)             fba_17_1_...   for the job's environment
    tokens.attempt_of(token)        (17, 1)        None if it is forged
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import threading
from pathlib import Path

from flyball.control.access.private_file import create_private, read_private
from flyball.core.errors import BadInput

NAME = "attempt-key"
PREFIX = "fba_"
FORM = re.compile(rf"{PREFIX}([1-9][0-9]{{0,14}})_([1-9][0-9]{{0,8}})_([A-Za-z0-9_-]{{43}})")
PURPOSE = b"flyball attempt 1"
KEY = re.compile(r"[0-9a-f]{64}\s*")


class AttemptTokens:
    """Issues and verifies the tokens of a state folder. Safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._key = b""
        self._reading = threading.Lock()

    def token(self, job: int, attempt: int) -> str:
        """Return the token of an attempt; the key is created with the first one.

        Raises:
            BadInput: the key cannot be used.
        """
        if not self._key:
            create_private(self._path, secrets.token_hex(32) + "\n")
        return f"{PREFIX}{job}_{attempt}_{self._proof(job, attempt)}"

    def attempt_of(self, token: str) -> tuple[int, int] | None:
        """Return job and attempt that a token proves; None if it proves nothing."""
        parts = FORM.fullmatch(token)
        if parts is None or not (self._key or self._path.exists()):
            return None
        job, attempt = int(parts[1]), int(parts[2])
        try:
            proof = self._proof(job, attempt)
        except BadInput:
            return None
        return (job, attempt) if hmac.compare_digest(proof, parts[3]) else None

    def _proof(self, job: int, attempt: int) -> str:
        message = b"%s\0%d\0%d" % (PURPOSE, job, attempt)
        digest = hmac.digest(self._read_key(), message, "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _read_key(self) -> bytes:
        with self._reading:
            if not self._key:
                remedy = f"remove it and restart: running jobs lose their tokens ({NAME})"
                text = read_private(self._path, "the key of attempts", remedy, 80)
                if not KEY.fullmatch(text):
                    raise BadInput(f"{self._path} is not 64 hexadecimal digits", remedy)
                self._key = bytes.fromhex(text.strip())
            return self._key
