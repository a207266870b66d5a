"""What `/proc` says about processes. Standard library only: supervisors use it too."""

from __future__ import annotations

import functools
import os
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat:
    """The part of `/proc/PID/stat` that matters here; `start` is in ticks since the boot."""

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
        """Ended, though perhaps nobody has asked for its exit code yet."""
        return self.state in "ZXx"


def stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    text = _text(f"/proc/{pid}/stat")
    # The program's name is in parentheses and may hold anything, parentheses too.
    return Stat(pid, text[text.rindex(")") + 2 :].split()) if text else None


@functools.cache
def boot_id() -> str:
    """Another one after each start of the machine."""
    return _text("/proc/sys/kernel/random/boot_id").strip()


def is_alive(pid: int, start: int, boot: str) -> bool:
    """Whether the very process still runs: pids are used again, start times are not."""
    if boot != boot_id():
        return False
    found = stat(pid)
    return found is not None and not found.gone and found.start == start


def pids() -> list[int]:
    """Of all processes there are."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def descendants(pid: int) -> list[int]:
    """Children, their children and so on."""
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children(ahead.pop())
        found += below
        ahead += below
    return found


def cpu_s(pid: int) -> float:
    """Processor time of a process, and of those of its children that have ended."""
    text = _text(f"/proc/{pid}/stat")
    try:
        own_s = time.clock_gettime((~pid << 3) | 2)  # its clock of processor time, exact
    except OSError:
        return 0.0
    ended = text[text.rindex(")") + 2 :].split()[13:15] if text else ()
    return own_s + sum(map(int, ended)) / TICKS_PER_S


def had_children(pid: int) -> bool:
    """Whether a process has waited for children of its own: the memory they touched is in its
    account. Also of one that has ended, until it is taken leave of."""
    text = _text(f"/proc/{pid}/stat")
    return bool(text) and any(map(int, text[text.rindex(")") + 2 :].split()[8:11:2]))


def threads(pid: int) -> list[int]:
    """Of a process; none if it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def thread_count(pid: int) -> int:
    """Threads of a process, 0 if it is gone."""
    text = _text(f"/proc/{pid}/stat")
    fields = text[text.rindex(")") + 2 :].split() if text else ["X"]
    return 0 if fields[0] in "ZXx" else int(fields[17])


def all_tasks() -> int:
    """Processes and threads of the whole machine."""
    return int(_text("/proc/loadavg").split()[3].partition("/")[2])


def rss_mib(pid: int) -> float:
    """Resident memory; pages shared with others count in full."""
    fields = _text(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE / 2**20 if fields else 0.0


def pss_mib(pid: int) -> float:
    """Resident memory, shared pages divided among those who share them; slower to find out."""
    for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def environment(pid: int) -> list[str]:
    """`NAME=value` as it was at the start of the program; empty if we may not know."""
    return _text(f"/proc/{pid}/environ").split("\0")


def has_arguments(pid: int) -> bool:
    """Whether it has a command line; the kernel's own threads have none, nor has the dead."""
    return bool(_text(f"/proc/{pid}/cmdline"))


def has_open(pid: int, paths: tuple[str, ...]) -> bool:
    """Whether the process has one of the files open, as far as we may know."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{each}") in paths for each in os.listdir(folder))
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still live."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return _children_by_parent(pid)
    texts = (_text(f"/proc/{pid}/task/{each}/children") for each in threads)
    return [int(child) for text in texts for child in text.split()]


def _children_by_parent(pid: int) -> list[int]:
    """For kernels that do not list children."""
    found = (stat(each) for each in pids())
    return [each.pid for each in found if each is not None and each.parent == pid]


def _text(path: str) -> str:
    """All of a small file; empty if it is not there or not for us."""
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
