"""Plans that policies in plain Python return, and what they read to make one."""

from __future__ import annotations

from collections.abc import Iterable

from flyball.core.codes import ActionKind, Status
from flyball.core.errors import BadInput
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE

Start = tuple[int, int, Iterable[int]]
"""A job, a node, and the devices of the node that the job gets; all counted from 0."""


def starts(state: State, chosen: Iterable[Start]) -> Records:
    """Return a plan that starts jobs, each with the share of its devices that it asks for.

    Args:
        state: as the policy got it.
        chosen: (job, node, devices). A job on several nodes has an entry for each node, one after
            the other.

    Raises:
        BadInput: an entry is not of this form.
    """
    entries = list(chosen)
    plan = records(len(entries), ACTION)
    for action, entry in zip(plan, entries, strict=True):
        try:
            job, node, devices = entry
            action.job, action.node = int(job), int(node)
            action.mask = sum({1 << int(device) for device in devices})
        except (TypeError, ValueError, OverflowError):
            raise BadInput(
                f"{entry!r} is not a start", "write (job, node, devices), e.g. (7, 0, [2, 3])"
            ) from None
        action.kind = ActionKind.START
        exists = 0 <= action.job < len(state.jobs)  # the twin refuses a job that does not
        action.milli = state.jobs.milli[action.job] if exists else MILLI_PER_DEVICE
    return plan


def free_devices(state: State) -> list[list[int]]:
    """Return the whole free devices of every node; none for a node that is down."""
    return [
        [] if node.down else [bit for bit in range(64) if int(node.free_mask) >> bit & 1]
        for node in state.nodes
    ]


def can_run(state: State, job: int, node: int) -> bool:
    """Return whether a job could run on the devices of a node if they were free."""
    pools = int(state.shapes.pools[state.jobs.shape_id[job]])
    return bool(pools >> int(state.nodes.pool[node]) & 1)


def pending_jobs(state: State) -> list[int]:
    """Return the jobs in the queue, in order of submission."""
    jobs: list[int] = (state.runs.status == Status.PENDING).nonzero()[0].tolist()
    return jobs
