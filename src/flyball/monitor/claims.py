"""Finds the attempts that run here, and their processes.

The engine's claim files name the supervisor of an attempt, which leads a session. The processes of
that session and their descendants are the job, even those that start a session of their own, as
the workers of torchrun do. The cost is O(claims + new processes): session and parent of a process
are read once, and only processes of jobs are read again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from flyball.monitor.job_memory import JobMemory
from flyball.monitor.sensor import Site, kept, text_of

FIRST_LINE = 1024
"""Size in bytes of a claim's first line; the exit record follows."""
SWEEP_S = 30.0
"""Rescan interval of all processes, in case a reused pid was missed."""
DEEPEST = 64
"""Maximum number of ancestors to follow: reused pids could form a cycle."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class RunningClaim(NamedTuple):
    """An attempt that was started here and has not ended.

    Attributes:
        pid, start: pid and start time of its supervisor, which may have had attempts before.
        begun_us: when it was claimed or started, by the engine's clock.
        before_s: processor time that the supervisor had used by then.
    """

    job: int
    attempt: int
    pid: int
    start: int
    begun_us: int = 0
    before_s: float = 0.0


class JobUsage(NamedTuple):
    """Resource use of a job's processes; the memory excludes its supervisor's."""

    processes: int
    cpu_s: float
    memory_bytes: int


class _ProcessStat(NamedTuple):
    parent: int
    session: int
    start: int
    cpu_ticks: int
    rss_pages: int


class Sessions:
    """Tracks the sessions and processes of claimed attempts; `update` refreshes them.

    A supervisor is the subreaper of its job's orphans, so every process of a job has the
    supervisor among its ancestors for as long as it lives.
    """

    def __init__(self, site: Site) -> None:
        assert site.state is not None
        self._folder = site.state / "engine"
        self._proc = site.root / "proc"
        self._boot = text_of(site.proc("sys/kernel/random/boot_id"))
        self._claims: dict[str, RunningClaim] = {}
        self._origin_of: dict[int, tuple[int, int]] = {}
        self._leader_of: dict[int, int] = {}
        self._sweep_due = -1.0
        self._load = kept(site.proc("loadavg"))
        self._newest = b""
        self._leaders: set[int] = set()
        self._memory = JobMemory(self._proc)
        self.pids: frozenset[int] = frozenset()

    def update(self, now: float) -> dict[RunningClaim, JobUsage]:
        """Return the attempts that run, with the resource use of each."""
        claims = self._read_claims()
        if not claims:
            self._origin_of.clear()
            self._leader_of.clear()
            self._leaders = set()
            self.pids = frozenset()
            self._memory.keep(())
            return {}
        leaders = {claim.pid for claim in claims}
        if self._has_new() or leaders != self._leaders or now >= self._sweep_due:
            self._find_processes(now, leaders)
        return self._measure(claims, now)

    def _has_new(self) -> bool:
        """Return whether there may be new processes, by the last pid that the kernel assigned,
        which costs a tenth of listing all processes."""
        before = self._newest
        self._newest = self._load.read().rpartition(b" ")[2] if self._load is not None else b""
        return not before or self._newest != before

    def _read_claims(self) -> list[RunningClaim]:
        """Return claims that are not void, not ended and of this boot; one per supervisor, the
        newest."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            names = []
        claims_by_name: dict[str, RunningClaim] = {}
        for name in names:
            if name.replace(".", "", 1).isdigit() and "." in name:
                claim = self._claims.get(name) or _read_claim(self._folder / name, self._boot)
                if claim is not None:
                    claims_by_name[name] = claim
        self._claims = claims_by_name
        by_age = sorted(claims_by_name.values(), key=lambda claim: claim.begun_us)
        return list({claim.pid: claim for claim in by_age}.values())

    def _find_processes(self, now: float, leaders: set[int]) -> None:
        """Read session and parent of new processes, and assign them to jobs."""
        if now >= self._sweep_due:
            self._sweep_due = now + SWEEP_S
            self._origin_of.clear()
            self._leader_of.clear()
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        origins = self._origin_of
        for gone in origins.keys() - alive:
            self._forget(gone)
        # A leader may have been listed before it became one.
        fresh = (alive - origins.keys()) | (leaders & alive)
        for pid in fresh:
            stat = _read_stat(self._proc, pid)
            if stat is not None:
                origins[pid] = stat.session, stat.parent
        undecided = fresh if leaders == self._leaders else origins.keys()
        self._leaders = leaders
        for pid in undecided:
            self._decide(pid)

    def _decide(self, pid: int) -> int:
        """Assign a process to the leader of its session or of its nearest ancestor's, and return
        that; 0 = it belongs to no job."""
        self._leader_of.pop(pid, None)
        at = pid
        for _ in range(DEEPEST):
            session, parent = self._origin_of.get(at, (0, 0))
            if session in self._leaders:
                self._leader_of[pid] = session
                return session
            if parent <= 1:
                return 0
            at = parent
        return 0

    def _forget(self, pid: int) -> None:
        self._origin_of.pop(pid, None)
        self._leader_of.pop(pid, None)

    def _measure(self, claims: list[RunningClaim], now: float) -> dict[RunningClaim, JobUsage]:
        members: dict[int, dict[int, _ProcessStat]] = {claim.pid: {} for claim in claims}
        started: dict[int, int] = {}
        for pid, leader in list(self._leader_of.items()):
            stat = _read_stat(self._proc, pid)
            if stat is None:
                self._forget(pid)
                continue
            if stat.session != self._origin_of[pid][0]:
                # It started a session, or is another process with a reused pid.
                self._origin_of[pid] = stat.session, stat.parent
                leader = self._decide(pid)
                if not leader:
                    continue
            members[leader][pid] = stat
            started[pid] = stat.start
        self.pids = frozenset(started)
        self._memory.keep(members)
        return {
            claim: JobUsage(
                len(members[claim.pid]),
                _used_s(members[claim.pid].values()) - claim.before_s,
                self._memory.measure(claim.pid, _rss_bytes(members[claim.pid], claim.pid), now),
            )
            for claim in claims
            # A process with another start time has reused the supervisor's pid.
            if members[claim.pid] and started.get(claim.pid, claim.start) == claim.start
        }


