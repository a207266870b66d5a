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
OF_ALL = 0
"""The row of all jobs."""


@kernel
def learn_one(state: Any, row_id: int, done_us: float) -> None:
    past = state.history[row_id]
    if past.count == 0:
        past.mean_us = done_us
    else:
        past.mean_us = (past.mean_us + done_us) / 2
    past.count += 1


@kernel
def learn(state: Any, job_id: int) -> None:
    """A job has ended: let its peers know what it took."""
    memo, done_us = memo_of(state, job_id), state.runs[job_id].done_us
    learn_one(state, memo.alike, done_us)
    learn_one(state, memo.of_owner, done_us)
    learn_one(state, memo.of_size, done_us)
    learn_one(state, OF_ALL, done_us)


@kernel
def predict(state: Any, job_id: int) -> None:
    """Write down what is expected of a job that has no prediction yet."""
    memo = memo_of(state, job_id)
    if memo.predicted_us > 0.0:
        return
    row_id = memo.alike
    if state.history[row_id].count == 0:
        row_id = memo.of_owner
    if state.history[row_id].count == 0:
        row_id = memo.of_size
    if state.history[row_id].count == 0:
        row_id = OF_ALL
    past = state.history[row_id]
    memo.predicted_us = max(1.0, past.mean_us) if past.count > 0 else NOTHING_KNOWN_US


@entry
def relearn(state: Any, ended: Any) -> None:
    """Forget everything and learn from these jobs, in this order."""
    for row_id in range(len(state.history)):
        state.history[row_id].count = 0
        state.history[row_id].mean_us = 0.0
    for at in range(len(ended)):
        learn(state, ended[at])
