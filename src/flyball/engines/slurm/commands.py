"""Runs Slurm's commands: found by PATH, without a shell, each with a time limit.

Only commands that read are listed in `READING`; any other is refused, so that nothing built on
this module can change a site.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol

from flyball.core.errors import DataAbsent, FlyballError, Unavailable

READING = ("squeue", "scontrol", "sacct")
"""Commands that may be run; of scontrol only `show`."""
TIME_LIMIT_S = 20.0
"""Default limit of one command. With slurmctld down, squeue itself gives up after about 9 s."""
KEPT_SLURM_VARIABLES = ("SLURM_CONF",)
"""Others (SQUEUE_FORMAT, SLURM_CLUSTERS, SACCT_...) would change what a command prints."""
NO_ANSWER = (
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "connection timed out",
    "connection reset",
    "socket error",
    "broken pipe",
    "slurm_msg_sendto",
    "communication",
    "zero bytes were transmitted",
    "protocol authentication error",
    "munge",
)
"""Texts, in lower case, of a slurmctld that is down, slow, or that does not accept us for now."""


class Runner(Protocol):
    """Runs one reading command and returns what it printed."""

    def run(self, name: str, arguments: Sequence[str], limit_s: float | None = None) -> bytes: ...


class Commands:
    """Runs Slurm's commands on this machine."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, limit_s: float = TIME_LIMIT_S
    ) -> None:
        """
        Args:
            environment: where PATH and SLURM_CONF are taken from; None = that of this process.
            limit_s: how long a command may take.
        """
        self._limit_s = limit_s
        self._environment = clean_environment(os.environ if environment is None else environment)

    def run(self, name: str, arguments: Sequence[str], limit_s: float | None = None) -> bytes:
        """Return the standard output of a command.

        Args:
            limit_s: how long it may take; None = as usual.

        Raises:
            DataAbsent: the command is not installed.
            Unavailable: it took too long, or slurmctld does not answer.
            FlyballError: it failed for another reason.
        """
        assert name in READING and (name != "scontrol" or "show" in arguments), (name, arguments)
        path = shutil.which(name, path=self._environment.get("PATH", os.defpath))
        if path is None:
            raise DataAbsent(
                f"no {name} in PATH",
                "run this where Slurm's commands are installed (a login node; Debian: "
                "apt install slurm-client), or add their folder to PATH",
            )
        limit_s = limit_s or self._limit_s
        try:
            done = subprocess.run(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                env=self._environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"{name} did not answer within {limit_s:g} s",
                "slurmctld is down or slow; try `scontrol ping`, or again later",
            ) from None
        except OSError as error:
            raise FlyballError(f"{path} cannot be run ({error.strerror})", "check it") from None
        if done.returncode:
            raise failure(name, done.returncode, done.stderr)
        return done.stdout


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which commands print what our parsers read: times in seconds since
    1970, plain English, no format or filter of the user's own."""
    prefixes = ("SLURM_", "SQUEUE_", "SACCT_", "SCONTROL_", "SINFO_")
    kept = {
        name: value
        for name, value in environment.items()
        if name in KEPT_SLURM_VARIABLES or not name.startswith(prefixes)
    }
    return {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def failure(name: str, code: int, stderr: bytes) -> FlyballError:
    """Return the error of a command that failed: one to wait for, or one to report."""
    text = " ".join(stderr.decode("utf-8", "replace").split())[:300]
    if any(part in text.lower() for part in NO_ANSWER):
        return Unavailable(
            f"{name}: {text}", "slurmctld does not answer; try `scontrol ping`, or again later"
        )
    if "invalid job format specification" in text.lower():
        return FlyballError(
            f"{name} of this Slurm version does not have a column we read: {text}",
            "tested with Slurm 22.05; report the output of `squeue --version` and `squeue -O help`",
        )
    return FlyballError(f"{name} failed with exit code {code}: {text or 'no message'}", "")
