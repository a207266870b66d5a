"""CPU time and memory of each running job, from its processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.claims import RunningClaim, Sessions
from flyball.monitor.sensor import Null, Site


class Jobs:
    """`JOB.cpu_s_total`, `JOB.memory_bytes`, `JOB.processes`, `JOB.attempt`; and how many run.

    `ended_total` counts attempts that stopped running since the agent started.
    """

    family: ClassVar[str] = "application"
    least_s: ClassVar[float] = 1.0
    blocks: ClassVar[bool] = False

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._cpu_s: dict[RunningClaim, float] = {}
        self._ended = 0
        self.about: Mapping[str, str] = {
            "source": "claims in engine/, /proc/PID/stat and smaps_rollup of what they started",
            "resolution": "10 ms of CPU time, one page of memory; shared pages count once",
        }

    @classmethod
    def open(cls, site: Site) -> Jobs | Null:
        if site.state is None:
            return Null("jobs", "no state folder, so no claims of jobs")
        return cls(Sessions(site))

    @property
    def pids(self) -> frozenset[int]:
        """Processes of our jobs at the last read."""
        return self._sessions.pids

    def collect(self, now: float) -> Sample:
        usage = self._sessions.update(now)
        self._ended += len(self._cpu_s.keys() - usage.keys())
        # The time of a process that was not reaped by the job is lost; a total never decreases.
        self._cpu_s = {
            claim: max(use.cpu_s, self._cpu_s.get(claim, 0.0)) for claim, use in usage.items()
        }
        values: dict[str, float] = {"running": len(usage), "ended_total": self._ended}
        for claim in sorted(usage):  # for two attempts of a job the later one is shown
            values[f"{claim.job}.attempt"] = claim.attempt
            values[f"{claim.job}.processes"] = usage[claim].processes
            values[f"{claim.job}.memory_bytes"] = usage[claim].memory_bytes
            values[f"{claim.job}.cpu_s_total"] = self._cpu_s[claim]
        return Sample("jobs", now, values)
