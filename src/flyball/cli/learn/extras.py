"""Checks that what a command needs is installed, before anything starts."""

from __future__ import annotations

from importlib.util import find_spec

from flyball.core.errors import DataAbsent

INSTALL = "pip install 'flyball[learn]'"


def require_torch(why: str) -> None:
    """Check that torch is installed.

    Args:
        why: what needs it, as the beginning of the error.

    Raises:
        DataAbsent: it is not; says what to install.
    """
    if find_spec("torch") is None:
        raise DataAbsent(f"{why} needs torch, which is not installed", INSTALL)
