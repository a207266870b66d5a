"""Checks whether a job could ever run on the cluster, if it were empty and all of its nodes up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flyball.control.jobs.request import Demand
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, request_of
from flyball.core.knobs import Knobs
from flyball.core.workload import Workload
from flyball.twin.live import fits

ASK_FOR_LESS = "ask for less; `flyball nodes` shows what there is"
MAX_CACHED = 10_000
"""Maximum number of requests remembered to fit."""


class FitCheck:
    """Checks requests against the nodes of one cluster, absent ones included."""

    def __init__(self, demand: Demand, cluster: Cluster, knobs: Knobs) -> None:
        self._demand, self._cluster, self._knobs = demand, cluster, knobs
        self._fitting: set[tuple[Any, ...]] = set()
        """Requests known to fit on the empty cluster."""

    def adopt(self, cluster: Cluster) -> None:
        """Check against other nodes from now on."""
        self._cluster = cluster
        self._fitting.clear()

    def check(self, spec: JobSpec) -> None:
        """Check that a job could run on the empty cluster.

        Raises:
            BadInput: it could not.
        """
        request = request_of(spec)
        if request in self._fitting:
            return
        self._demand.check(spec)
        asks, pools = self._demand.of(spec), self._demand.pools(spec)
        if (asks, pools) not in self._fitting:
            workload = Workload.of(
                "it can never run here", [0.0], [1.0], asks.devices, milli=asks.milli, kind=0,
                cpu_milli=asks.cpu_milli, host_mib=asks.host_mib, pools=pools,
                ids=[spec.name or "job"], device=0, device_names=(self._demand.device,),
            )  # fmt: skip
            try:
                fits(self._cluster, workload, self._knobs)
            except BadInput as error:  # the remedy for traces does not help here
                raise BadInput(error.args[0], ASK_FOR_LESS) from None
        if len(self._fitting) > MAX_CACHED:
            self._fitting.clear()
        self._fitting |= {(asks, pools), request}

    def unfit(self, jobs: Iterable[Job]) -> dict[int, str]:
        """Return the jobs that could not be started, each with the reason.

        They were accepted when there were other nodes. One of them that waits would make every
        decision fail, so they wait outside of decisions until a node that holds them is there.
        """
        reasons: dict[int, str] = {}
        for job in jobs:
            try:
                self.check(job.spec)
            except BadInput as error:
                reasons[job.id] = str(error.args[0])
        return reasons
