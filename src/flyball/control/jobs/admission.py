"""Admits jobs: refuses at submission what could never run here, with a remedy."""

from __future__ import annotations

from collections.abc import Callable

from flyball.control.jobs.deadlines import check_deadline
from flyball.control.jobs.fit import FitCheck
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.output_guard import OutputGuard
from flyball.control.jobs.request import Demand, can_hold
from flyball.control.notify.target import check_targets
from flyball.core.errors import BadInput, NotFound
from flyball.core.jobs import JobSpec


class Admission:
    """Checks job descriptions against one cluster."""

    def __init__(
        self,
        live_state: LiveState,
        demand: Demand,
        fit: FitCheck,
        outputs: OutputGuard,
        now_us: Callable[[], int],
    ) -> None:
        self._live_state, self._demand, self._fit = live_state, demand, fit
        self._outputs, self._now_us = outputs, now_us

    def check(self, spec: JobSpec) -> None:
        """Check everything about a job.

        Raises:
            BadInput: it can never run here.
            NotFound: it waits for a job that does not exist.
        """
        self._fit.check(spec)
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
