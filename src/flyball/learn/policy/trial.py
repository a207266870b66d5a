"""Tries an action before it is taken: an hour ahead in the twin, beside the incumbent.

The twin of a trial knows what a scheduler knows. Run times are the estimates (doubled where they
were outlived), nothing more arrives, no node fails, and prices stay as they are. So a trial does
not say what an action will bring, but it shows a harmful one: idle devices, needless restarts, caps
that cost more than they save. Both runs are the same but for the action.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.knobs import Knobs
from flyball.core.records import HEAP_OFFSET
from flyball.core.state import State
from flyball.core.units import FOREVER_US, to_us
from flyball.learn.env.caps import cap_running
from flyball.learn.env.spaces import INCUMBENT, PRIORITIES, Action, Floats, knobs_of
from flyball.physics.compile import entry, kernel
from flyball.schedule import heap
from flyball.schedule.order import doubled, progress
from flyball.twin.events import END_EVENT, KIND_BITS
from flyball.twin.live_kernel import schedule_ends
from flyball.twin.signal_tables import without_future
from flyball.twin.stepping.fields import GAINS
from flyball.twin.stepping.many import step_many
from flyball.twin.stepping.window import fork_state
from flyball.twin.twin import Twin

AHEAD_S = 3_600.0
"""How far a trial looks."""
GAIN = {field.name: at for at, field in enumerate(GAINS)}
NEVER_US = FOREVER_US // 4
FRESH_US = 1.0
"""Work left at least."""


@entry
def believe_estimates(state: Any, now: int) -> None:
    """Replace every job's true work by its estimate, more than what it has done already."""
    for job_id in range(len(state.jobs)):
        job, run = state.jobs[job_id], state.runs[job_id]
        done_us = run.done_us
        if run.first_row >= 0:
            done_us += progress(run, now)
        job.work_us = doubled(job.estimate_us, done_us + FRESH_US)
    drop_ends(state)


@kernel
def drop_ends(state: Any) -> None:
    """Drop every scheduled end: a fork's heap has room for one of each job."""
    clock, kept = state.clock[0], 0
    for at in range(clock.event_count):
        event = state.events[HEAP_OFFSET + at]
        if event.tie >> KIND_BITS != END_EVENT:
            target = state.events[HEAP_OFFSET + kept]
            target.key, target.tie = event.key, event.tie
            kept += 1
    heap.heapify(state.events, HEAP_OFFSET, kept)
    clock.event_count = kept


def imagine(state: State, knobs: Knobs, now_us: int) -> Twin:
    """Return a twin of what a scheduler believes: estimates come true, nothing more happens.

    Args:
        state: of a twin or of a live snapshot; it is not changed.
        knobs: those that decided in it so far.
        now_us: the instant, not before the state's last event.
    """
    copy, _job_ids, _is_rest = fork_state(without_future(state), now_us)
    copy.jobs.submit_us[copy.clock[0].next_job :] = NEVER_US
    copy.clock.next_outage = len(copy.outages)
    for signal in ("price", "carbon"):
        copy.clock[signal]["count"] = 0  # its value stays as it is
    believe_estimates(copy, now_us)
    schedule_ends(copy)
    twin = Twin.of_state(copy, knobs)
    twin.ledger[:] = 0.0
    twin.ledger[0] = now_us
    return twin


class Trial:
    """Compares actions with the incumbent from one state.

    Attributes:
        priorities: a number per entry of `spaces.PRIORITIES`.
    """

    def __init__(self, priorities: Floats) -> None:
        self.priorities = priorities

    def score(self, state: State, knobs: Knobs, now_us: int, action: Action) -> float:
        """Return what an action is expected to gain, in parts of what the incumbent spends.

        Args:
            state, knobs, now_us: as for `imagine`.
            action: what a policy proposes.
        """
        twin = imagine(state, knobs, now_us)
        step_many([twin], None, until_us=now_us, threads=1)
        pair = [twin, twin.clone()]
        for one, wanted in zip(pair, (knobs_of(action), INCUMBENT), strict=True):
            if wanted != knobs:
                level = np.array([int(wanted.pack()[0].cap)], np.int64)
                cap_running([one], level, np.array([now_us], np.int64))
                one.set_knobs(wanted)
        steps = step_many(pair, None, until_us=now_us + to_us(AHEAD_S), threads=1)
        return self._score(steps.gains[0], steps.gains[1])

    def _score(self, gains: Floats, incumbent: Floats) -> float:
        weights = dict(zip(PRIORITIES, self.priorities.tolist(), strict=True))
        relative = {
            name: (incumbent[at] - gains[at]) / max(incumbent[at], 1e-9)
            for name, at in GAIN.items()
        }
        behind = relative["work_s"]
        cost = 1.0 - weights["money"] - weights["carbon"]
        shares = {"money": weights["money"], "carbon_g": weights["carbon"], "energy_j": cost}
        energy = sum(
            share * (relative[name] - behind)
            for name, share in shares.items()
            if share > 0.0 and incumbent[GAIN[name]] > 0.0
        )
        throughput = relative["presence_s"] - behind
        return float(weights["alpha"] * throughput + weights["beta"] * energy)
