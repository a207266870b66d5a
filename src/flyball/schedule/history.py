"""Predicts the work of a new job from similar jobs that ended before (order = history).

The work of a job is known only when it has ended: `learn` is called then, `predict` when a job
joins the queue.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import S_PER_HOUR, US_PER_S
from flyball.physics.compile import entry, kernel
from flyball.schedule.order import memo_of

NOTHING_KNOWN_US = S_PER_HOUR * US_PER_S
"""Predicted work of a job before any job has ended."""


@kernel
def learn_one(group: Any, done_us: float) -> None:
    """Update the mean of a group, in which the newest job counts half."""
    if group.ended == 0:
        group.predicted_us = done_us
    else:
        group.predicted_us = (group.predicted_us + done_us) / 2
    group.ended += 1


@kernel
def learn(state: Any, job_id: int) -> None:
    """Add the work of a job that has ended to the groups it belongs to."""
    memo, done_us = memo_of(state, job_id), state.runs[job_id].done_us
    learn_one(state.memos[memo.alike], done_us)
    learn_one(state.memos[memo.of_owner], done_us)
    learn_one(state.memos[memo.of_size], done_us)
    learn_one(state.memos[len(state.memos) - 1], done_us)


@kernel
def expected_us(state: Any, job_id: int) -> float:
    """Return the prediction of the most specific of the job's groups that has any ended job."""
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
    """Record the prediction of a job that has none yet."""
    memo = memo_of(state, job_id)
    if memo.predicted_us == 0.0:
        memo.predicted_us = expected_us(state, job_id)


@entry
def relearn(state: Any, ended: Any) -> None:
    """Learn from these jobs, in this order."""
    for at in range(len(ended)):
        learn(state, ended[at])
