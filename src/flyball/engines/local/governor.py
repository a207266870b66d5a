"""Limits a job to a share of its cores' time by pausing and resuming it.

    credit = rate * time passed - processor time used

The job runs until its credit is used up and pauses until there is enough for the next turn. The
account is never reset, so a turn that is too long or too late is compensated by the next ones;
only credit that a job did not use expires. Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S = 0.1
"""Length of a run and a pause together, for a job that uses all it gets."""
KEPT_S = 0.25
"""Credit is kept for up to this long: a supervisor that wakes late costs its job nothing."""
LEAST_S = 0.002
"""Shortest turn."""
NEVER = float("inf")


class Governor:
    """Runs and pauses one job.

    Args:
        used_s: returns the job's processor time so far.
        pause: stops the job (True) or continues it (False).
    """

    __slots__ = ("_cores", "_credit_s", "_pause", "_seen_s", "_share", "_used_s", "_used_then_s",
                 "due_s", "paused")  # fmt: skip

    def __init__(self, used_s: Callable[[], float], pause: Callable[[bool], None]) -> None:
        self._used_s, self._pause = used_s, pause
        self._share, self._cores = 1.0, 1
        self._credit_s = self._seen_s = self._used_then_s = 0.0
        self.paused = False
        self.due_s = NEVER

    def keep_to(self, share: float, cores: int, now_s: float) -> None:
        """Limit the job to this share of its cores from now on; 1 = no limit."""
        if self.due_s == NEVER:
            self._credit_s, self._seen_s, self._used_then_s = 0.0, now_s, self._used_s()
        self._share, self._cores = share, cores
        self.due_s = now_s if share < 1.0 else NEVER
        if share >= 1.0:
            self._set(False)

    def turn(self, now_s: float) -> None:
        """Update the account, and run or pause the job until `due_s`."""
        if now_s < self.due_s:
            return
        rate = self._share * self._cores
        used_s = self._used_s()
        earned_s = rate * (now_s - self._seen_s) - (used_s - self._used_then_s)
        self._credit_s = min(self._credit_s + earned_s, KEPT_S * rate)
        self._seen_s, self._used_then_s = now_s, used_s
        enough_s = PERIOD_S * rate * (1.0 - self._share)
        self._set(self._credit_s < (enough_s if self.paused else 0.0))
        if self.paused:
            wait_s = (enough_s - self._credit_s) / rate
        else:
            wait_s = self._credit_s / (self._cores - rate)
        self.due_s = now_s + min(max(wait_s, LEAST_S), PERIOD_S)

    def _set(self, paused: bool) -> None:
        if paused != self.paused:
            self.paused = paused
            self._pause(paused)
