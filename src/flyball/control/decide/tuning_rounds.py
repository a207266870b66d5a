"""Tuners on a live cluster: when their rounds run, and how their actions become events.

A tuner (`core.protocols.Tuner`) sees the state after the policy's plan and returns further actions:
CAP, and PREEMPT followed by START of the same job, which changes its size or place. Tuners are
pure, and their inputs are on record, so a replay gives the same actions.
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

START, PREEMPT, CAP = (int(ActionKind[name]) for name in ("START", "PREEMPT", "CAP"))
TUNE_S = 60.0
"""Default interval between two rounds of tuners."""
LOAD = "running"
"""Series whose forecast tuners are given: devices held."""
LEVELS = (0.05, 0.5, 0.95)
"""Quantiles of that forecast."""
STEP_S = 60.0
"""Step of that forecast; it is interpolated from fewer points."""

logger = logging.getLogger("flyball.control")


class Tuning:
    """Holds the tuners that adjust decisions, and the interval of their rounds.

    Args:
        tuners: tuners by name, in the order in which they run.
        every_s: seconds between two rounds.
        settings: changed settings of the tuners, as stated (`elastic.gap_s=120`).
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
        """Whether a round is due since the last one on record."""
        if not self.tuners:
            return False
        self._round = now_us // to_us(self.every_s)
        return self._last != self._round

    def settle(self) -> None:
        """Note that the last round is on record."""
        self._last = self._round

    def adjust(self, state: State, forecast: Forecast | None) -> Records:
        """Return the tuners' actions; none if one of them fails: the queue continues without."""
        plan = records(0, ACTION)
        for name, tuner in self.tuners.items():
            try:
                plan = tuner.adjust(state, forecast, plan)
            except Exception:
                logger.exception("tuner %s failed; nothing is tuned in this round", name)
                return records(0, ACTION)
        return plan

    def load_forecast(self, loads: Mapping[str, Any]) -> Forecast | None:
        """Return the forecast of devices in use, minute by minute, None = there is none."""
        load = loads.get(LOAD)
        if not load:
            return None
        points_s = load["ahead_s"]
        ahead_s = np.arange(STEP_S, points_s[-1] + 1.0, STEP_S)
        rows = [np.interp(ahead_s, points_s, load[name]) for name in ("p05", "p50", "p95", "mean")]
        return Forecast(LEVELS, np.array(rows[:-1]), rows[-1])

    def forecast_as_json(self, forecast: Forecast | None) -> dict[str, Any] | None:
        """Return a forecast as JSON values."""
        if forecast is None:
            return None
        quantiles, mean = forecast.quantiles.tolist(), forecast.mean.tolist()
        return {"levels": list(forecast.levels), "quantiles": quantiles, "mean": mean}

    def forecast_from_json(self, values: Mapping[str, Any] | None) -> Forecast | None:
        """Return the forecast from the result of `forecast_as_json`."""
        if values is None:
            return None
        levels, quantiles = tuple(values["levels"]), np.array(values["quantiles"], float)
        return Forecast(levels, quantiles, np.array(values["mean"], float))


# From actions to events --------------------------------------------------------------


def tuning_events(
    rows: Sequence[Sequence[Any]],
    jobs: Mapping[int, Job],
    taken: Sequence[tuple[int, int]],
    now_us: int,
    number: int,
    in_place: bool,
) -> list[Event]:
    """Return the events that carry out the actions of a round.

    Args:
        rows: actions with job ids.
        jobs: jobs as they are before the decision.
        taken: (node, mask) pairs that jobs hold or were just given.
        number: number of the decision.
        in_place: whether a job can change devices within its node without a restart.
    """
    held = HeldDevices(taken)
    caps = {row[1]: row for row in rows if row[0] == CAP}
    stops = {row[1]: row for row in rows if row[0] == PREEMPT}
    starts: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        if row[0] == START:
            starts.setdefault(row[1], []).append(row)
    events: list[Event] = []
    # 1. Jobs that shrink make room for the others.
    for job_id in sorted(
        stops, key=lambda stopped: _growth(starts.get(stopped, ()), jobs[stopped])
    ):
        events += _move_events(
            jobs[job_id], stops[job_id], starts.pop(job_id, []), held, now_us, in_place
        )
    # 2. Starts take what is free now.
    for job_id, places in starts.items():
        events += _start_events(jobs[job_id], places, held, now_us, number)
    # 3. Caps.
    events += [event for row in caps.values() for event in _cap_events(jobs[row[1]], row, now_us)]
    return events


class HeldDevices:
    """Tracks devices in use per node, so that none is assigned twice."""

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


def _growth(starts: Sequence[Sequence[Any]], job: Job) -> int:
    """Return how many more devices a job has afterwards."""
    return sum(int(row[3]).bit_count() for row in starts) - held_devices(job)


def _move_events(
    job: Job,
    stop: Sequence[Any],
    starts: Sequence[Sequence[Any]],
    held: HeldDevices,
    now_us: int,
    in_place: bool,
) -> list[Event]:
    """Return the events that preempt a running job or change its devices."""
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
    event |= _reason_fields(starts[0])
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


def _start_events(
    job: Job, places: Sequence[Sequence[Any]], held: HeldDevices, now_us: int, number: int
) -> list[Event]:
    """Return the events that start a pending job, perhaps with another size than it asked for."""
    rows = [(int(row[2]), int(row[3])) for row in places]
    devices = sum(mask.bit_count() for _node, mask in rows)
    if job.state != JobState.PENDING or not held.free(rows):
        return []
    held.take(rows)
    events: list[Event] = []
    if job.spec.elastic and devices != size_of(job):
        event = {"kind": EventKind.RESIZED, **_about(job, now_us), "devices": devices, "rows": []}
        events.append({**event, **_reason_fields(places[0])})
    about = {"time_us": now_us, "job": job.id, "attempt": job.attempt + 1}
    events.append({"kind": EventKind.INTENDED, **about, "rows": rows, "decision": number})
    return events


def _cap_events(job: Job, row: Sequence[Any], now_us: int) -> list[Event]:
    share = round(1.0 - CAP_STEP * level_of(row), 4)
    if job.state != JobState.RUNNING or share == share_of(job):
        return []
    return [
        {"kind": EventKind.CAPPED, **_about(job, now_us), "share": share, **_reason_fields(row)}
    ]


def level_of(row: Sequence[Any]) -> int:
    """Return the level of an action, 0 if it has none."""
    return int(row[7]) if len(row) > 7 else 0


def _about(job: Job, now_us: int) -> dict[str, Any]:
    return {"time_us": now_us, "job": job.id, "attempt": job.attempt}


def _reason_fields(row: Sequence[Any]) -> dict[str, Any]:
    return reason_fields(row[5], row[6], "tuner")


def reason_fields(reason: int, gain: float, who: str) -> dict[str, Any]:
    """Return why a job's devices change, its predicted gain and who decided it, as event fields."""
    token = Reason(int(reason)).name.lower().replace("_", "-")
    return {"reason": token, "gain": float(gain), "who": who}
