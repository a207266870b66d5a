"""The attempts of the local engine, and what their claim files say about them.

The folder of claims is the source of truth; this is a cache that saves reading all of it each time.
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.core.live import Report
from flyball.engines.local import cgroup, claim, proc, steer_file
from flyball.engines.local.claim import Claim
from flyball.engines.local.leftovers import (
    find_holder,
    holders,
    kill_leftovers,
    signal_supervisor,
)
from flyball.engines.local.signals import CANCEL, ORDERS, PREEMPT, send

Token = tuple[int, int]
"""(job, attempt)."""

CLOSING_S = 1.0
"""A process that closed its claim is expected to be gone within this time."""

log = logging.getLogger(__name__)


@dataclass
class Attempt:
    """Holds what the engine knows about one attempt.

    Attributes:
        request: what is sent to the spawner, until a claim is seen.
        sent: a spawner may have received it.
        sent_s: when the request was built, or when giving up was last postponed.
        refused: why its supervisor could not claim it.
        fenced: its claim must stay after the end, since a duplicate launch may still be in flight.
        claim: the claim as last read.
        stop: `cancel` or `preempt`, not sent to the supervisor yet.
        orders_pending: there are orders that its supervisor may not have seen.
        stray: the journal does not expect it; it is ended without a report.
    """

    request: bytes = b""
    sent: bool = False
    sent_s: float = 0.0
    refused: str = ""
    fenced: bool = False
    claim: Claim | None = None
    started: bool = False
    stop: str = ""
    orders_pending: bool = False
    stray: bool = False


class Attempts:
    """Tracks all attempts that are sent, running, or over and not acknowledged.

    Attributes:
        by_token: all of them.
        unclaimed: those that were sent and whose claim was not seen yet.
        over: reports of ends that are not acknowledged.
        starts: reports of starts that were not handed out yet.
        strays: reports of the ends of attempts that the journal did not expect.
        recheck: attempts to refresh at every wake-up, and until when.
        forgotten: acknowledged attempts whose claims are still to be removed.
    """

    def __init__(self, state: Path, now_us: Callable[[], int]) -> None:
        self._state = state
        self._path = state / "engine"
        self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        self._now_us = now_us
        self._place = cgroup.find_place()
        places = (cgroup.find_place(controller=name) for name in ("cpu", "pids"))
        self._other_places = [place for place in places if place is not None]
        self._fences: set[Token] = set()
        self.by_token: dict[Token, Attempt] = {}
        self.unclaimed: dict[Token, Attempt] = {}
        self.over: dict[Token, Report] = {}
        self.starts: list[Report] = []
        self.strays: list[Report] = []
        self.recheck: dict[Token, float] = {}
        self.forgotten: set[Token] = set()

    def close(self) -> None:
        self.sweep()
        os.close(self._folder)

    def on_disk(self) -> set[Token]:
        """Return the tokens of all claims in the folder, except fences and those to be removed."""
        tokens = (claim.token_of(name) for name in os.listdir(self._folder))
        return {token for token in tokens if token is not None} - self._fences - self.forgotten

    def exists(self, token: Token) -> bool:
        try:
            os.stat(claim.name_of(*token), dir_fd=self._folder)
        except FileNotFoundError:
            return False
        return True

    # Reading claims ---------------------------------------------------------------

    def refresh(self, token: Token, closed_s: float = -math.inf) -> None:
        """Read the claim of an attempt and update what is known about it.

        Args:
            closed_s: when the supervisor closed the file; -inf = it may still be open.
        """
        self.recheck.pop(token, None)
        if token in self.over or token in self._fences or token in self.forgotten:
            return
        record = claim.read(self._folder, *token)
        attempt = self.by_token.get(token)
        if record is None or record.blank:
            if attempt is None or attempt.claim is None:
                if record is None:
                    return  # not claimed yet, or acknowledged
            elif record is None or record.exit is None:
                # The file was removed or damaged; the process is still ours to watch.
                signal_supervisor(attempt.claim, ORDERS)
                record = attempt.claim
        attempt = attempt or self.by_token.setdefault(token, Attempt())
        if record.exit is None and not record.void and not self._is_alive(record):
            record = claim.read(self._folder, *token) or record  # it may have just recorded its end
            if record.exit is None:
                self._lose(token, record)
                return
        self._update(token, attempt, record)
        if token not in self.over and closed_s > -math.inf:
            self.recheck[token] = closed_s + CLOSING_S

    def _update(self, token: Token, attempt: Attempt, record: Claim) -> None:
        self.unclaimed.pop(token, None)
        attempt.request = b""
        if not record.blank:
            attempt.claim = record
        if record.void:
            self._end(token, "void", record.time_us, {"message": attempt.refused})
            return
        if record.child and not attempt.started:
            attempt.started = True
            if not attempt.stray:
                values = {"pid": record.child}
                self.starts.append(Report(*token, "started", record.time_us, values))
        if record.exit is not None:
            values = {name: value for name, value in record.exit.items() if name != "time_us"}
            self._end(token, "ended", int(record.exit["time_us"]), values)
        elif attempt.stop and attempt.claim is not None:
            self._send_stop(attempt)
        elif attempt.orders_pending and record.child:
            self._signal_orders(attempt)

    def _is_alive(self, record: Claim) -> bool:
        if record.blank:
            held = holders(self._path / claim.name_of(record.job, record.attempt))
            for pid in held:  # a supervisor rewrites its claim; others ignore this signal
                send(pid, ORDERS)
            return bool(held)
        return proc.is_alive(record.pid, record.start, record.boot)

    def _lose(self, token: Token, record: Claim) -> None:
        """Kill what is left of an attempt without a supervisor; when nothing is, report it lost."""
        self.unclaimed.pop(token, None)
        group = None
        if self._place is not None:
            group = cgroup.Group(self._place, cgroup.group_name(self._folder, *token))
        # Two empty passes: a process list is not an atomic snapshot, so one pass can miss a fork.
        if any(kill_leftovers(record, self._state, group) for _ in range(2)):
            self.recheck[token] = math.inf
            return
        for place in self._other_places:
            cgroup.Group(place, cgroup.group_name(self._folder, *token)).remove()
        why = "the machine was restarted" if record.boot != proc.boot_id() else "it was killed"
        message = f"supervisor {record.pid} is gone without a record of an end: {why}"
        self._end(token, "lost", self._now_us(), {"message": message})

    def _end(self, token: Token, what: str, time_us: int, values: Mapping[str, Any]) -> None:
        report = Report(*token, what, time_us, values)
        if not self.by_token[token].stray:
            self.over[token] = report
            return
        if what == "lost":  # the others had ended before; only their claims were left
            log.warning("attempt %d.%d was not expected to be here; killed", *token)
        self.strays.append(report)
        self.forget(token)

    # Acting on attempts -----------------------------------------------------------

    def refuse(self, token: Token, why: str, now_s: float) -> None:
        """Record that the supervisor could not claim the attempt, so that nothing runs.

        The claim may have been seen all the same: it exists before it is durable, and is removed
        if it cannot be synced.
        """
        attempt = self.by_token.get(token)
        if attempt is None or token in self.over:
            return
        if token not in self.unclaimed:
            seen = attempt.claim
            if attempt.started or (seen is not None and seen.child) or self.exists(token):
                return  # a duplicate launch was refused; the first one runs
            attempt.claim = None
            self.unclaimed[token] = attempt
        attempt.refused = f"cannot be claimed: {why}"
        attempt.sent_s = now_s

    def stop(self, token: Token, why: str) -> bool:
        """Send a request to stop, now or once the claim is seen; False if it is unknown."""
        self.refresh(token)
        attempt = self.by_token.get(token)
        if attempt is None:
            return False
        attempt.stop = why
        if attempt.claim is not None and token not in self.over:
            self._send_stop(attempt)
        return True

    def _send_stop(self, attempt: Attempt) -> None:
        assert attempt.claim is not None
        signal_supervisor(attempt.claim, PREEMPT if attempt.stop == "preempt" else CANCEL)
        attempt.stop = ""

    def order(self, token: Token, what: str, order: dict[str, Any]) -> bool:
        """Send an order to a running attempt (`steer_file.py`) once; False if it is unknown.

        Raises:
            OSError: the orders file cannot be written.
        """
        self.refresh(token)
        attempt = self.by_token.get(token)
        if attempt is None:
            return False
        if token not in self.over and steer_file.put(self._orders_path(token), what, order):
            attempt.orders_pending = True
            if attempt.claim is not None and attempt.claim.child:
                self._signal_orders(attempt)
        return True

    def _signal_orders(self, attempt: Attempt) -> None:
        """Wake the supervisor to read the orders; the job itself polls the file."""
        assert attempt.claim is not None
        signal_supervisor(attempt.claim, ORDERS)
        attempt.orders_pending = False

    def _orders_path(self, token: Token) -> str:
        return steer_file.path_of(str(self._state), *token)

    def make_void(self, token: Token, fenced: bool) -> bool:
        """Claim the attempt as void, so that no supervisor can start it any more.

        If a supervisor claimed it first, that claim stands. Returns False if the disk is full.
        """
        attempt = self.by_token.setdefault(token, Attempt())
        attempt.fenced = fenced
        head = {"job": token[0], "attempt": token[1], "pid": 0, "time_us": self._now_us()}
        try:
            os.close(claim.make(self._folder, head))
        except FileExistsError:
            pass
        except OSError as error:
            log.warning("cannot give up attempt %d.%d yet: %s", *token, error)
            return False
        self.refresh(token)
        return True

    def find_removed(self, token: Token) -> bool:
        """Return whether an attempt without a claim still runs.

        Its supervisor is asked to write the claim again. If it has none, what is left of the
        attempt is killed, since the job may be started again.
        """
        holder = find_holder(self._path / claim.name_of(*token))
        if holder is None:
            kill_leftovers(Claim(token, None, None), self._state, None)
            return False
        head = {"pid": holder.pid, "start": holder.start, "boot": proc.boot_id()}
        record = Claim(token, head, None)
        log.warning("the claim of attempt %d.%d was removed while it runs", *token)
        self.by_token.setdefault(token, Attempt()).claim = record
        signal_supervisor(record, ORDERS)
        return True

    def kill_stray(self, token: Token, fenced: bool) -> None:
        """Kill an attempt that is over according to the journal; rechecked until it is gone."""
        record = claim.read(self._folder, *token)
        if record is None:
            return
        attempt = self.by_token.setdefault(token, Attempt())
        attempt.stray, attempt.fenced = True, fenced
        if record.exit is None and record.pid:
            signal_supervisor(record, signal.SIGKILL)
        self.over.pop(token, None)  # it was reported, but is not in this journal
        self.refresh(token)
        if token in self.by_token:
            self.recheck[token] = math.inf

    def forget(self, token: Token) -> None:
        """Drop an attempt whose end is recorded: its files are no longer needed."""
        self.over.pop(token, None)
        self.recheck.pop(token, None)
        attempt = self.by_token.pop(token, None)
        steer_file.remove(self._orders_path(token))
        if attempt is not None and attempt.fenced:
            self._fences.add(token)
        else:
            self.forgotten.add(token)

    def sweep(self) -> None:
        """Remove the claims of forgotten attempts."""
        self.forgotten = self._not_removed(self.forgotten)

    @property
    def has_fences(self) -> bool:
        """Whether claims are kept as fences for attempts that are over."""
        return bool(self._fences)

    def drop_fences(self) -> None:
        """Remove the fences: no duplicate launch can be in flight any more."""
        self._fences = self._not_removed(self._fences)

    def _not_removed(self, tokens: set[Token]) -> set[Token]:
        """Remove claims; return those that could not be removed, to be retried later."""
        kept: set[Token] = set()
        for token in tokens:
            try:
                os.unlink(claim.name_of(*token), dir_fd=self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                kept.add(token)
                log.warning("the claim of attempt %d.%d cannot be removed: %s", *token, error)
        return kept
