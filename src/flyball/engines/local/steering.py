"""What a supervisor does to a job that runs: other cores, a cap. Standard library only."""

from __future__ import annotations

import os
import signal
import time

from . import cgroup, proc, steer_file
from .governor import NEVER, Governor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CAPPED_NICE = 10
"""Niceness of a job under a cap: it need not be quick, so it lets others go first."""
LOOK_EVERY_S = 0.5
"""Between two looks at which processes there are."""


class Steering:
    """Obeys the orders of one attempt.

    Args:
        request: what the supervisor began with.
        name: of its control group.
    """

    def __init__(self, request: dict[str, Any], name: str) -> None:
        self._path, self._nice = request["orders"], request["nice"]
        self._cores = request["cores"]
        self._name, self._may_group = name, request["quota"]
        self._seen = {"resize": 0, "cap": 0}
        self._share = 1.0
        self._child = 0
        self._ended_s = 0.0
        self._pids: list[int] = []
        self._looked_s = -NEVER
        self._quota: cgroup.Quota | None = None
        self._governor = Governor(self._used_s, self._pause)
        self._since_s = self._used_then_s = 0.0
        self._capped_s = self._capped_core_s = self._capped_cpu_s = 0.0
        self._capped_cores = 0
        self._by = ""

    @property
    def due_s(self) -> float:
        """When it wants a turn."""
        return self._governor.due_s

    def began(self, child: int, now_s: float) -> None:
        """The program runs: obey what was said before it did."""
        self._child = child
        self.obey(now_s)

    def ended(self, pid: int, cpu_s: float) -> None:
        """A process of the job was taken leave of, with what it had used."""
        self._ended_s += cpu_s
        if pid == self._child:
            self._child = 0  # its group's number may be somebody else's from now on

    def turn(self, now_s: float) -> None:
        """Whatever is due."""
        self._governor.turn(now_s)

    def obey(self, now_s: float) -> None:
        """Read the orders, and do what is new."""
        said = steer_file.read(self._path)
        new = [each for each in self._seen if steer_file.sequence_of(said, each) > self._seen[each]]
        if not new:
            return
        for each in new:
            self._seen[each] = steer_file.sequence_of(said, each)
        if "resize" in new and said["resize"]["cores"]:
            self._cores = said["resize"]["cores"]
            self._move()
        self._settle(now_s)
        if "cap" in new:
            self._share = float(said["cap"]["share"])
            self._be_nice(CAPPED_NICE if self._share < 1.0 else 0)
        if self._share < 1.0 or self._by:
            self._cap(now_s)

    def release(self) -> None:
        """It is to end: let it do that as fast as it can."""
        self._settle(time.monotonic())
        self._share = 1.0
        self._governor.keep_to(1.0, 1, 0.0)
        if self._quota is not None:
            self._quota.keep_to(0.0, list)

    def close(self) -> dict[str, Any]:
        """Nothing of the job is left: remove what it had, and say what became of its caps."""
        self._settle(time.monotonic())
        if self._quota is not None:
            self._quota.remove()
        if not self._by:
            return {}
        return {
            "cap_by": self._by,
            "capped_s": round(self._capped_s, 3),
            "capped_core_s": round(self._capped_core_s, 3),
            "capped_cpu_s": round(self._capped_cpu_s, 3),
        }

    def _cap(self, now_s: float) -> None:
        """By the kernel where that is permitted, else by our own hand.

        A job whose devices are not cores has no cores of its own to be kept from.
        """
        cores = len(self._cores)
        if not cores:
            return
        self._since_s, self._used_then_s, self._capped_cores = now_s, self._used_s(), cores
        if self._may_group and self._governor.due_s == NEVER:
            allowed = self._share * cores if self._share < 1.0 else 0.0
            group = self._group()
            if group is not None and group.keep_to(allowed, self._living):
                self._by = "quota"
                return
            self._may_group = False
        self._by = "pauses"
        self._governor.keep_to(self._share, cores, now_s)

    def _group(self) -> cgroup.Quota | None:
        if self._quota is None:
            place = cgroup.find_place(controller="cpu")
            self._quota = cgroup.Quota(place, self._name) if place else None
        return self._quota

    def _settle(self, now_s: float) -> None:
        """Add what was used under a cap to the account of it."""
        if self._share < 1.0:
            self._capped_s += now_s - self._since_s
            self._capped_core_s += (now_s - self._since_s) * self._capped_cores
            self._capped_cpu_s += self._used_s() - self._used_then_s
            self._since_s, self._used_then_s = now_s, self._used_s()

    def _living(self) -> list[int]:
        return proc.descendants(os.getpid())

    def _used_s(self) -> float:
        """Processor time of the whole job, of those who have ended too."""
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_EVERY_S:
            self._pids, self._looked_s = self._living(), now_s
        return self._ended_s + sum(map(proc.cpu_s, self._pids))

    def _pause(self, paused: bool) -> None:
        """Stop every process of the job, or let all go on."""
        number = signal.SIGSTOP if paused else signal.SIGCONT
        found = [proc.stat(pid) for pid in self._pids]
        targets = [each.pid for each in found if each and each.group != self._child]
        if self._child:
            targets.insert(0, -self._child)
        for pid in targets:
            try:
                os.kill(pid, number)
            except OSError:
                continue

    def _move(self) -> None:
        """Put every thread of the job on its cores. Twice: threads are born meanwhile."""
        for _ in range(2):
            for thread in [each for pid in self._living() for each in proc.threads(pid)]:
                try:
                    os.sched_setaffinity(thread, self._cores)
                except OSError:
                    continue

    def _be_nice(self, least: int) -> None:
        """Only where it can be taken back, which needs a right of its own."""
        if os.geteuid() == 0 and self._child:
            try:
                os.setpriority(os.PRIO_PGRP, self._child, max(least, self._nice))
            except OSError:
                return
