"""What a job inherits from its submitter, on the command line and in Python alike."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping

CARRIED = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("CONDA_DEFAULT_ENV", "LANG", "LC_ALL", "TZ"),
)
"""Environment variables that a job inherits by default: enough to find the same programs."""


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job inherits."""
    return {name: environ[name] for name in CARRIED if name in environ}


def user_name() -> str:
    """Return the submitter's name, or the number where the user id has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
