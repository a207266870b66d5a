"""Tuners on a live cluster: when they are asked, and what becomes of what they say.

A tuner (`core.protocols.Tuner`) sees the state after the policy's plan and says what it would do
further, as actions: CAP, and PREEMPT followed by START of the same job, which is another size or
another place. Tuners are pure, and what they were given is on record: a replay finds the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.control.jobs.adjustments import held_devices, share_of, size_of
from flyball.core.codes import ActionKind, Reason
from flyball.core.jobs import Job, JobState
from flyball.core.live import Event, EventKind
from flyball.core.protocols import Forecast, Tuner
from flyball.core.records import ACTION, CAP_STEP, Records, records
from flyball.core.state import State
from flyball.core.units import to_us

START, PREEMPT, CAP = (int(ActionKind[each]) for each in ("START", "PREEMPT", "CAP"))
TUNE_S = 60.0
"""Between two rounds of tuners."""
LOAD = "running"
"""The series that tuners are given a forecast of: devices held."""
LEVELS = (0.05, 0.5, 0.95)
STEP_S = 60.0
"""Of such a forecast; fewer steps are told than there are."""

logger = logging.getLogger("flyball.control")


class Tuning:
    """Who changes what the policy decides, and how often.

    Args:
        tuners: by name, in the order in which they are asked.
        every_s: seconds between two rounds.
        settings: of theirs that were changed, as they were written (`elastic.gap_s=120`).
    """

    def __init__(
        self,
        tuners: Mapping[str, Tuner] | None = None,
        every_s: float = TUNE_S,
        settings: Sequence[str] = (),
    ) -> None:
        self.tuners = dict(tuners or {})
        self.every_s = every_s
        self.settings = list(settings)
        self._round = self._last = -1

    def due(self, now_us: int) -> bool:
        """Whether a round has begun since the last one that is settled."""
        if not self.tuners:
            return False
        self._round = now_us // to_us(self.every_s)
        return self._last != self._round

    def settle(self) -> None:
        """What was decided last is on record."""
        self._last = self._round

    def adjust(self, state: State, forecast: Forecast | None) -> Records:
        """What they would do now; nothing, if one of them fails: the queue goes on without."""
        plan = records(0, ACTION)
        for name, tuner in self.tuners.items():
            try:
                plan = tuner.adjust(state, forecast, plan)
            except Exception:
                logger.exception("tuner %s failed; nothing is tuned in this round", name)
                return records(0, ACTION)
        return plan

    def expected(self, loads: Mapping[str, Any]) -> Forecast | None:
        """What is foretold of the devices in use, minute by minute, None = nothing."""
        load = loads.get(LOAD)
        if not load:
            return None
        told_s = load["ahead_s"]
        ahead_s = np.arange(STEP_S, told_s[-1] + 1.0, STEP_S)
        rows = [np.interp(ahead_s, told_s, load[each]) for each in ("p05", "p50", "p95", "mean")]
        return Forecast(LEVELS, np.array(rows[:-1]), rows[-1])

    def noted(self, forecast: Forecast | None) -> dict[str, Any] | None:
        """A forecast as JSON holds it."""
        if forecast is None:
            return None
        quantiles, mean = forecast.quantiles.tolist(), forecast.mean.tolist()
        return {"levels": list(forecast.levels), "quantiles": quantiles, "mean": mean}

    def recalled(self, noted: Mapping[str, Any] | None) -> Forecast | None:
        """The forecast that `noted` wrote down."""
        if noted is None:
            return None
        levels, quantiles = tuple(noted["levels"]), np.array(noted["quantiles"], float)
        return Forecast(levels, quantiles, np.array(noted["mean"], float))


# From actions to events --------------------------------------------------------------


def tuned_acts(
    rows: Sequence[Sequence[Any]],
    jobs: Mapping[int, Job],
    taken: Sequence[tuple[int, int]],
    now_us: int,
    number: int,
    in_place: bool,
) -> list[Event]:
    """What the adjustments of a round make the loop do.

    Args:
        rows: actions with the jobs' own ids.
        jobs: as they are before the decision.
        taken: (node, mask) pairs that others hold, or were just given.
        number: of the decision.
        in_place: whether a job can go on with other devices of its node without a new start.
    """
    held = Held(taken)
    caps = {row[1]: row for row in rows if row[0] == CAP}
    stops = {row[1]: row for row in rows if row[0] == PREEMPT}
    starts: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        if row[0] == START:
            starts.setdefault(row[1], []).append(row)
    acts: list[Event] = []
    # 1. Who holds fewer devices afterwards makes room for the others.
    for job_id in sorted(stops, key=lambda each: _count(starts.get(each, ()), jobs[each])):
        acts += _moved(jobs[job_id], stops[job_id], starts.pop(job_id, []), held, now_us, in_place)
    # 2. Whoever starts takes what is free now.
    for job_id, places in starts.items():
        acts += _begun(jobs[job_id], places, held, now_us, number)
    # 3. Caps.
    acts += [each for row in caps.values() for each in _capped(jobs[row[1]], row, now_us)]
    return acts


class Held:
    """Devices in use, node by node: nobody is given what another holds."""

    def __init__(self, taken: Sequence[tuple[int, int]]) -> None:
        self._masks: dict[int, int] = {}
        self.take(taken)

    def take(self, rows: Sequence[tuple[int, int]]) -> None:
        for node, mask in rows:
            self._masks[node] = self._masks.get(node, 0) | mask

    def give(self, rows: Sequence[tuple[int, int]]) -> None:
        for node, mask in rows:
            self._masks[node] = self._masks.get(node, 0) & ~mask

    def free(self, rows: Sequence[tuple[int, int]]) -> bool:
        return not any(self._masks.get(node, 0) & mask for node, mask in rows)


def _count(starts: Sequence[Sequence[Any]], job: Job) -> int:
    """Devices that a job has more afterwards."""
    return sum(int(row[3]).bit_count() for row in starts) - held_devices(job)


def _moved(
    job: Job,
    stop: Sequence[Any],
    starts: Sequence[Sequence[Any]],
    held: Held,
    now_us: int,
    in_place: bool,
) -> list[Event]:
    """A running job is set aside, or goes on with other devices."""
    if job.state != JobState.RUNNING:
        return []
    stopping = {"kind": EventKind.STOPPING, **_about(job, now_us), "why": "preempt"}
    if not starts:
        return [stopping] if job.spec.preemptible else []
    old = [(row.node, row.mask) for row in job.rows]
    new = [(int(row[2]), int(row[3])) for row in starts]
    devices = sum(mask.bit_count() for _node, mask in new)
    if devices != held_devices(job) and not job.spec.elastic:
        return []
    event = {"kind": EventKind.RESIZED, **_about(job, now_us), "devices": devices}
    event |= _why(starts[0])
    if in_place and {node for node, _ in new} == {node for node, _ in old}:
        held.give(old)
        if held.free(new):
            held.take(new)
            return [{**event, "rows": new}]
        held.take(old)
        return []
    if not job.spec.preemptible:
        return []
    return [{**event, "rows": [], "wants": new}, stopping]


def _begun(
    job: Job, places: Sequence[Sequence[Any]], held: Held, now_us: int, number: int
) -> list[Event]:
    """A pending job starts, perhaps with another size than it asked for."""
    rows = [(int(row[2]), int(row[3])) for row in places]
    devices = sum(mask.bit_count() for _node, mask in rows)
    if job.state != JobState.PENDING or not held.free(rows):
        return []
    held.take(rows)
    acts: list[Event] = []
    if job.spec.elastic and devices != size_of(job):
        event = {"kind": EventKind.RESIZED, **_about(job, now_us), "devices": devices, "rows": []}
        acts.append({**event, **_why(places[0])})
    about = {"time_us": now_us, "job": job.id, "attempt": job.attempt + 1}
    acts.append({"kind": EventKind.INTENDED, **about, "rows": rows, "decision": number})
    return acts


def _capped(job: Job, row: Sequence[Any], now_us: int) -> list[Event]:
    share = round(1.0 - CAP_STEP * level_of(row), 4)
    if job.state != JobState.RUNNING or share == share_of(job):
        return []
    return [{"kind": EventKind.CAPPED, **_about(job, now_us), "share": share, **_why(row)}]


def level_of(row: Sequence[Any]) -> int:
    """The level of an action; what has none has level 0."""
    return int(row[7]) if len(row) > 7 else 0


def _about(job: Job, now_us: int) -> dict[str, Any]:
    return {"time_us": now_us, "job": job.id, "attempt": job.attempt}


def _why(row: Sequence[Any]) -> dict[str, Any]:
    reason = Reason(int(row[5])).name.lower().replace("_", "-")
    return {"reason": reason, "gain": float(row[6]), "who": "tuner"}
