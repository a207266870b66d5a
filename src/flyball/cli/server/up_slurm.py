"""What `flyball up --engine slurm` needs: its settings, and access for jobs on other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.engines.slurm.own_request import SlurmSettings
    from flyball.live import Live

OURS = ("hold", "comment", "job-name", "nodelist", "output", "export", "requeue", "array", "wrap")
"""Options of sbatch by which jobs are found again or kept from running twice."""


def slurm_settings(
    partition: str, account: str, options: Sequence[str], queue_s: float
) -> SlurmSettings:
    """Return the settings that the options of `up` state.

    Raises:
        BadInput: an option that would break what is relied on.
    """
    from flyball.engines.slurm.own_request import SlurmSettings

    for option in options:
        name = option.lstrip("-").partition("=")[0]
        if not option.startswith("--") or name in OURS:
            raise BadInput(
                f"--sbatch={option} cannot be used",
                f"use long options, such as --sbatch=--qos=high, but not {', '.join(OURS)}",
            )
    if not 5.0 <= queue_s <= 86_400.0:
        raise BadInput(f"--queue-s {queue_s:g}", "use 5 to 86400 seconds")
    return SlurmSettings(
        partition=partition, account=account, options=tuple(options), queue_s=queue_s
    )


def give_access(live: Live, url: str, certificate: Path | None) -> None:
    """Let jobs on other machines report over HTTP, each with a token of its attempt."""
    tokens = live.plane.attempt_tokens

    def access(token: tuple[int, int]) -> Mapping[str, str]:
        variables = {"FLYBALL_URL": url, "FLYBALL_TOKEN": tokens.token(*token)}
        if certificate is not None:
            variables["FLYBALL_CA"] = str(certificate.resolve())
        return variables

    live.engine.access = access
