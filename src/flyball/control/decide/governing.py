"""A learned policy on a live cluster: when it chooses knobs, from what, and what it caps.

The policy itself is passed in (`Governs`); nothing here knows what it is made of. What it chose,
from which inputs that the snapshot does not hold, is recorded in the decision (`Decided.learned`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from flyball.control.decide.tuning_rounds import reason_of
from flyball.control.jobs.adjustments import TUNED, share_of
from flyball.core.cluster import Cluster
from flyball.core.codes import Reason
from flyball.core.events import Capped, Event
from flyball.core.jobs import Job, JobState
from flyball.core.knobs import Knobs
from flyball.core.records import CAP_STEP
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S
from flyball.twin.live import View
from flyball.twin.stepping.observe import LOG_WEEK

POLICY = "policy"
"""Who caps a job on behalf of a policy."""
Record = Mapping[str, Any]


class Moment(NamedTuple):
    """Holds what a choice is made from.

    Attributes:
        state: the snapshot before the decision.
        knobs: in force so far.
        now_us: the instant.
        lately: what happened since the last choice (`lately`).
        signals: price and carbon intensity.
    """

    state: State
    knobs: Knobs
    now_us: int
    lately: Sequence[float]
    signals: tuple[Signal | None, Signal | None]


class Governs(Protocol):
    """Chooses knobs once an epoch; `flyball.learn.policy.live` serves learned policies so.

    Attributes:
        about: name, hash and epoch of the policy, as `opened` records them.
    """

    about: Record

    def due(self, now_us: int) -> bool: ...
    def choose(self, moment: Moment) -> Record:
        """Return the choice with the inputs it depends on, to be recorded."""
        ...

    def repeat(self, moment: Moment, record: Record) -> Record:
        """Return the choice made again from recorded inputs."""
        ...

    def knobs(self, record: Record) -> Knobs:
        """Return the knobs of a recorded choice."""
        ...

    def settle(self) -> None:
        """Note that the last choice is on record."""
        ...

    def view(self) -> dict[str, Any]:
        """Return what it chose last, and how often it fell back, for people."""
        ...


MakeGoverns = Callable[[Record], Governs | None]
"""Makes what serves the policy that `opened` names. None = that file is not here any more."""


class Lately:
    """Counts what happened on a live cluster between two choices.

    The numbers are those of `stepping.fields.LATELY_FIELDS`. Jobs that came and ended in between
    are seen in the ends only.
    """

    def __init__(self) -> None:
        self._since = self._next = (0, 0, 0)  # time, jobs ended, nodes down

    def settle(self) -> None:
        """Begin a new span: the last choice is on record."""
        self._since = self._next

    def numbers(self, view: View, cluster: Cluster, ended: int, now_us: int) -> list[float]:
        """Return what happened since the last choice on record, rounded as it is recorded."""
        since_us, ended_before, down_before = self._since
        self._next = (now_us, ended, len(view.down))
        if not since_us:
            return [0.0] * 7
        devices, elapsed_us = cluster.device_count, now_us - since_us
        per_hour = S_PER_HOUR * US_PER_S / (max(1, elapsed_us) * devices)
        workload, past = view.workload, view.past
        fresh = workload.submit_us > since_us
        share = workload.devices * workload.milli / MILLI_PER_DEVICE
        offered = float((workload.estimate_us * share)[fresh].sum())
        starts = int((np.asarray(past.since_us) > since_us).sum())
        again = (np.asarray(past.attempt) > 0) & (np.asarray(past.queued_us) > since_us)
        numbers = [
            math.log1p(elapsed_us / US_PER_S) / LOG_WEEK,
            math.log1p(int(fresh.sum()) * per_hour),
            offered / (devices * max(1, elapsed_us)),
            math.log1p(starts * per_hour),
            math.log1p(max(0, ended - ended_before) * per_hour),
            int(again.sum()) / max(1, starts),
            max(0, len(view.down) - down_before) / cluster.node_count,
        ]
        return [round(number, 6) for number in numbers]


def cap_events(jobs: Iterable[Job], knobs: Knobs, now_us: int) -> list[Event]:
    """Return the events that put running jobs under the cap of the knobs.

    A cap that a user ordered or a tuner chose stays as it is.
    """
    level = int(knobs.pack()[0].cap)
    share = round(1.0 - CAP_STEP * level, 4)
    why = reason_of(int(Reason.CAPPED if level else Reason.UNCAPPED), 0.0)
    return [
        Capped(now_us, job.id, job.attempt, share, *why, POLICY)
        for job in jobs
        if job.state == JobState.RUNNING
        and not job.stopping
        and share_of(job) != share
        and _capped_by(job) in (None, POLICY)
    ]


def _capped_by(job: Job) -> str | None:
    """Return who last capped a job; None = nobody."""
    log = job.values.get(TUNED, {}).get("log", ())
    caps = [entry for entry in log if entry["what"] == Capped.kind]
    return str(caps[-1].get("who", "")) if caps else None
