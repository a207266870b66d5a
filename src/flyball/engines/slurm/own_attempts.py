"""Our attempts on Slurm, and what the shared folder says about them.

The claim in the shared folder is the truth: an attempt runs if it is claimed and shows signs of
life, and has ended if its end is recorded there. Slurm is only asked about attempts that the folder
is silent about.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flyball.core.live import Launch, Report
from flyball.engines.local import claim
from flyball.engines.local.claim import Claim, name_of
from flyball.engines.slurm.own_jobs import Token
from flyball.engines.slurm.shared_folder import SharedFolder

NEW, HELD, RELEASE, WAITING, ADOPTING, OVER = range(6)
"""Phases: to be submitted; submitted and held; to be released; in Slurm's hands; Slurm is asked
whether it has it; over. That it runs is said by its claim."""
NO_CHECK = -1.0

log = logging.getLogger(__name__)


@dataclass
class OwnAttempt:
    """Holds what is known about one attempt.

    Attributes:
        launch: what was asked; None after a restart of the control plane.
        number: Slurm's number of it, 0 = not known.
        stop: `cancel` or `preempt`, "" = it was not asked to stop.
        stop_sent: what its keeper was told.
        claimed: it has begun.
        beat: the last sign of life, and `beat_s` when it was new.
        released_s: when it was released.
        running_s: since when it runs by Slurm's word, though it has not begun; 0 = it does not.
        absent_s: since when Slurm does not have it any more; 0 = it has, or nobody knows.
        told: the last that was reported of how it waits.
        killed: it was stopped from outside; whether by somebody or since Slurm forgot it, is asked.
        stray: the journal does not expect it: it is ended without a report.
        since_us: when it was launched.
    """

    token: Token
    launch: Launch | None = None
    phase: int = NEW
    number: int = 0
    stop: str = ""
    stop_sent: str = ""
    claimed: bool = False
    started: bool = False
    beat: str = ""
    beat_s: float = 0.0
    released_s: float = 0.0
    running_s: float = 0.0
    absent_s: float = 0.0
    told: str = ""
    killed: bool = False
    stray: bool = False
    since_us: int = 0

    @property
    def name(self) -> str:
        return name_of(*self.token)


class OwnAttempts:
    """Follows attempts in the shared folder. Hold `lock` of the engine to call it.

    Attributes:
        by_token: every attempt that is not acknowledged as over.
        news: reports that are handed out once.
        over: reports of ends, until acknowledged.
    """

    def __init__(self, shared: SharedFolder, now_us: Callable[[], int], lease_s: float) -> None:
        self._shared, self._now_us, self._lease_s = shared, now_us, lease_s
        self.by_token: dict[Token, OwnAttempt] = {}
        self.news: list[Report] = []
        self.over: dict[Token, Report] = {}

    def refresh(self, attempt: OwnAttempt) -> None:
        """Read what the shared folder says of an attempt."""
        if attempt.token in self.over:
            return
        record = claim.read(self._shared.claims, *attempt.token)
        now_s = time.monotonic()
        if record is None:
            if attempt.stop and attempt.phase != ADOPTING:
                self.make_void(attempt, "it was stopped before it began")
            return
        if record.void:
            self.end(attempt, "void", record.time_us, {"message": "it never began"})
            return
        if not attempt.claimed:
            attempt.claimed, attempt.beat_s = True, now_s
            if not attempt.number:
                attempt.number = int(self._shared.read("slurm", attempt.name) or 0)
        if record.child and not attempt.started:
            self._start(attempt, record)
        if record.exit is not None:
            if record.exit.get("why") == "stopped" and not attempt.stop:
                attempt.killed = True  # Slurm's answer ends it
            else:
                self.end_as_recorded(attempt, record)
            return
        beat = self._shared.read("beats", attempt.name)
        if beat != attempt.beat:
            attempt.beat, attempt.beat_s = beat, now_s
            if attempt.told:
                attempt.told = ""
        self._pass_stop(attempt)

    def silent_s(self, attempt: OwnAttempt) -> float:
        """Return for how long a claimed attempt has shown no sign of life."""
        return time.monotonic() - attempt.beat_s

    def _pass_stop(self, attempt: OwnAttempt) -> None:
        """Tell the keeper of a running attempt to stop it."""
        if attempt.stop and attempt.stop != attempt.stop_sent:
            try:
                self._shared.write("orders", attempt.name, attempt.stop)
            except OSError as error:
                log.warning("attempt %s cannot be told to stop yet: %s", attempt.name, error)
                return
            attempt.stop_sent = attempt.stop

    def _start(self, attempt: OwnAttempt, record: Claim) -> None:
        attempt.started = True
        if attempt.stray:
            return
        values: dict[str, Any] = {"pid": record.child}
        place = self._shared.record("starts", attempt.name)
        gpus = self._shared.record("requests", attempt.name).get("gpus")
        if gpus and place.get("node") and (mask := mask_of(str(place.get("gpus", "")))):
            values["rows"] = [(place["node"], mask)]
        began_us = max(attempt.since_us, min(record.time_us, self._now_us()))
        self.news.append(Report(*attempt.token, "started", began_us, values))

    def make_void(self, attempt: OwnAttempt, why: str) -> bool:
        """Claim an attempt so that it can never begin; False if it has begun, or cannot be yet."""
        job, number = attempt.token
        head = {"job": job, "attempt": number, "pid": 0, "time_us": self._now_us()}
        try:
            os.close(claim.make(self._shared.claims, head))
        except FileExistsError:
            return False
        except OSError as error:
            log.warning("attempt %s cannot be given up yet: %s", attempt.name, error)
            return False
        self.end(attempt, "void", self._now_us(), {"message": why})
        return True

    def end(self, attempt: OwnAttempt, what: str, time_us: int, values: Mapping[str, Any]) -> None:
        """Note that an attempt is over."""
        attempt.phase = OVER
        if attempt.stray:
            self.by_token.pop(attempt.token, None)
            return
        time_us = max(attempt.since_us, min(time_us, self._now_us()))
        self.over[attempt.token] = Report(*attempt.token, what, time_us, dict(values))

    def end_as_recorded(self, attempt: OwnAttempt, record: Claim) -> None:
        """Note the end that the supervisor has recorded."""
        assert record.exit is not None
        values = {name: value for name, value in record.exit.items() if name != "time_us"}
        self.end(attempt, "ended", int(record.exit["time_us"]), values)

    def judge(self, attempt: OwnAttempt, is_listed: bool) -> None:
        """End an attempt that was stopped from outside: lost if Slurm killed what it had forgotten.

        Args:
            is_listed: whether Slurm has the job, be it as cancelled.
        """
        record = claim.read(self._shared.claims, *attempt.token)
        if record is None or record.exit is None or attempt.phase == OVER:
            return
        if is_listed or attempt.stop:
            self.end_as_recorded(attempt, record)
        else:
            message = "slurmctld had forgotten it, so that Slurm killed it"
            self.end(attempt, "lost", int(record.exit["time_us"]), {"message": message})

    def tell(self, attempt: OwnAttempt, what: str, message: str) -> None:
        """Report once how an attempt waits, or that nobody can say how it is."""
        if attempt.told != message and not attempt.stray:
            attempt.told = message
            values = {"message": message}
            self.news.append(Report(*attempt.token, what, self._now_us(), values))

    def lose(self, attempt: OwnAttempt) -> None:
        """Take a claimed attempt as lost: its keeper has killed it by now, or was killed itself."""
        record = claim.read(self._shared.claims, *attempt.token)
        if record is not None and record.exit is not None:
            self.refresh(attempt)
            return
        where = self._shared.record("starts", attempt.name).get("host", "its node")
        message = (
            f"no sign of life from {where} for {self._lease_s:g} s, and Slurm does not have it"
        )
        self.end(attempt, "lost", self._now_us(), {"message": message})

    def forget(self, token: Token) -> None:
        """Drop an attempt whose end is on record; its claim stays, so that it cannot run again."""
        self.over.pop(token, None)
        if self.by_token.pop(token, None) is not None:
            name = name_of(*token)
            self._shared.remove(name, ("requests", "starts", "beats", "orders", "slurm"))
            self._shared.remove(f"{name}.json", ("orders",))
            self._shared.remove(f"{name}.out", ("slurm",))


def mask_of(indices: str) -> int:
    """Return the mask of a list of GPUs as Slurm prints it: `0-1,3` is 0b1011."""
    mask = 0
    for part in filter(None, indices.split(",")):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return 0
        for index in range(int(low), min(int(high or low), 63) + 1):
            mask |= 1 << index
    return mask


def as_text(request: Mapping[str, Any]) -> str:
    """Return a request as it is written for the keeper."""
    return json.dumps(request)
