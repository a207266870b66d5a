"""Notices nodes on which jobs run far slower than their kind elsewhere, so that they are drained.

A throttled GPU or a failing disk lets a node pass every check and still doubles the time of each
job that lands on it. Jobs of one kind have the same user, name, model and size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from statistics import median

from flyball.control.jobs.adjustments import TUNED
from flyball.core.events import NodeChanged
from flyball.core.jobs import Job, JobState
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S

FACTOR = 2.0
"""A node is drained if the median of its jobs takes this many times as long as their kind."""
LEAST_FACTOR = 1.3
"""No job there may have been faster than this: jobs of one kind differ."""
JOBS_NEEDED, ELSEWHERE_NEEDED = 6, 3
"""Number of jobs that must agree, and of runs of a kind on other nodes to compare with."""
LEAST_S = 1.0
"""Shorter runs are not compared: starting them takes as long."""
MAX_KINDS, KEPT_RUNS = 2_000, 60
WHO = "flyball"

Kind = tuple[object, ...]


class SlowNodes:
    """Follows the jobs that end; `LiveState.watchers` call `update`."""

    def __init__(self, nodes: Sequence[LiveNode]) -> None:
        """
        Args:
            nodes: the roster, which changes in place.
        """
        self._nodes = nodes
        self._places: dict[int, str] = {}
        self._runs: dict[Kind, deque[tuple[str, float]]] = {}
        self._ratios: dict[str, deque[float]] = {}

    def update(self, changes: Mapping[int, Job]) -> None:
        """Take in changed jobs."""
        for job in changes.values():
            if len(job.rows) == 1 and job.state == JobState.RUNNING:
                self._places[job.id] = self._nodes[job.rows[0].node].name
            elif job.state == JobState.PENDING or job.state.final:
                name = self._places.pop(job.id, "")
                if name and job.state == JobState.COMPLETED and TUNED not in job.values:
                    self._learn(job, name)

    def _learn(self, job: Job, name: str) -> None:
        run_s = (job.end_us - job.started_us) / US_PER_S
        if not job.started_us or run_s < LEAST_S or len(self._nodes) < 2:
            return
        device = {node.name: node.device for node in self._nodes}.get(name)
        spec = job.spec
        kind = (device, spec.user, spec.name, spec.model, spec.cpus, spec.gpus, spec.milli)
        if kind not in self._runs and len(self._runs) >= MAX_KINDS:
            self._runs.pop(next(iter(self._runs)))
        runs = self._runs.setdefault(kind, deque(maxlen=KEPT_RUNS))
        elsewhere = [other_s for other, other_s in runs if other != name]
        if len(elsewhere) >= ELSEWHERE_NEEDED:
            ratios = self._ratios.setdefault(name, deque(maxlen=JOBS_NEEDED))
            ratios.append(run_s / median(elsewhere))
        runs.append((name, run_s))

    def due(self, down: Collection[int], now_us: int) -> list[NodeChanged]:
        """Return the nodes to drain; the last one that is up of a type of device is kept.

        Args:
            down: places of nodes that take no jobs already.
        """
        events = []
        for name, ratios in self._ratios.items():
            if len(ratios) < JOBS_NEEDED:
                continue
            factor = median(ratios)
            if factor < FACTOR or min(ratios) < LEAST_FACTOR:
                continue
            at = next((at for at, node in enumerate(self._nodes) if node.name == name), None)
            if at is None or at in down or not self._has_others(at, down):
                continue
            reason = (
                f"its last {len(ratios)} jobs took {factor:.1f} times as long as their kind on "
                "other nodes; flyball resume ends this"
            )
            events.append(NodeChanged(now_us, at, False, name, "drained", reason, WHO))
            ratios.clear()
        return events

    def _has_others(self, at: int, down: Collection[int]) -> bool:
        device = self._nodes[at].device
        return any(
            other != at and other not in down and node.device == device
            for other, node in enumerate(self._nodes)
        )
