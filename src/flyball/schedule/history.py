"""What jobs took that ended, and what that lets one expect of a new job (order = history).

The work of a job is known when it has ended and not before: `learn` is called then, `predict`
when a job joins the queue.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import S_PER_HOUR, US_PER_S
from flyball.physics.compile import entry, kernel
from flyball.schedule.order import memo_of

NOTHING_KNOWN_US = S_PER_HOUR * US_PER_S
"""Expected of a job before any job has ended."""


@kernel
def learn_one(group: Any, done_us: float) -> None:
    """The newest counts half."""
    if group.ended == 0:
        group.predicted_us = done_us
    else:
        group.predicted_us = (group.predicted_us + done_us) / 2
    group.ended += 1


@kernel
def learn(state: Any, job_id: int) -> None:
    """A job has ended: let its peers know what it took."""
    memo, done_us = memo_of(state, job_id), state.runs[job_id].done_us
    learn_one(state.memos[memo.alike], done_us)
    learn_one(state.memos[memo.of_owner], done_us)
    learn_one(state.memos[memo.of_size], done_us)
    learn_one(state.memos[len(state.memos) - 1], done_us)


@kernel
def expected_us(state: Any, job_id: int) -> float:
    """What the nearest of its groups that knows anything expects of a job."""
    memo = memo_of(state, job_id)
    group = state.memos[memo.alike]
    if group.ended == 0:
        group = state.memos[memo.of_owner]
    if group.ended == 0:
        group = state.memos[memo.of_size]
    if group.ended == 0:
        group = state.memos[len(state.memos) - 1]
    return max(1.0, group.predicted_us) if group.ended > 0 else NOTHING_KNOWN_US


@kernel
def predict(state: Any, job_id: int) -> None:
    """Write down what is expected of a job that has no prediction yet."""
    memo = memo_of(state, job_id)
    if memo.predicted_us == 0.0:
        memo.predicted_us = expected_us(state, job_id)


@entry
def relearn(state: Any, ended: Any) -> None:
    """Learn from these jobs, in this order."""
    for at in range(len(ended)):
        learn(state, ended[at])
