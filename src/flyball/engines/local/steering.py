"""Changes the cores and the cap of a running job, for its supervisor. Standard library only."""

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
"""Niceness of a job under a cap: it need not be fast, so other jobs go first."""
LIST_EVERY_S = 0.5
"""How often the job's processes are listed."""


class Steering:
    """Carries out the orders of one attempt.

    Args:
        request: the launch request.
        name: name of its control group.
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
        self._listed_s = -NEVER
        self._quota: cgroup.Quota | None = None
        self._governor = Governor(self._used_s, self._pause)
        self._since_s = self._used_then_s = 0.0
        self._capped_s = self._capped_core_s = self._capped_cpu_s = 0.0
        self._capped_cores = 0
        self._by = ""

    @property
    def due_s(self) -> float:
        """When to call `turn` next."""
        return self._governor.due_s

    def began(self, child: int, now_s: float) -> None:
        """Carry out the orders that came before the program started."""
        self._child = child
        self.obey(now_s)

    def ended(self, pid: int, cpu_s: float) -> None:
        """Add the processor time of a process of the job that was reaped."""
        self._ended_s += cpu_s
        if pid == self._child:
            self._child = 0  # the id of its process group may be reused from now on

    def turn(self, now_s: float) -> None:
        """Pause or resume the job, if that is due."""
        self._governor.turn(now_s)

    def obey(self, now_s: float) -> None:
        """Read the orders and carry out the new ones."""
        orders = steer_file.read(self._path)
        numbers = {kind: steer_file.sequence_of(orders, kind) for kind in self._seen}
        new = [kind for kind, number in numbers.items() if number > self._seen[kind]]
        if not new:
            return
        for kind in new:
            self._seen[kind] = numbers[kind]
        if "resize" in new and orders["resize"]["cores"]:
            self._cores = orders["resize"]["cores"]
            self._move()
        self._settle(now_s)
        if "cap" in new:
            self._share = float(orders["cap"]["share"])
            self._be_nice(CAPPED_NICE if self._share < 1.0 else 0)
        if self._share < 1.0 or self._by:
            self._cap(now_s)

    def release(self) -> None:
        """Lift the cap, so that a job that is to end can do so as fast as possible."""
        self._settle(time.monotonic())
        self._share = 1.0
        self._governor.keep_to(1.0, 1, 0.0)
        if self._quota is not None:
            self._quota.keep_to(0.0, list)

    def close(self) -> dict[str, Any]:
        """Remove the job's group after its end; return what was measured under caps."""
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
        """Apply the cap: by the kernel where permitted, else by pausing the job.

        A job whose devices are not cores has no cores of its own, so nothing is capped here.
        """
        cores = len(self._cores)
        if not cores:
            return
        self._since_s, self._used_then_s, self._capped_cores = now_s, self._used_s(), cores
        if self._may_group and self._governor.due_s == NEVER:
            allowed = self._share * cores if self._share < 1.0 else 0.0
            group = self._group()
            if group is not None and group.keep_to(allowed, self._pids_now):
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
        """Add the time and use since the last call to the totals under a cap."""
        if self._share < 1.0:
            self._capped_s += now_s - self._since_s
            self._capped_core_s += (now_s - self._since_s) * self._capped_cores
            self._capped_cpu_s += self._used_s() - self._used_then_s
            self._since_s, self._used_then_s = now_s, self._used_s()

    def _pids_now(self) -> list[int]:
        return proc.descendants(os.getpid())

    def _used_s(self) -> float:
        """Return the processor time of the whole job, including processes that have ended."""
        now_s = time.monotonic()
        if now_s - self._listed_s > LIST_EVERY_S:
            self._pids, self._listed_s = self._pids_now(), now_s
        return self._ended_s + sum(map(proc.cpu_s, self._pids))

    def _pause(self, paused: bool) -> None:
        """Stop every process of the job, or continue them all."""
        number = signal.SIGSTOP if paused else signal.SIGCONT
        processes = [proc.stat(pid) for pid in self._pids]
        targets = [process.pid for process in processes if process and process.group != self._child]
        if self._child:
            targets.insert(0, -self._child)
        for pid in targets:
            try:
                os.kill(pid, number)
            except OSError:
                continue

    def _move(self) -> None:
        """Move every thread of the job to its cores. Twice, as new threads may start meanwhile."""
        for _ in range(2):
            for thread in [thread for pid in self._pids_now() for thread in proc.threads(pid)]:
                try:
                    os.sched_setaffinity(thread, self._cores)
                except OSError:
                    continue

    def _be_nice(self, least: int) -> None:
        """Set the niceness, if root: only root can lower it again."""
        if os.geteuid() == 0 and self._child:
            try:
                os.setpriority(os.PRIO_PGRP, self._child, max(least, self._nice))
            except OSError:
                return
