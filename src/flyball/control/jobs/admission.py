"""Admits jobs: refuses at submission what could never run here, with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flyball.control.jobs.deadlines import check_deadline
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.output_guard import OutputGuard
from flyball.control.jobs.request import Demand, can_hold
from flyball.control.notify.target import check_targets
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, NotFound
from flyball.core.jobs import JobSpec, request_of
from flyball.core.knobs import Knobs
from flyball.core.workload import Workload
from flyball.twin.live import fits

ASK_FOR_LESS = "ask for less; `flyball nodes` shows what there is"
MAX_CACHED = 10_000
"""Maximum number of requests remembered to fit."""


class Admission:
    """Checks job descriptions against one cluster."""

    def __init__(
        self,
        live_state: LiveState,
        demand: Demand,
        cluster: Cluster,
        knobs: Knobs,
        outputs: OutputGuard,
        now_us: Callable[[], int],
    ) -> None:
        self._live_state, self._demand, self._cluster, self._knobs = (
            live_state,
            demand,
            cluster,
            knobs,
        )
        self._outputs, self._now_us = outputs, now_us
        self._fitting: set[tuple[Any, ...]] = set()
        """Requests known to fit on the empty cluster."""

    def check(self, spec: JobSpec) -> None:
        """Check everything about a job.

        Raises:
            BadInput: it can never run here.
            NotFound: it waits for a job that does not exist.
        """
        self.check_fit(spec)
        self._demand.check_growth(spec)
        self._outputs.check(spec)
        check_targets(spec)
        if spec.deadline:
            check_deadline(spec, self._now_us())
        for how, other in spec.after:
            if other not in self._live_state.jobs and other not in self._live_state.ended:
                raise NotFound(f"no job {other} to wait for", "see flyball queue --all")
            if not can_hold(how, self._live_state.ended.get(other)):
                state = self._live_state.ended[other]
                raise BadInput(f"job {other} is {state}: {how} can never hold", "use afterany")

    def check_fit(self, spec: JobSpec) -> None:
        """Check that a job could run on the empty cluster.

        Raises:
            BadInput: it could not.
        """
        request = request_of(spec)
        if request in self._fitting:
            return
        self._demand.check(spec)
        asks, pools = self._demand.of(spec), self._demand.choice.pools(spec)
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
