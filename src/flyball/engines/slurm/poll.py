"""Polls a Slurm site: one reading after another, slower when slurmctld is slow or down.

A `Poller` reads in a thread of its own: whoever asks for the latest reading never waits for a
blocked command. One poll is one `squeue`; nodes, partitions and settings are read again now and
then, and the place of a running job on several nodes once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flyball.core.errors import DataAbsent, FlyballError
from flyball.engines.slurm import accounting, queue_text, records_text
from flyball.engines.slurm.accounting import EndedJob
from flyball.engines.slurm.commands import Runner
from flyball.engines.slurm.queue_text import QueuedJob
from flyball.engines.slurm.records_text import Partition, Share, SlurmNode

SITE_EVERY_S = 60.0
"""Time between two readings of nodes, partitions and settings."""
MAX_SHARES_PER_POLL = 50
"""Maximum number of jobs whose place is asked for in one poll; others follow in the next."""
BUSY_PART = 20.0
"""A poll may take one part in this many of the time: one of 0.5 s is followed by 10 s of rest."""
MAX_PAUSE_S = 300.0
HISTORY_DAYS = 14.0
HISTORY_LIMIT_S = 120.0


@dataclass(frozen=True)
class Reading:
    """Holds what was read of a site at one instant.

    Attributes:
        time_s: when squeue was asked, in seconds since 1970.
        took_s: how long squeue took.
        shares: where running jobs on several nodes are, by Slurm's number.
    """

    time_s: float
    took_s: float
    jobs: list[QueuedJob]
    nodes: list[SlurmNode]
    partitions: list[Partition]
    settings: dict[str, str]
    shares: dict[int, list[Share]] = field(default_factory=dict)

    @property
    def tiers(self) -> dict[str, int]:
        """The PriorityTier of each partition."""
        return {partition.name: partition.tier for partition in self.partitions}


class Site:
    """Reads one site through its commands."""

    def __init__(self, commands: Runner, now_s: Callable[[], float] = time.time) -> None:
        self._commands, self._now_s = commands, now_s
        self._site_read_s = float("-inf")
        self._nodes: list[SlurmNode] = []
        self._partitions: list[Partition] = []
        self._settings: dict[str, str] = {}
        self._shares: dict[int, tuple[float, list[Share] | None]] = {}

    def read(self) -> Reading:
        """Read the queue, and the rest where it is old.

        Raises:
            FlyballError: a command is missing, fails, or prints what we cannot read.
        """
        now_s = self._now_s()
        began = time.monotonic()
        jobs = queue_text.read_queue(self._commands.run("squeue", queue_text.ARGUMENTS))
        took_s = time.monotonic() - began
        if now_s - self._site_read_s >= SITE_EVERY_S:
            self._read_site()
            self._site_read_s = now_s
        self._read_shares(jobs)
        shares = {job_id: shares for job_id, (_start, shares) in self._shares.items() if shares}
        return Reading(now_s, took_s, jobs, self._nodes, self._partitions, self._settings, shares)

    def _read_site(self) -> None:
        run = self._commands.run
        self._nodes = records_text.read_nodes(run("scontrol", ["-o", "-d", "show", "node"]))
        self._partitions = records_text.read_partitions(
            run("scontrol", ["-o", "-a", "show", "partition"])
        )
        self._settings = records_text.read_settings(run("scontrol", ["show", "config"]))

    def _read_shares(self, jobs: list[QueuedJob]) -> None:
        """Ask where jobs on several nodes run; an allocation stays as it is from its start on."""
        spread = {job.id: job for job in jobs if job.state in ("R", "S") and job.nodes > 1}
        self._shares = {
            job_id: row
            for job_id, row in self._shares.items()
            if job_id in spread and spread[job_id].start_s == row[0]
        }
        missing = [job for job_id, job in spread.items() if job_id not in self._shares]
        for job in missing[:MAX_SHARES_PER_POLL]:
            try:
                text = self._commands.run("scontrol", ["-o", "-d", "show", "job", str(job.id)])
                shares = records_text.read_shares(text, job.id)
            except FlyballError:  # it has just ended, or may not be seen: it is spread evenly
                shares = None
            self._shares[job.id] = (job.start_s or 0.0, shares)

    def ended(self, days: float = HISTORY_DAYS) -> list[EndedJob]:
        """Return the jobs that ended in the last days, by sacct.

        Raises:
            DataAbsent: the site keeps no accounts, or we may not read them.
        """
        since_s = self._now_s() - days * 86_400.0
        try:
            text = self._commands.run("sacct", accounting.arguments(since_s), HISTORY_LIMIT_S)
        except FlyballError as error:
            raise DataAbsent(
                f"no history of run times ({error})", "forecasts rest on what is seen from now on"
            ) from None
        return accounting.read_ended(text)


class Poller:
    """Reads a site again and again in a thread of its own.

    Attributes:
        every_s: shortest time between two polls.
    """

    def __init__(self, site: Site, every_s: float) -> None:
        self._site, self.every_s = site, every_s
        self._changed = threading.Condition()
        self._reading: Reading | None = None
        self._error: FlyballError | None = None
        self._failures = 0
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="slurm-poll", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def latest(self, seen: int = 0, wait_s: float = 0.0) -> tuple[int, Reading | None, str]:
        """Return the number of polls, the newest reading, and why the last poll failed ("" = it
        did not), at once or as soon as there were more than `seen` polls.

        Args:
            seen: number of polls that the caller knows of.
            wait_s: longest wait for another one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._count > seen, timeout=wait_s)
            return self._count, self._reading, str(self._error or "")

    def stop(self) -> None:
        """Stop polling; a command that is blocked is left to its time limit."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the last poll has ended."""
        self._thread.join()

    def _loop(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                reading, error = self._site.read(), None
            except FlyballError as failed:
                reading, error = None, failed
            took_s = time.monotonic() - began
            with self._changed:
                self._reading, self._error = reading or self._reading, error
                self._failures = self._failures + 1 if error else 0
                self._count += 1
                self._changed.notify_all()
            self._stop.wait(pause_s(self.every_s, took_s, self._failures))


def pause_s(every_s: float, took_s: float, failures: int) -> float:
    """Return the rest after a poll: longer if it took long, doubled with each failure in a row."""
    if failures:
        return min(max(MAX_PAUSE_S, every_s), every_s * 2.0 ** min(failures, 16))
    return min(max(MAX_PAUSE_S, every_s), max(every_s, took_s * BUSY_PART))
