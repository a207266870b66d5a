"""Which job held which devices when: a replay is run again, instant by instant, and watched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flyball.app import Twin
from flyball.core.codes import Status
from flyball.core.protocols import PolicyLike
from flyball.core.records import Records
from flyball.core.units import FOREVER_US

MAX_SPANS = 50_000
"""More spans are not kept: no figure could show them."""


class Span(NamedTuple):
    """One stretch of time in which a job held devices of a node.

    Attributes:
        mask: devices of the node, bit by bit.
        milli: thousandths of each device; 0 = a guest on a device that another job holds whole.
        attempt: number of the start, 1 = the first.
    """

    job: int
    node: int
    mask: int
    milli: int
    attempt: int
    begin_us: int
    end_us: int


@dataclass
class _Held:
    """What a job holds since its last start."""

    attempt: int
    began_us: int
    rows: list[tuple[int, int, int]]  # node, mask, milli


class Timeline:
    """Follows a twin and collects the spans of its jobs.

    Attributes:
        spans: in order of their ends.
        full: there were more than `MAX_SPANS`.
    """

    def __init__(self, twin: Twin) -> None:
        self.spans: list[Span] = []
        self.full = False
        self._twin = twin
        self._held: dict[int, _Held] = {}
        self._attempts = twin.state.runs.attempt.copy()
        self._holds = np.zeros(len(twin.state.jobs), bool)

    def look(self) -> None:
        """Read the state after an instant."""
        runs, now_us = self._twin.state.runs, self._twin.now_us
        holds = (runs.status == Status.RUNNING) & (runs.first_row >= 0)
        changed = (holds != self._holds) | (holds & (runs.attempt != self._attempts))
        for job in np.flatnonzero(changed).tolist():
            self._close(job, now_us)
            if holds[job]:
                run = runs[job]
                self._held[job] = _Held(int(run.attempt), int(run.began_us), self._rows(job))
        self._holds = holds
        self._attempts = runs.attempt.copy()

    def _rows(self, job: int) -> list[tuple[int, int, int]]:
        state, at = self._twin.state, int(self._twin.state.runs.first_row[job])
        rows = []
        while at >= 0:
            row = state.rows[at]
            rows.append((int(row.node), int(row.mask), int(row.milli)))
            at = int(row.next)
        return rows

    def _close(self, job: int, now_us: int) -> None:
        held = self._held.pop(job, None)
        for node, mask, milli in held.rows if held is not None else ():
            assert held is not None
            self.spans.append(Span(job, node, mask, milli, held.attempt, held.began_us, now_us))
        self.full = self.full or len(self.spans) > MAX_SPANS

    def end(self, now_us: int) -> None:
        """Close the spans of the jobs that still run."""
        for job in list(self._held):
            self._close(job, now_us)


def follow(twin: Twin, policy: PolicyLike | None, until_us: int) -> Timeline:
    """Run a twin to an instant and return which job held which devices until then.

    Args:
        twin: before its first event.
        policy: decides, if it is in plain Python; None = the twin's knobs and tuners decide.
        until_us: the last instant.
    """
    timeline = Timeline(twin)
    if twin.tuning is not None:

        def note(_now_us: int, _plan: Records) -> None:
            timeline.look()

        twin.tuning = replace(twin.tuning, note=note)
    until_us = min(until_us, FOREVER_US - 1)
    while (next_us := _next_us(twin)) <= until_us and not timeline.full:
        twin.run(next_us, policy)
        timeline.look()
    timeline.end(min(until_us, twin.now_us) if twin.finished else until_us)
    return timeline


def _next_us(twin: Twin) -> int:
    """Return when something happens next, a round of the tuners included."""
    next_us = twin.next_us
    if twin.tuning is None or twin.finished:
        return next_us
    every_us = twin.tuning.every_us
    return min(next_us, (twin.now_us // every_us + 1) * every_us)
