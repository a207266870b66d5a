"""Enforces a job's limit of processes and threads. Standard library only.

RLIMIT_NPROC counts all processes of the user, so it cannot limit one job. Where a control group
with the `pids` controller may be created, the kernel refuses more processes; version 2 then wakes
the supervisor, version 1 is polled. Elsewhere the supervisor counts a few times a second, and only
while the whole machine has enough processes for this job to exceed its limit. A job joins its
group a moment after its start, because joining takes longer than a short job runs.
"""

from __future__ import annotations

import os
import signal

from . import cgroup, proc
from .signals import send

NEVER = float("inf")
EVERY_S = 0.25
"""Time from the start to the first count, and between counts where there is no group."""
GROUP_EVERY_S = 2.0
"""Poll interval of a group that does not wake the supervisor; it cannot grow meanwhile."""
MOST_PASSES = 100
"""Maximum number of passes over all processes to stop them."""


class ProcessLimit:
    """Counts the processes and threads of one attempt.

    Attributes:
        due_s: when to call `check` next.
        over: the job was over its limit.
        alarm: a descriptor that polls as urgent when the kernel refused a process; -1 = none.
    """

    def __init__(self, limit: int, name: str) -> None:
        """
        Args:
            limit: processes and threads at a time; 0 = no limit.
            name: name of the attempt's control groups.
        """
        self.due_s = NEVER
        self.alarm = -1
        self.over = False
        self._limit = limit
        self._name = name
        self._group: cgroup.PidsGroup | None = None
        self._events = -1

    def began(self, now_s: float) -> None:
        """Schedule the first count."""
        if self._limit:
            self.due_s = now_s + EVERY_S

    def check(self, now_s: float) -> str:
        """Count; returns the message of a job over its limit, else an empty string."""
        count = self._count()
        if count > self._limit or self._refused():
            self.over = True
            return self._message(max(count, self._limit + 1))
        if self._group is None:
            self._make_group()
        self.due_s = now_s + (EVERY_S if self._events < 0 else GROUP_EVERY_S)
        if self.alarm >= 0:
            self.due_s = NEVER
        return ""

    def stop_all(self) -> None:
        """Stop every process, so that none forks while the others are being killed."""
        if self._group is not None:
            self._group.allow(0)
        stopped: set[int] = set()
        for _ in range(MOST_PASSES):
            fresh = set(proc.descendants(os.getpid())) - stopped
            if not fresh:
                return
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            stopped |= fresh

    def close(self) -> str:
        """Remove the attempt's group, once its processes are gone.

        Returns:
            The message of a job over its limit, if that was not noticed before.
        """
        refused = "" if self.over or not self._refused() else self._message(self._limit + 1)
        self.due_s = NEVER
        if self._events >= 0:
            os.close(self._events)
            self._events = self.alarm = -1
        if self._group is not None:
            self._group.remove()
            self._group = None
        return refused

    def _refused(self) -> bool:
        """Return whether the kernel refused a process; rearms the alarm."""
        if self._group is None or self._events < 0:
            return False
        return self._group.refusals(self._events) > 0

    def _count(self) -> int:
        """Return processes and threads; 0 if even the whole machine has no more than the limit."""
        if self._events >= 0 or proc.all_tasks() <= self._limit:
            return 0
        return sum(map(proc.thread_count, proc.descendants(os.getpid())))

    def _make_group(self) -> None:
        place = cgroup.find_place(controller="pids")
        if place is None:
            return
        group = cgroup.PidsGroup(place, self._name)
        if group.keep_to(self._limit, lambda: proc.descendants(os.getpid())):
            self._events = group.open_events()
            self.alarm = self._events if group.version == 2 else -1
        self._group = group

    def _message(self, count: int) -> str:
        asked = f"wanted {count} processes and threads at once, its limit is {self._limit}"
        return f"process-limit: {asked}; start fewer or submit with a higher --max-processes"
