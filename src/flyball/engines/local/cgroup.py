"""Limits memory, processor time and processes by control group, where groups may be created.

Version 1: a child of our own group. Version 2 allows no processes in a group whose children have
controllers, so there the new group is a sibling of our own, if the parent delegates the controller
and is writable for us (as systemd's delegated slices are). Elsewhere there is no group, and the
supervisor watches the job itself. Standard library only.
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
"""Period of a quota of processor time."""
JOIN_TRIES = 20


class Place:
    """A folder in which groups can be created, and its cgroup version."""

    __slots__ = ("folder", "version")

    def __init__(self, folder: str, version: int) -> None:
        self.folder = folder
        self.version = version


class Group:
    """The memory group of one job. All methods are best effort: a failure means no group."""

    __slots__ = ("folder", "version")

    def __init__(self, place: Place, name: str) -> None:
        self.folder = os.path.join(place.folder, name)
        self.version = place.version

    def make(self, limit_mib: int) -> bool:
        """Create the group with its limit; False if that is not permitted."""
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
        """Move the calling process into the group."""
        _try_write(f"{self.folder}/cgroup.procs", "0")

    def pids(self) -> list[int]:
        """Return the processes in the group."""
        return [int(pid) for pid in _read(f"{self.folder}/cgroup.procs").split()]

    def kills(self) -> int:
        """Return how many processes were killed because the limit was reached."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        for line in _read(f"{self.folder}/{name}").splitlines():
            event, _space, value = line.partition(" ")
            if event == "oom_kill":
                return int(value)
        return 0

    def peak_mib(self) -> float:
        """Return the peak memory of the group, page cache included; 0 = not available."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        text = _read(f"{self.folder}/{name}").strip()
        return int(text) / 2**20 if text.isdecimal() else 0.0

    def take_in(self, pids: Callable[[], list[int]]) -> bool:
        """Move processes into the group; False if some could not be moved.

        Args:
            pids: called again until all of its processes are in the group, since they may fork.
        """
        for _ in range(JOIN_TRIES):
            if not (missing := set(pids()) - set(self.pids())):
                return True
            for pid in missing:
                _try_write(f"{self.folder}/cgroup.procs", str(pid))
        return False

    def remove(self) -> None:
        """Remove the group; retries, as the kernel frees it a moment after its last process."""
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
    """The group that limits a job's processor time; in version 2 also its memory group."""

    __slots__ = ()

    def keep_to(self, cores: float, pids: Callable[[], list[int]]) -> bool:
        """Limit these processes and their children to this many cores; 0 = no limit.

        Args:
            pids: as for `take_in`.

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


class PidsGroup(Group):
    """The group that limits a job's number of processes; in version 2 also its memory group."""

    __slots__ = ()

    def keep_to(self, most: int, pids: Callable[[], list[int]]) -> bool:
        """Limit the processes and threads of these processes together; False if not possible.

        Args:
            pids: as for `take_in`.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError:
            return False
        return self.allow(most) and self.take_in(pids)

    def allow(self, most: int) -> bool:
        """Set the limit of processes and threads; the kernel refuses more and ends none."""
        try:
            _write(f"{self.folder}/pids.max", str(most))
        except OSError:
            return False
        return True

    def open_events(self) -> int:
        """Open the kernel's count of refused processes; -1 = not available.

        In version 2 the descriptor polls as urgent after a refusal, until it is read.
        """
        try:
            events = os.open(f"{self.folder}/pids.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1
        self.refusals(events)  # only what follows the first read counts as an event
        return events

    def refusals(self, events: int) -> int:
        """Return how often the kernel refused a process."""
        try:
            return int(os.pread(events, 4096, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return 0


def group_name(engine_folder: int, job: int, attempt: int) -> str:
    """Return the group name of an attempt, unique by the state folder's device and inode."""
    status = os.fstat(engine_folder)
    return f"flyball-{status.st_dev:x}-{status.st_ino:x}-{job}.{attempt}"


def find_place(proc: str = "/proc/self", controller: str = "memory") -> Place | None:
    """Return where this process may create groups with a controller; None if nowhere."""
    mounts = [line.split() for line in _read(f"{proc}/mounts").splitlines()]
    ours = [line.split(":", 2) for line in _read(f"{proc}/cgroup").splitlines()]
    for _device, at, kind, options, *_rest in mounts:
        if kind == "cgroup" and controller in options.split(","):
            named = (path for _id, names, path in ours if controller in names.split(","))
            for folder in (_below(at, next(named, "/")), at):
                if os.access(folder, os.W_OK):
                    return Place(folder, 1)
        if kind == "cgroup2":
            group_path = next((path for number, _names, path in ours if number == "0"), "/")
            folder = _below(at, os.path.dirname(group_path.rstrip("/")))
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
