"""The folder that the control plane and the nodes share: claims, requests, signs of life, orders.

claims/J.A          claimed once, by O_EXCL; later the record of the end (`engines/local/claim.py`)
requests/J.A        what to run, as JSON
slurm/J.A           Slurm's number of it; J.A.out: what the batch script itself printed
starts/J.A          where it began, and on which GPUs, as JSON
beats/J.A           counts up while its keeper lives and can write here
orders/J.A          `preempt` or `cancel`
logs/, checkpoints/ as in any state folder
lock                held by the control plane that uses the folder
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput

PARTS = ("claims", "requests", "slurm", "starts", "beats", "orders", "logs", "checkpoints")
logger = logging.getLogger("flyball.engine")
RACERS, ROUNDS = 4, 25
"""Threads that try to create the same file, and how often, when a folder is probed."""


class SharedFolder:
    """Reads and writes the files of attempts."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            BadInput: the folder cannot be used.
        """
        self.path = path.resolve()
        try:
            for part in PARTS:
                (self.path / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"{path} cannot be shared with the nodes: {error.strerror}",
                "name a folder with --shared that all nodes see under the same path",
            ) from None
        self._lock = -1
        self.claims = os.open(self.path / "claims", os.O_RDONLY | os.O_DIRECTORY)

    def take(self) -> None:
        """Refuse other control planes the folder, until it is closed.

        Raises:
            BadInput: another one uses it.
        """
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{self.path} is in use by another control plane: each would end jobs of the other",
                "stop that one (`flyball down`), or name another folder with --shared",
            ) from None
        except OSError as error:  # a file system without locks
            logger.warning(
                "%s: no locks there (%s): use it from one host", self.path, error.strerror
            )

    def close(self) -> None:
        """Release the lock and the descriptors."""
        os.close(self.claims)
        if self._lock >= 0:
            os.close(self._lock)

    def cluster(self) -> str:
        """Return the name of this control plane in Slurm's comments, drawn once."""
        path = self.path / "cluster"
        with contextlib.suppress(FileExistsError):
            self._create(path, secrets.token_hex(6))
        return path.read_text("ascii").strip()

    def _create(self, path: Path, text: str) -> None:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def file(self, part: str, name: str) -> Path:
        """Return the path of a file of an attempt."""
        return self.path / part / name

    def write(self, part: str, name: str, text: str) -> None:
        """Write a file so that it is there as a whole or not at all, and durable.

        Raises:
            OSError: the disk is full, or the folder is gone.
        """
        path = self.file(part, name)
        draft = path.with_name(f".{name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def read(self, part: str, name: str) -> str:
        """Return the content of a file, "" if there is none."""
        try:
            return self.file(part, name).read_text("utf-8", "replace")
        except OSError:
            return ""

    def record(self, part: str, name: str) -> dict[str, Any]:
        """Return the content of a JSON file; empty if there is none that can be read."""
        try:
            values = json.loads(self.read(part, name))
        except ValueError:
            return {}
        return values if isinstance(values, dict) else {}

    def remove(self, name: str, parts: tuple[str, ...]) -> None:
        """Remove files of an attempt."""
        for part in parts:
            with contextlib.suppress(OSError):
                self.file(part, name).unlink()

    def probe(self, create: Callable[[Path], bool] | None = None) -> None:
        """Check that of several that create a file at the same time exactly one succeeds.

        Args:
            create: creates a file, returns whether it was the first; None = by O_EXCL.

        Raises:
            BadInput: the file system does not keep that promise, or cannot be written.
        """
        create = create or _create_first
        for number in range(ROUNDS):
            path = self.path / f".probe-{os.getpid()}-{number}"
            try:
                with ThreadPoolExecutor(RACERS) as racers:
                    wins = list(racers.map(create, [path] * RACERS))
            except OSError as error:
                why = f"{self.path} cannot be written: {error.strerror}"
                raise BadInput(why, "free space there, or name another folder") from None
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
            if sum(wins) != 1:
                raise BadInput(
                    f"{self.path} is on a file system where {sum(wins)} of {RACERS} created the "
                    "same file (O_EXCL), so that a job could run twice",
                    "use a folder on NFS 3 or later, Lustre, GPFS, BeeGFS or a local disk",
                )


def _create_first(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