def _used_s(processes: Iterable[_ProcessStat]) -> float:
    return sum(stat.cpu_ticks for stat in processes) / TICKS_PER_S


def _rss_bytes(processes: Mapping[int, _ProcessStat], supervisor: int) -> dict[int, int]:
    return {
        pid: stat.rss_pages * PAGE_BYTES for pid, stat in processes.items() if pid != supervisor
    }


def _read_claim(path: Path, boot: str) -> RunningClaim | None:
    try:
        # Non-blocking, as this name may be a pipe or another kind of file.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = os.read(file, 2 * FIRST_LINE)
        finally:
            os.close(file)
        values = json.loads(data[:FIRST_LINE])
        job, attempt, pid, start = (int(values[field]) for field in RunningClaim._fields[:4])
        begun_us, before_s = int(values.get("time_us", 0)), float(values.get("cpu_s", 0.0))
        claim = RunningClaim(job, attempt, pid, start, begun_us, before_s)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # not written yet, or not a claim
    ended = data[FIRST_LINE:].strip(b" \n\0")
    if ended or claim.pid <= 0 or not math.isfinite(before_s) or values.get("boot") != boot:
        return None
    return claim


def _read_stat(proc: Path, pid: int) -> _ProcessStat | None:
    """Return parent, session, start and use of a process, with the use of its reaped children."""
    try:
        file = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(file, 1024)
    except OSError:
        return None  # gone between open and read
    finally:
        os.close(file)
    # The name is in parentheses and may contain anything: count fields from the last one.
    fields = data[data.rindex(b")") + 2 :].split(None, 22)
    if fields[0] in b"ZX":
        return None
    ticks = sum(map(int, fields[11:15]))
    return _ProcessStat(int(fields[1]), int(fields[3]), int(fields[19]), ticks, int(fields[21]))
