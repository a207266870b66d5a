"""How much slower jobs run because other work takes the same cores.

The kernel accounts for every thread how long it ran and how long it was ready to run but had to
wait for a core (`/proc/PID/task/*/schedstat`). The control plane's own share is what a job at the
same priority would get: with as much waiting as running, a job takes twice as long. Counting tasks
that are ready to run was tried instead and is far off where the kernel shares the cores by session
or tasks have a low priority: in ten runs it made forecasts 1.9 to 4.1 times too long.
"""

from __future__ import annotations

from pathlib import Path

LEAST_CPU_S = 0.5
"""CPU time from which a new ratio is used; until then the last one holds."""
MOST = 8.0
"""Largest slowdown reported."""
NS_PER_S = 1e9


class Contention:
    """Measures the slowdown of one of our processes.

    Args:
        pid: a process at the priority of jobs that is not idle all the time.
        proc: where the kernel's process table is mounted.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._tasks = proc / str(pid) / "task"
        self._seen_s = (0.0, 0.0)
        self._last = 1.0

    def slowdown(self) -> float:
        """Return how many times longer a job takes than on free cores, by the latest ratio."""
        run_s, wait_s = self._times_s()
        new_run_s, new_wait_s = run_s - self._seen_s[0], wait_s - self._seen_s[1]
        if new_run_s >= LEAST_CPU_S:
            self._last = min(MOST, 1.0 + max(0.0, new_wait_s) / new_run_s)
            self._seen_s = (run_s, wait_s)
        return self._last

    def _times_s(self) -> tuple[float, float]:
        """Return the time that all threads ran and waited; zeros if the kernel has no counts."""
        run_ns = wait_ns = 0
        try:
            for task in self._tasks.iterdir():
                ran, waited, _slices = (task / "schedstat").read_text().split()
                run_ns, wait_ns = run_ns + int(ran), wait_ns + int(waited)
        except (OSError, ValueError):
            return 0.0, 0.0
        return run_ns / NS_PER_S, wait_ns / NS_PER_S
