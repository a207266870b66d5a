"""Runs a site's own check of this machine now and then; while it fails, no new jobs start."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence

EVERY_S = 60.0
LIMIT_S = 30.0


class HealthCheck:
    """Runs a command in a thread.

    Attributes:
        reason: why the machine takes no jobs, "" = the last check passed.
    """

    def __init__(
        self, command: Sequence[str], every_s: float = EVERY_S, limit_s: float = LIMIT_S
    ) -> None:
        """
        Args:
            command: exits with 0 if all is well; else its first line says what is not.
        """
        self._command, self._every_s, self._limit_s = list(command), every_s, limit_s
        self._stop = threading.Event()
        self.reason = ""
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Check once, then begin to check again and again."""
        self.check()
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Run the command once."""
        try:
            done = subprocess.run(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=self._limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.reason = f"health check took longer than {self._limit_s:g} s"
        except OSError as error:
            self.reason = f"health check cannot be run: {error.strerror}"
        else:
            lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
            said = lines[0][:200] if lines else "it printed nothing"
            failed = f"health check failed with exit code {done.returncode}: {said}"
            self.reason = failed if done.returncode else ""

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.check()
