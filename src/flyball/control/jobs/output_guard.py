"""Checks where a job's output goes: anywhere but into the control plane's own files."""

from __future__ import annotations

import os
from pathlib import Path

from flyball.core.errors import BadInput
from flyball.core.jobs import JobSpec

LOGS = "logs"
"""The folder of the state folder that is meant for output."""


class OutputGuard:
    """Refuses output that could overwrite the journal, a claim, the token or other state files.

    Args:
        state: the state folder.
    """

    def __init__(self, state: Path) -> None:
        self._state = os.path.realpath(state)
        self._logs = os.path.join(self._state, LOGS)

    def check(self, spec: JobSpec) -> None:
        """Check where the output of a job really goes, links and `..` resolved.

        Raises:
            BadInput: it goes into the state folder, but not into its folder for logs.
        """
        for option, path in (("-o", spec.stdout), ("-e", spec.stderr)):
            if not path:
                continue
            target = os.path.realpath(path)
            if _is_within(target, self._state) and not _is_below(target, self._logs):
                leads = "" if target == path else f" (it leads to {target})"
                raise BadInput(
                    f"output {option} {path}{leads} lies in the state folder, among the server's "
                    "own files",
                    f"leave {option} out, or name a file elsewhere or in {self._logs}",
                )


def _is_within(path: str, folder: str) -> bool:
    return path == folder or _is_below(path, folder)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
