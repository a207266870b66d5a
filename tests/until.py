"""Waits for a condition that another thread or process makes true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 400.0
"""Default limit: generous, since kernels may be compiled first, on a busy machine."""


def until(
    condition: Callable[[], T | None],
    what: str = "the condition",
    limit_s: float = WAIT_S,
    every_s: float = 0.01,
) -> T:
    """Poll a condition until it is true; return its value.

    Raises:
        AssertionError: it was not true within `limit_s`.
    """
    end_s = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end_s, f"{what} not true after {limit_s:g} s"
        time.sleep(every_s)
    return value
