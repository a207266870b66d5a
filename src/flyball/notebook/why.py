"""Why a job of a replay waited: its reasons at one or two instants of its wait."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from flyball.core.errors import BadInput
from flyball.core.units import duration_text, to_s
from flyball.experiments.explain import job_index, stop
from flyball.experiments.replay import ReplayCase, Run
from flyball.schedule.explain import Explanation

SHORT_S = 1.0
"""A wait that is not longer is no wait."""


class Moment(NamedTuple):
    """A reason at an instant, in seconds since the first submission."""

    at_s: float
    explanation: Explanation


class Why:
    """Why a job waited under a policy.

    Attributes:
        job, policy: their names.
        request: what the job asks for.
        submit_s, start_s: since the first submission; `start_s` is None if it never started.
        moments: its reasons, in order of time.
    """

    def __init__(
        self,
        job: str,
        policy: str,
        request: str,
        submit_s: float,
        start_s: float | None,
        moments: list[Moment],
    ) -> None:
        self.job, self.policy, self.request = job, policy, request
        self.submit_s, self.start_s, self.moments = submit_s, start_s, moments

    @property
    def token(self) -> str:
        """Return the first reason, as a token of docs/guide/why.md."""
        return self.moments[0].explanation.token

    @property
    def sentence(self) -> str:
        """Return the first reason with its numbers."""
        return self.moments[0].explanation.sentence

    @property
    def remedy(self) -> str:
        """Return what would have helped."""
        return self.moments[0].explanation.remedy

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "job": self.job,
            "policy": self.policy,
            "submit_s": self.submit_s,
            "start_s": self.start_s,
            "moments": [
                {
                    "at_s": moment.at_s,
                    "token": moment.explanation.token,
                    "sentence": moment.explanation.sentence,
                    "remedy": moment.explanation.remedy,
                    "numbers": moment.explanation.numbers,
                }
                for moment in self.moments
            ],
        }

    def _head(self) -> str:
        submitted = f"submitted at {duration_text(self.submit_s)}"
        if self.start_s is None:
            waited = "has not started"
        elif self.start_s - self.submit_s <= SHORT_S:
            waited = "started at once"
        else:
            waited = f"waited {duration_text(self.start_s - self.submit_s)}"
        return f"{self.job} under {self.policy}: {self.request}, {submitted}, {waited}"

    def __repr__(self) -> str:
        lines = [self._head()]
        for at_s, explanation in self.moments:
            lines.append(f"  at {duration_text(at_s)}  {explanation.token}: {explanation.sentence}")
            lines.append(f"    {explanation.remedy}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li>at {duration_text(at_s)}: <code>{explanation.token}</code> "
            f"{escape(explanation.sentence)}<br>{escape(explanation.remedy)}</li>"
            for at_s, explanation in self.moments
        )
        return f"<p><b>{escape(self._head())}</b></p><ul>{items}</ul>"


def why(case: ReplayCase, run: Run, job: str, at_s: float | None) -> Why:
    """Run a policy up to the wait of a job and explain it.

    Args:
        case: what was replayed.
        run: the run that the question is about.
        job: the job's name.
        at_s: an instant since the first submission; None = the job's submission, and half way to
            its first start.

    Raises:
        BadInput: there is no such job, the policy has tuners, or the run's results are gone.
    """
    index = [setting.name for setting in case.policies].index(run.policy)
    setting, workload = case.policies[index], case.workload(run.seed)
    if setting.tuning is not None:
        untuned = [other.name for other in case.policies if other.tuning is None]
        raise BadInput(
            f"{setting.name}: reasons are those of a policy without tuners",
            f"ask for policy={untuned[0]!r}" if untuned else "replay it without them",
        )
    if run.results is None:
        raise BadInput(f"the results of seed {run.seed} were not kept", "replay with keep='all'")
    job_id = job_index(workload, job)
    submit_s = to_s(int(run.results.submit_us[job_id]) - run.results.start_us)
    start_us = int(run.results.first_start_us[job_id])
    start_s = to_s(start_us - run.results.start_us) if start_us >= 0 else None
    instants = [submit_s] if at_s is None else [at_s]
    if at_s is None and start_s is not None and start_s - submit_s > SHORT_S:
        instants.append((submit_s + start_s) / 2)
    twin, moments, request = case.build(index, run.seed), [], ""
    for instant in instants:
        stopped = stop(twin, case.cluster, workload, setting, instant)
        request = stopped.request_text(job_id)
        moments.append(Moment(instant, stopped.explain(job_id)[0]))
    return Why(job, setting.name, request, submit_s, start_s, moments)
