"""Jobs with a deadline: refused, or ended, once they can no longer end in time.

As in Slurm, a waiting job ends when its time limit no longer fits in before the deadline, a running
job at the deadline itself. Its state is CANCELLED, and the reason begins with `deadline`.
"""

from __future__ import annotations

from collections.abc import Mapping

from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.units import US_PER_S, to_us

TOKEN = "deadline"  # noqa: S105 - a reason, not a secret


def latest_start_us(spec: JobSpec) -> int:
    """Return the last moment at which it could start and use its whole time limit."""
    return to_us(spec.deadline) - to_us(spec.limit_s)


def check_deadline(spec: JobSpec, now_us: int) -> None:
    """Refuse a new job that cannot end before its deadline.

    Raises:
        BadInput: with the time that is left.
    """
    if not spec.deadline or now_us <= latest_start_us(spec):
        return
    left_s = spec.deadline - now_us / US_PER_S
    if left_s <= 0:
        raise BadInput(f"its deadline passed {-left_s:.0f} s ago", "use a later --deadline")
    raise BadInput(
        f"its deadline is in {left_s:.0f} s, and its time limit is {spec.limit_s:g} s",
        "use a shorter --time or a later --deadline",
    )


class Deadlines:
    """Keeps the active jobs that have a deadline; `LiveState.watchers` keep it up to date."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}

    def update(self, changes: Mapping[int, Job]) -> None:
        """Take in changed jobs."""
        for job in changes.values():
            if job.spec.deadline and not job.state.final:
                self._jobs[job.id] = job
            else:
                self._jobs.pop(job.id, None)

    def missed(self, now_us: int) -> dict[int, str]:
        """Return the jobs to end now, with the reason."""
        missed = {}
        for job in self._jobs.values():
            if job.state == JobState.COMPLETING:
                continue
            if now_us >= to_us(job.spec.deadline):
                missed[job.id] = f"{TOKEN}: it had not ended by its deadline"
            elif job.state == JobState.PENDING and now_us > latest_start_us(job.spec):
                limit = f"its time limit of {job.spec.limit_s:g} s"
                missed[job.id] = f"{TOKEN}: {limit} no longer fits in before its deadline"
        return missed
