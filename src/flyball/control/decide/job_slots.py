"""What the table keeps of each active job, and which of them are alike."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np

SLOT = np.dtype(
    [
        ("id", "i8"),
        ("submit_us", "i8"),
        ("estimate_us", "f8"),
        ("limit_us", "i8"),
        ("priority", "f8"),
        ("service_us", "f8"),
        ("since_us", "i8"),
        ("queued_us", "i8"),
        ("cpu_milli", "i8"),
        ("host_mib", "i8"),
        ("array", "i8"),
        ("array_limit", "i8"),
        ("devices", "i4"),
        ("least", "i4"),
        ("most", "i4"),
        ("cap", "i4"),
        ("milli", "i4"),
        ("tenant", "i4"),
        ("user", "i4"),
        ("model", "i4"),
        ("kind", "i4"),
        ("attempt", "i4"),
        ("like", "i4"),
        ("used", "u1"),
    ]
)
_NAMES = SLOT.names or ()
TELLING = itemgetter(
    *map(
        _NAMES.index,
        (
            *("estimate_us", "limit_us", "priority", "cpu_milli", "host_mib", "array", "devices"),
            *("milli", "tenant", "user", "model", "kind", "least", "most"),
        ),
    )
)
"""Jobs that are equal in these fields are alike: only when they were submitted tells them apart."""
SPARE = 10_000
"""Kinds of jobs that are gone which may be remembered."""


class Kinds:
    """Numbers for kinds of jobs: jobs alike have the same number.

    Which one it is changes no decision.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, telling: tuple[Any, ...]) -> int:
        """Of the jobs with these values."""
        return self._numbers.setdefault(telling, len(self._numbers))

    def too_many(self, jobs: int) -> bool:
        """Whether most are kinds of jobs that are gone."""
        return len(self._numbers) > 2 * jobs + SPARE

    def anew(self, tellings: Iterable[tuple[Any, ...]]) -> list[int]:
        """Forget all kinds but those of these jobs; their numbers."""
        self._numbers = {}
        return [self.number(each) for each in tellings]
