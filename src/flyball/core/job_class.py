"""The workload classes of jobs."""

from __future__ import annotations

from enum import IntEnum


class JobClass(IntEnum):
    """The five workload classes."""

    COMPUTE_INTENSIVE = 0
    MEMORY_BOUND = 1
    LATENCY_SENSITIVE = 2
    BANDWIDTH_LIMITED = 3
    MIXED = 4

    @property
    def label(self) -> str:
        """The name as users write it: `compute-intensive`."""
        return self.name.lower().replace("_", "-")


CLASS_LABELS = tuple(kind.label for kind in JobClass)
