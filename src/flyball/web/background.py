"""Runs of our own commands beside the control plane: in a process of their own, at low priority."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

NICENESS = 10
MOST_AT_ONCE = 2
"""Runs of all viewers together; more would take the machine from the jobs."""
MOST_ERROR = 600

_running = 0


class Busy(Exception):
    """As many runs as may be are under way."""


class Background:
    """A run of Python with some arguments; its output goes to files, so nothing can block.

    Args:
        arguments: of the interpreter: `-m flyball ...`.
        text: for its standard input.

    Raises:
        Busy: too many runs are under way.
    """

    def __init__(self, arguments: Sequence[str], text: str = "") -> None:
        global _running
        if _running >= MOST_AT_ONCE:
            raise Busy(f"{_running} runs are under way; wait until one has ended")
        _running += 1
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # open for the whole run
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # open for the whole run
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.create_task(self._run(list(arguments), text.encode()))

    async def _run(self, arguments: list[str], text: bytes) -> None:
        global _running
        try:
            self._process = await asyncio.create_subprocess_exec(
                "nice", "-n", str(NICENESS), sys.executable, *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=self._output, stderr=self._errors,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            await self._process.communicate(text)
        finally:
            _running -= 1
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()

    async def ended(self, timeout_s: float) -> bool:
        """Wait a while; return whether it has ended."""
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        for task in done:
            task.result()
        return bool(done)

    def stop(self) -> None:
        """End it."""
        self._task.cancel()

    def lines(self) -> list[str]:
        """Return the lines it has printed so far."""
        return self._text(self._output).splitlines()

    def json(self) -> Any:
        """Return what it printed as JSON; None if it did not."""
        try:
            return json.loads(self._text(self._output))
        except ValueError:
            return None

    def error_text(self) -> str:
        """Return the end of what it reported."""
        return self._text(self._errors).strip()[-MOST_ERROR:]

    @staticmethod
    def _text(file: Any) -> str:
        # By position: the process writes at the offset that it shares with us.
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")
