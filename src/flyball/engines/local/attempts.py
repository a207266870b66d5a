"""What the engine knows of each attempt, and what a look at its claim tells it.

The folder of claims is the truth; this is the memory that saves reading it all each time.
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
"""A process that closed its files is gone soon."""

log = logging.getLogger(__name__)


@dataclass
class Attempt:
    """What is known of one.

    Attributes:
        request: what is sent to the spawner, until a claim is seen.
        sent: a spawner may have it.
        sent_s: when it was made, or when giving up was last put off.
        refused: why its supervisor could not claim it.
        fenced: its claim must stay when it is over, since a launch may still be on its way.
        claim: as last read.
        stop: `cancel` or `preempt`, still to be passed on.
        told: there are orders that its supervisor may not have seen.
        stray: nobody expects it; it is to end without a report.
    """

    request: bytes = b""
    sent: bool = False
    sent_s: float = 0.0
    refused: str = ""
    fenced: bool = False
    claim: Claim | None = None
    started: bool = False
    stop: str = ""
    told: bool = False
    stray: bool = False


class Attempts:
    """All attempts that are sent, running, or over and not acknowledged."""

    def __init__(self, state: Path, now_us: Callable[[], int]) -> None:
        self._state = state
        self._path = state / "engine"
        self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        self._now_us = now_us
        self._place = cgroup.find_place()
        found = (cgroup.find_place(controller=name) for name in ("cpu", "pids"))
        self._other_places = [place for place in found if place is not None]
        self._fences: set[Token] = set()
        self.known: dict[Token, Attempt] = {}
        self.unheard: dict[Token, Attempt] = {}
        self.over: dict[Token, Report] = {}
        self.news: list[Report] = []
        self.strays: list[Report] = []
        self.again: dict[Token, float] = {}
        """To be looked at again very soon, until when."""
        self.left: set[Token] = set()
        """Forgotten; their claims are still to be removed."""

    def close(self) -> None:
        self.sweep()
        os.close(self._folder)

    def on_disk(self) -> set[Token]:
        """Every claim in the folder."""
        found = (claim.token_of(name) for name in os.listdir(self._folder))
        return {token for token in found if token is not None} - self._fences - self.left

    def exists(self, token: Token) -> bool:
        try:
            os.stat(claim.name_of(*token), dir_fd=self._folder)
        except FileNotFoundError:
            return False
        return True

    # Looking --------------------------------------------------------------------

    def look(self, token: Token, closed_s: float = -math.inf) -> None:
        """Read the claim and draw the conclusions.

        Args:
            closed_s: when the supervisor closed the file, if it is known to have.
        """
        self.again.pop(token, None)
        if token in self.over or token in self._fences or token in self.left:
            return
        found = claim.read(self._folder, *token)
        known = self.known.get(token)
        if found is None or found.blank:
            if known is None or known.claim is None:
                if found is None:
                    return  # not claimed yet, or acknowledged
            elif found is None or found.exit is None:
                # Somebody removed or spoilt the file; the process is still ours to watch.
                signal_supervisor(known.claim, ORDERS)
                found = known.claim
        known = known or self.known.setdefault(token, Attempt())
        if found.exit is None and not found.void and not self._lives(found):
            found = claim.read(self._folder, *token) or found  # its last act, perhaps, since
            if found.exit is None:
                self._lose(token, found)
                return
        self._conclude(token, known, found)
        if token not in self.over and closed_s > -math.inf:
            self.again[token] = closed_s + CLOSING_S

    def _conclude(self, token: Token, known: Attempt, found: Claim) -> None:
        self.unheard.pop(token, None)
        known.request = b""
        if not found.blank:
            known.claim = found
        if found.void:
            self._end(token, "void", found.time_us, {"message": known.refused})
            return
        if found.child and not known.started:
            known.started = True
            if not known.stray:
                values = {"pid": found.child}
                self.news.append(Report(*token, "started", found.time_us, values))
        if found.exit is not None:
            values = {name: value for name, value in found.exit.items() if name != "time_us"}
            self._end(token, "ended", int(found.exit["time_us"]), values)
        elif known.stop and known.claim is not None:
            self._pass_stop(known)
        elif known.told and found.child:
            self._pass_orders(known)

    def _lives(self, found: Claim) -> bool:
        if found.blank:
            held = holders(self._path / claim.name_of(found.job, found.attempt))
            for pid in held:  # a supervisor writes it anew; anybody else passes over this signal
                send(pid, ORDERS)
            return bool(held)
        return proc.is_alive(found.pid, found.start, found.boot)

    def _lose(self, token: Token, found: Claim) -> None:
        """Its supervisor is gone: it is lost as soon as nothing of it is left."""
        self.unheard.pop(token, None)
        group = None
        if self._place is not None:
            group = cgroup.Group(self._place, cgroup.group_name(self._folder, *token))
        # Twice nothing: the list of processes is not of one instant, and one may slip by it.
        if any(kill_leftovers(found, self._state, group) for _ in range(2)):
            self.again[token] = math.inf
            return
        for place in self._other_places:
            cgroup.Group(place, cgroup.group_name(self._folder, *token)).remove()
        why = "the machine was restarted" if found.boot != proc.boot_id() else "it was killed"
        message = f"supervisor {found.pid} is gone without a record of an end: {why}"
        self._end(token, "lost", self._now_us(), {"message": message})

    def _end(self, token: Token, what: str, time_us: int, values: Mapping[str, Any]) -> None:
        report = Report(*token, what, time_us, values)
        if not self.known[token].stray:
            self.over[token] = report
            return
        if what == "lost":  # the others had ended before and were only kept
            log.warning("attempt %d.%d was not expected to be here; killed", *token)
        self.strays.append(report)
        self.forget(token)

    # Acting ---------------------------------------------------------------------

    def refuse(self, token: Token, why: str, now_s: float) -> None:
        """Its supervisor says that it could not claim it, and runs nothing.

        The claim may have been seen all the same: it is there before it is known to be durable,
        and gone if the disk says no.
        """
        known = self.known.get(token)
        if known is None or token in self.over:
            return
        if token not in self.unheard:
            seen = known.claim
            if known.started or (seen is not None and seen.child) or self.exists(token):
                return  # of a launch that came twice: the other one runs
            known.claim = None
            self.unheard[token] = known
        known.refused = f"cannot be claimed: {why}"
        known.sent_s = now_s

    def stop(self, token: Token, why: str) -> bool:
        """Pass a request to stop on, now or when the claim is seen; False if nothing is known."""
        self.look(token)
        known = self.known.get(token)
        if known is None:
            return False
        known.stop = why
        if known.claim is not None and token not in self.over:
            self._pass_stop(known)
        return True

    def _pass_stop(self, known: Attempt) -> None:
        assert known.claim is not None
        signal_supervisor(known.claim, PREEMPT if known.stop == "preempt" else CANCEL)
        known.stop = ""

    def order(self, token: Token, what: str, order: dict[str, Any]) -> bool:
        """Send an order to a running attempt (`steer_file.py`) once; False if it is unknown.

        Raises:
            OSError: it cannot be written down.
        """
        self.look(token)
        known = self.known.get(token)
        if known is None:
            return False
        if token not in self.over and steer_file.put(self._orders(token), what, order):
            known.told = True
            if known.claim is not None and known.claim.child:
                self._pass_orders(known)
        return True

    def _pass_orders(self, known: Attempt) -> None:
        """The job itself looks by itself; its supervisor sleeps."""
        assert known.claim is not None
        signal_supervisor(known.claim, ORDERS)
        known.told = False

    def _orders(self, token: Token) -> str:
        return steer_file.path_of(str(self._state), *token)

    def make_void(self, token: Token, fenced: bool) -> bool:
        """Take the token so that nobody can begin it any more.

        A claim made by somebody else meanwhile decides. False if there is no room on the disk.
        """
        known = self.known.setdefault(token, Attempt())
        known.fenced = fenced
        head = {"job": token[0], "attempt": token[1], "pid": 0, "time_us": self._now_us()}
        try:
            os.close(claim.make(self._folder, head))
        except FileExistsError:
            pass
        except OSError as error:
            log.warning("cannot give up attempt %d.%d yet: %s", *token, error)
            return False
        self.look(token)
        return True

    def find_removed(self, token: Token) -> bool:
        """Look whether an attempt without a claim runs all the same; True if it does.

        Its supervisor is told to write the claim again. If nobody supervises it, what is left of
        it is killed, since the job may be started anew.
        """
        holder = find_holder(self._path / claim.name_of(*token))
        if holder is None:
            kill_leftovers(Claim(token, None, None), self._state, None)
            return False
        head = {"pid": holder.pid, "start": holder.start, "boot": proc.boot_id()}
        found = Claim(token, head, None)
        log.warning("the claim of attempt %d.%d was removed while it runs", *token)
        self.known.setdefault(token, Attempt()).claim = found
        signal_supervisor(found, ORDERS)
        return True

    def kill_stray(self, token: Token, fenced: bool) -> None:
        """End an attempt that the journal says is over; looked at until it is gone."""
        found = claim.read(self._folder, *token)
        if found is None:
            return
        known = self.known.setdefault(token, Attempt())
        known.stray, known.fenced = True, fenced
        if found.exit is None and found.pid:
            signal_supervisor(found, signal.SIGKILL)
        self.over.pop(token, None)  # told before, and yet nobody knows of it
        self.look(token)
        if token in self.known:
            self.again[token] = math.inf

    def forget(self, token: Token) -> None:
        """It is over and that is known: what it left in the folder is no longer needed."""
        self.over.pop(token, None)
        self.again.pop(token, None)
        known = self.known.pop(token, None)
        steer_file.remove(self._orders(token))
        if known is not None and known.fenced:
            self._fences.add(token)
        else:
            self.left.add(token)

    def sweep(self) -> None:
        """Remove the claims of what is forgotten."""
        self.left = self._not_removed(self.left)

    @property
    def has_fences(self) -> bool:
        """Whether claims are kept of attempts that are over."""
        return bool(self._fences)

    def drop_fences(self) -> None:
        """Nothing is on its way any more."""
        self._fences = self._not_removed(self._fences)

    def _not_removed(self, tokens: set[Token]) -> set[Token]:
        """Remove claims; those that the disk does not let go of now are tried again later."""
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
