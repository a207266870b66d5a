"""Series that tests share."""

from __future__ import annotations

import numpy as np

from flyball.predict.series import Series

DAY = 48
"""Half hours."""


def daily(days: int = 20, seed: int = 1, name: str = "daily", noise: float = 1.0) -> Series:
    """A level with a daily profile and noise, never below zero."""
    rng = np.random.default_rng(seed)
    steps = np.arange(days * DAY)
    values = 20 + 8 * np.sin(steps * 2 * np.pi / DAY) + noise * rng.normal(size=len(steps))
    return Series(name, 0.0, 1_800.0, np.maximum(values, 0.0))


def counts(days: int = 20, seed: int = 2) -> Series:
    """Arrivals, with many zeros at night."""
    rng = np.random.default_rng(seed)
    steps = np.arange(days * DAY)
    rate = np.maximum(0.05, 3 * np.sin(steps * 2 * np.pi / DAY))
    return Series("counts", 0.0, 1_800.0, rng.poisson(rate).astype(float))


def wander(days: int = 20, seed: int = 3) -> Series:
    """A random walk that goes below zero."""
    rng = np.random.default_rng(seed)
    return Series("wander", 0.0, 1_800.0, np.cumsum(rng.normal(size=days * DAY)))
