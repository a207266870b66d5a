"""Which attempts run here, and which processes are theirs.

The engine's claim files say who supervises an attempt; the supervisor leads a session, and the
processes of that session and all they started are the job, also in sessions of their own, as the
workers of torchrun are. Reading them is O(claims + new processes): a process is asked for its
session and its parent once, then only those that are ours are read again.
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
"""Bytes of a claim's first line; the exit record follows."""
SWEEP_S = 30.0
"""All processes are asked anew this often, in case an id was used again unseen."""
DEEPEST = 64
"""Ancestors that are looked at: numbers that were used again must not lead in a circle."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Claim(NamedTuple):
    """An attempt that was begun here and has not ended.

    Attributes:
        pid, start: of its supervisor, which may have had other attempts before.
        begun_us: when it was first seen to have begun, by the engine's clock.
        before_s: processor time that was used until then.
    """

    job: int
    attempt: int
    pid: int
    start: int
    begun_us: int = 0
    before_s: float = 0.0


class Usage(NamedTuple):
    """What a job's processes use; of the memory, its supervisor's is not part."""

    processes: int
    cpu_s: float
    memory_bytes: int


class _Stat(NamedTuple):
    parent: int
    session: int
    start: int
    cpu_ticks: int
    rss_pages: int


class Sessions:
    """The sessions of claimed attempts and what they started, brought up to date by `update`.

    A supervisor takes in what its children leave behind, so whoever was started by a job has the
    supervisor among its ancestors for as long as it lives.
    """

    def __init__(self, site: Site) -> None:
        assert site.state is not None
        self._folder = site.state / "engine"
        self._proc = site.root / "proc"
        self._boot = text_of(site.proc("sys/kernel/random/boot_id"))
        self._claims: dict[str, Claim] = {}
        self._origin_of: dict[int, tuple[int, int]] = {}
        self._leader_of: dict[int, int] = {}
        self._sweep_due = -1.0
        self._load = kept(site.proc("loadavg"))
        self._newest = b""
        self._leaders: set[int] = set()
        self._memory = JobMemory(self._proc)
        self.pids: frozenset[int] = frozenset()

    def update(self, now: float) -> dict[Claim, Usage]:
        """The attempts that run, and what each uses."""
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
        """Whether there may be processes that were not seen yet: the kernel tells which number it
        gave last, at a tenth of what a list of all processes costs."""
        before = self._newest
        self._newest = self._load.read().rpartition(b" ")[2] if self._load is not None else b""
        return not before or self._newest != before

    def _read_claims(self) -> list[Claim]:
        """Claims that are not void, not ended and of this boot; of one supervisor the newest."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            names = []
        found: dict[str, Claim] = {}
        for name in names:
            if name.replace(".", "", 1).isdigit() and "." in name:
                claim = self._claims.get(name) or _read_claim(self._folder / name, self._boot)
                if claim is not None:
                    found[name] = claim
        self._claims = found
        by_age = sorted(found.values(), key=lambda claim: claim.begun_us)
        return list({claim.pid: claim for claim in by_age}.values())

    def _find_processes(self, now: float, leaders: set[int]) -> None:
        """Ask those not seen yet for session and parent, and find out whose they are."""
        if now >= self._sweep_due:
            self._sweep_due = now + SWEEP_S
            self._origin_of.clear()
            self._leader_of.clear()
        alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        known = self._origin_of
        for gone in known.keys() - alive:
            self._forget(gone)
        # A leader may have been seen before it became one.
        fresh = (alive - known.keys()) | (leaders & alive)
        for pid in fresh:
            stat = _read_stat(self._proc, pid)
            if stat is not None:
                known[pid] = stat.session, stat.parent
        undecided = fresh if leaders == self._leaders else known.keys()
        self._leaders = leaders
        for pid in undecided:
            self._decide(pid)

    def _decide(self, pid: int) -> int:
        """The leader of its session, or of the session of its nearest ancestor; 0 = not ours."""
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

    def _measure(self, claims: list[Claim], now: float) -> dict[Claim, Usage]:
        members: dict[int, dict[int, _Stat]] = {claim.pid: {} for claim in claims}
        started: dict[int, int] = {}
        for pid, leader in list(self._leader_of.items()):
            stat = _read_stat(self._proc, pid)
            if stat is None:
                self._forget(pid)
                continue
            if stat.session != self._origin_of[pid][0]:
                # It began a session of its own, or is another process with the same number.
                self._origin_of[pid] = stat.session, stat.parent
                leader = self._decide(pid)
                if not leader:
                    continue
            members[leader][pid] = stat
            started[pid] = stat.start
        self.pids = frozenset(started)
        self._memory.keep(members)
        return {
            claim: Usage(
                len(members[claim.pid]),
                _used_s(members[claim.pid].values()) - claim.before_s,
                self._memory.measure(claim.pid, _rss_bytes(members[claim.pid], claim.pid), now),
            )
            for claim in claims
            # Another process with the supervisor's number is not the supervisor.
            if members[claim.pid] and started.get(claim.pid, claim.start) == claim.start
        }


def _used_s(processes: Iterable[_Stat]) -> float:
    return sum(each.cpu_ticks for each in processes) / TICKS_PER_S


def _rss_bytes(processes: Mapping[int, _Stat], supervisor: int) -> dict[int, int]:
    return {
        pid: stat.rss_pages * PAGE_BYTES for pid, stat in processes.items() if pid != supervisor
    }


def _read_claim(path: Path, boot: str) -> Claim | None:
    try:
        # Without waiting: what stands here may be no file at all.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = os.read(file, 2 * FIRST_LINE)
        finally:
            os.close(file)
        values = json.loads(data[:FIRST_LINE])
        job, attempt, pid, start = (int(values[each]) for each in Claim._fields[:4])
        begun_us, before_s = int(values.get("time_us", 0)), float(values.get("cpu_s", 0.0))
        claim = Claim(job, attempt, pid, start, begun_us, before_s)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # not written yet, or never to be
    ended = data[FIRST_LINE:].strip(b" \n\0")
    if ended or claim.pid <= 0 or not math.isfinite(before_s) or values.get("boot") != boot:
        return None
    return claim


def _read_stat(proc: Path, pid: int) -> _Stat | None:
    """Parent, session, start and use of a process; its waited-for children count as its own."""
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
    # The name is in brackets and may hold anything: fields count from the last bracket.
    fields = data[data.rindex(b")") + 2 :].split(None, 22)
    if fields[0] in b"ZX":
        return None
    ticks = sum(map(int, fields[11:15]))
    return _Stat(int(fields[1]), int(fields[3]), int(fields[19]), ticks, int(fields[21]))
