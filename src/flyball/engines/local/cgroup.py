"""Limits of memory, processor time and processes by control group, where one may be made.

Version 1: a group below our own. Version 2 allows no processes in a group that has groups with
controllers below it, so there the new group is made beside our own if the one above hands the
controller down and is ours to write to (as systemd's delegated slices are). Anywhere else there is
none, and the supervisor watches the job itself. Standard library only.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REMOVE_TRIES = 50
REMOVE_PAUSE_S = 0.01
PERIOD_US = 100_000
"""Over which a quota of processor time counts."""
JOIN_TRIES = 20


class Place:
    """Where groups can be made: a folder, and the version that it speaks."""

    __slots__ = ("folder", "version")

    def __init__(self, folder: str, version: int) -> None:
        self.folder = folder
        self.version = version


class Group:
    """One job's group. Everything here is best effort: what fails is as if it were not there."""

    __slots__ = ("folder", "version")

    def __init__(self, place: Place, name: str) -> None:
        self.folder = os.path.join(place.folder, name)
        self.version = place.version

    def make(self, limit_mib: int) -> bool:
        """Make it with its limit; False if that is not permitted."""
        limit = str(limit_mib * 2**20)
        try:
            os.mkdir(self.folder)
            if self.version == 1:
                _write(f"{self.folder}/memory.limit_in_bytes", limit)
                _try_write(f"{self.folder}/memory.memsw.limit_in_bytes", limit)
            else:
                _write(f"{self.folder}/memory.max", limit)
                _try_write(f"{self.folder}/memory.swap.max", "0")
                _try_write(f"{self.folder}/memory.oom.group", "1")
        except OSError:
            self.remove()
            return False
        return True

    def join(self) -> None:
        """Put the calling process into it."""
        _try_write(f"{self.folder}/cgroup.procs", "0")

    def pids(self) -> list[int]:
        """Who is in it."""
        return [int(each) for each in _read(f"{self.folder}/cgroup.procs").split()]

    def kills(self) -> int:
        """How many processes were killed because the limit was reached."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        for line in _read(f"{self.folder}/{name}").splitlines():
            word, _space, value = line.partition(" ")
            if word == "oom_kill":
                return int(value)
        return 0

    def peak_mib(self) -> float:
        """The most that was in it at one time, with the files that its processes had the kernel
        keep in memory; 0 = this kernel does not say."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        text = _read(f"{self.folder}/{name}").strip()
        return int(text) / 2**20 if text.isdecimal() else 0.0

    def take_in(self, pids: Callable[[], list[int]]) -> bool:
        """Move processes into it; False if not all of them are.

        Args:
            pids: asked until all that are there are in the group: they fork meanwhile.
        """
        for _ in range(JOIN_TRIES):
            if not (missing := set(pids()) - set(self.pids())):
                return True
            for pid in missing:
                _try_write(f"{self.folder}/cgroup.procs", str(pid))
        return False

    def remove(self) -> None:
        """A moment after its last process is gone the kernel lets go of it."""
        for _ in range(REMOVE_TRIES):
            try:
                os.rmdir(self.folder)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(REMOVE_PAUSE_S)
            else:
                return


class Quota(Group):
    """One job's group for processor time; in version 2 the group of its memory as well."""

    __slots__ = ()

    def keep_to(self, cores: float, pids: Callable[[], list[int]]) -> bool:
        """Let these processes, and what they start, use so many cores; 0 = any number.

        Args:
            pids: asked until all that are there are in the group: they fork meanwhile.

        Returns:
            False if that is not permitted here.
        """
        quota = str(max(1_000, round(cores * PERIOD_US))) if cores else ""
        try:
            os.makedirs(self.folder, exist_ok=True)
            if self.version == 1:
                _write(f"{self.folder}/cpu.cfs_period_us", str(PERIOD_US))
                _write(f"{self.folder}/cpu.cfs_quota_us", quota or "-1")
            else:
                _write(f"{self.folder}/cpu.max", f"{quota or 'max'} {PERIOD_US}")
        except OSError:
            return False
        return self.take_in(pids)


class Crowded(Group):
    """One job's group for the number of its processes; in version 2 that of its memory as well."""

    __slots__ = ()

    def keep_to(self, most: int, pids: Callable[[], list[int]]) -> bool:
        """Let these processes have so many processes and threads together; False if not possible.

        Args:
            pids: as for `take_in`.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError:
            return False
        return self.allow(most) and self.take_in(pids)

    def allow(self, most: int) -> bool:
        """Set how many processes and threads there may be; more are refused, none is ended."""
        try:
            _write(f"{self.folder}/pids.max", str(most))
        except OSError:
            return False
        return True

    def open_events(self) -> int:
        """The count of refused processes as a descriptor, -1 = this kernel has none.

        In version 2 it polls as urgent after a refusal, until it is read.
        """
        try:
            events = os.open(f"{self.folder}/pids.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1
        self.refusals(events)  # only what comes after the first reading is news
        return events

    def refusals(self, events: int) -> int:
        """How often the kernel refused a process."""
        try:
            return int(os.pread(events, 4096, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return 0


def group_name(engine_folder: int, job: int, attempt: int) -> str:
    """One name per attempt and state folder; the folder is known by where it lies on disk."""
    found = os.fstat(engine_folder)
    return f"flyball-{found.st_dev:x}-{found.st_ino:x}-{job}.{attempt}"


def find_place(proc: str = "/proc/self", controller: str = "memory") -> Place | None:
    """Where this process may make groups that limit memory (or `cpu`), None if nowhere."""
    mounts = [line.split() for line in _read(f"{proc}/mounts").splitlines()]
    ours = [line.split(":", 2) for line in _read(f"{proc}/cgroup").splitlines()]
    for _device, at, kind, options, *_rest in mounts:
        if kind == "cgroup" and controller in options.split(","):
            own = next((path for _id, names, path in ours if controller in names.split(",")), "/")
            for folder in (_below(at, own), at):
                if os.access(folder, os.W_OK):
                    return Place(folder, 1)
        if kind == "cgroup2":
            own = next((path for number, _names, path in ours if number == "0"), "/")
            folder = _below(at, os.path.dirname(own.rstrip("/")))
            handed_down = _read(f"{folder}/cgroup.subtree_control").split()
            if controller in handed_down and os.access(f"{folder}/cgroup.procs", os.W_OK):
                return Place(folder, 2)
    return None


def _below(at: str, path: str) -> str:
    return os.path.join(at, path.lstrip("/")).rstrip("/")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _try_write(path: str, text: str) -> None:
    try:
        _write(path, text)
    except OSError:
        return
