"""Reads about processes from `/proc`. Standard library only: supervisors use it too."""

from __future__ import annotations

import functools
import os
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat:
    """The fields of `/proc/PID/stat` that are needed; `start` is in ticks since boot."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, fields: list[str]) -> None:
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])

    @property
    def gone(self) -> bool:
        """Whether it has ended, even if it was not reaped yet."""
        return self.state in "ZXx"


def stat(pid: int) -> Stat | None:
    """Return the state of a process; None if there is no such process."""
    text = _text(f"/proc/{pid}/stat")
    # The program's name is in parentheses and may hold anything, parentheses too.
    return Stat(pid, text[text.rindex(")") + 2 :].split()) if text else None


@functools.cache
def boot_id() -> str:
    """Return an id that changes with each boot of the machine."""
    return _text("/proc/sys/kernel/random/boot_id").strip()


def is_alive(pid: int, start: int, boot: str) -> bool:
    """Return whether this very process still runs: pids are reused, with another start time."""
    if boot != boot_id():
        return False
    process = stat(pid)
    return process is not None and not process.gone and process.start == start


def pids() -> list[int]:
    """Return the pids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children and so on."""
    tree: list[int] = []
    pending = [pid]
    while pending:
        started = children(pending.pop())
        tree += started
        pending += started
    return tree


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    text = _text(f"/proc/{pid}/stat")
    try:
        self_s = time.clock_gettime((~pid << 3) | 2)  # its clock of processor time, exact
    except OSError:
        return 0.0
    ended = text[text.rindex(")") + 2 :].split()[13:15] if text else ()
    return self_s + sum(map(int, ended)) / TICKS_PER_S


def had_children(pid: int) -> bool:
    """Return whether a process has reaped children, whose page faults count as its own.

    Also works for a process that has ended, until it is reaped.
    """
    text = _text(f"/proc/{pid}/stat")
    return bool(text) and any(map(int, text[text.rindex(")") + 2 :].split()[8:11:2]))


def threads(pid: int) -> list[int]:
    """Return the thread ids of a process; none if it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def thread_count(pid: int) -> int:
    """Return the number of threads of a process, 0 if it is gone."""
    text = _text(f"/proc/{pid}/stat")
    fields = text[text.rindex(")") + 2 :].split() if text else ["X"]
    return 0 if fields[0] in "ZXx" else int(fields[17])


def all_tasks() -> int:
    """Return the number of processes and threads of the whole machine."""
    return int(_text("/proc/loadavg").split()[3].partition("/")[2])


def rss_mib(pid: int) -> float:
    """Return the resident memory; shared pages count in full."""
    fields = _text(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE / 2**20 if fields else 0.0


def pss_mib(pid: int) -> float:
    """Return the resident memory, with shared pages divided by their users; slower to read."""
    for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def environment(pid: int) -> list[str]:
    """Return `NAME=value` pairs as of the program's start; `[""]` if we may not read them."""
    return _text(f"/proc/{pid}/environ").split("\0")


def has_arguments(pid: int) -> bool:
    """Return whether a process has a command line; kernel threads and zombies have none."""
    return bool(_text(f"/proc/{pid}/cmdline"))


def has_open(pid: int, paths: tuple[str, ...]) -> bool:
    """Return whether the process has one of the files open, as far as we may read that."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}") in paths for name in os.listdir(folder))
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the live children of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return _children_by_parent(pid)
    texts = (_text(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for text in texts for child in text.split()]


def _children_by_parent(pid: int) -> list[int]:
    """Find children by their parent, for kernels that do not list them."""
    processes = (stat(process) for process in pids())
    return [process.pid for process in processes if process is not None and process.parent == pid]


def _text(path: str) -> str:
    """Return a small file's content; empty if it does not exist or is not readable."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    parts = []
    try:
        while part := os.read(file, 65536):
            parts.append(part)
    except OSError:  # the process ended meanwhile
        return ""
    finally:
        os.close(file)
    return b"".join(parts).decode(errors="replace")
