"""Problems small enough to learn on in a test."""

from __future__ import annotations

from flyball.learn.env.problems import Domain
from flyball.learn.training.sources import Drawn
from flyball.learn.training.trainers import Setup

SMALL = Domain(
    groups=(1, 2), nodes=(1, 2), devices=(4,), presets=("mixed",), jobs=(20, 30), load=(0.4, 0.8),
    max_duration_s=7_200.0,
)  # fmt: skip


def small_setup(seed: int = 1, limits: dict[str, float] | None = None) -> Setup:
    """Return what trainers share, with small problems."""
    return Setup(Drawn(SMALL), seed, 1800.0, limits or {}, threads=1)
