"""Waits for a condition, so that no test depends on how fast the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def until(condition: Callable[[], T], limit_s: float = 60.0, every_s: float = 0.02) -> T:
    """Poll until the condition returns something true, and return that; fail after the limit."""
    end_s = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end_s:
            pytest.fail(f"condition not met within {limit_s:g} s")
        time.sleep(every_s)
