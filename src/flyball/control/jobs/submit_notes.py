"""Names the fields of a submitted job that have no effect here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from flyball.core.job_fields import DEFAULTS, FIELDS
from flyball.core.jobs import JobSpec

ENFORCED = frozenset({"device_type", "features", "deadline"})
"""Optional fields that the control plane itself honours, whatever the engine."""


class SubmitNotes:
    """Compares what jobs state with what the engine and the control plane honour."""

    def __init__(self, capabilities: Iterable[str]) -> None:
        """
        Args:
            capabilities: the optional fields that the engine honours.
        """
        honoured = ENFORCED | set(capabilities)
        self._rows = [
            row for row in FIELDS.values() if row.optional and row.name not in honoured
        ]  # fmt: skip
        self._defaults = tuple(DEFAULTS[row.name] for row in self._rows)
        names = [row.name for row in self._rows]
        # Two names more, as `attrgetter` returns a tuple only for several.
        self._values = attrgetter(*names, "cpus", "gpus")

    def of(self, specs: Sequence[JobSpec]) -> list[dict[str, Any]]:
        """Return a note for each field that one of these jobs states and nothing honours.

        A note has `field`, `why` and `jobs`, the number of jobs that state it.
        """
        if not self._rows:
            return []
        counts = [0] * len(self._rows)
        for spec in specs:
            values = self._values(spec)[: len(counts)]
            if values != self._defaults:
                for at, value in enumerate(values):
                    counts[at] += value != self._defaults[at]
        return [
            {"field": row.name, "why": row.otherwise, "jobs": count}
            for row, count in zip(self._rows, counts, strict=True)
            if count
        ]
