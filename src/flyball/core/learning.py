"""The contract between the control plane and what learns from its journal (`learn`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from flyball.core.job_facts import RunTime, SizeChange
from flyball.core.jobs import Job, JobSpec

Message = dict[str, Any]
"""What the worker process sends to the control plane, as JSON."""


class RunTimeLearner(Protocol):
    """Learns run times from jobs that end, and predicts those of jobs that are submitted."""

    def observe(self, changes: Mapping[int, Job]) -> Mapping[int, RunTime]: ...


class Learner(Protocol):
    """Learns from the journal's jobs in the worker process; messages go to the control plane."""

    def begin(
        self, jobs: Sequence[Job], devices_of: Callable[[JobSpec], int], now_us: int
    ) -> None: ...
    def observe(self, changes: Mapping[int, Job], now_us: int) -> list[Message]: ...
    def measure(self, resized: Sequence[SizeChange], now_us: int) -> list[Message]: ...
    def every_minute(self, active: Iterable[Job], now_us: int) -> list[Message]: ...
    def predict(self, spec: JobSpec, now_us: int) -> RunTime: ...
    def status(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
