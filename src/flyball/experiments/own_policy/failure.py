"""Words the failure of a user's code: file, line, error, and the end of its traceback."""

from __future__ import annotations

import traceback
from pathlib import Path

from flyball.core.errors import FlyballError
from flyball.physics.kernel_sources import PACKAGE

SHOWN_FRAMES = 4
"""Maximum number of the user's calls that are shown."""
LOADERS = ("<frozen importlib", "importlib/")


class PolicyFailed(FlyballError):
    """A user's policy cannot be loaded, or raised an error."""


def failure(place: str, error: BaseException, what: str) -> PolicyFailed:
    """Return the error that states where and why a user's code failed.

    Args:
        place: the file, the module, or the name of the policy.
        error: what it raised.
        what: what failed, e.g. `cannot be loaded`.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame)]
    line = _line(place, error, frames)
    text = " ".join(str(error).split())
    kind = type(error).__name__
    failed = PolicyFailed(
        f"{place}{f' line {line}' if line else ''} {what}: {kind}{f': {text}' if text else ''}",
        "repair the policy and run it again",
    )
    shown = traceback.format_list(frames[-SHOWN_FRAMES:])
    failed.details = "".join([*shown, *traceback.format_exception_only(error)]).rstrip("\n")
    return failed


def _is_users(frame: traceback.FrameSummary) -> bool:
    ours = Path(frame.filename).is_relative_to(PACKAGE)
    return not ours and not any(mark in frame.filename for mark in LOADERS)


def _line(place: str, error: BaseException, frames: list[traceback.FrameSummary]) -> int | None:
    """Return the line of the user's file at which it failed."""
    if isinstance(error, SyntaxError) and error.filename and _same(error.filename, place):
        return error.lineno
    inside = [frame.lineno for frame in frames if _same(frame.filename, place)]
    return inside[-1] if inside else None


def _same(filename: str, place: str) -> bool:
    """Return whether a frame is in the file or the module."""
    module = place.replace(".", "/") if not place.endswith(".py") else ""
    as_module = bool(module) and filename.endswith((f"{module}.py", f"{module}/__init__.py"))
    return as_module or Path(filename).resolve() == Path(place).resolve()
