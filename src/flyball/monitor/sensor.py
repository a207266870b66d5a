"""Shared by collectors: the machine they read, files kept open, and the null sensor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from flyball.core.protocols import Sample

PAGE = 4096


class HostPower(NamedTuple):
    """Power draw of a host without its accelerators, for hosts that do not measure it."""

    idle_w: float
    peak_w: float
    source: str


@dataclass(frozen=True)
class Site:
    """Where collectors read, and settings that they cannot read.

    Attributes:
        root: parent of `proc` and `sys`; another folder in tests.
        state: the state folder, None = no jobs and no reports.
        host_power: stated power draw of the host; None = not stated.
        ours: returns the process ids of our jobs at this moment.
        nvml: replaces the module `pynvml` in tests.
        window_s: period over which CPU use is averaged.
    """

    root: Path = Path("/")
    state: Path | None = None
    host_power: HostPower | None = None
    ours: Callable[[], frozenset[int]] = field(default=frozenset)
    nvml: Any = None
    window_s: float = 0.1

    def proc(self, name: str) -> Path:
        return self.root / "proc" / name

    def sys(self, name: str) -> Path:
        return self.root / "sys" / name


class Sensor(Protocol):
    """The interface of a collector, as the agent runs it.

    Attributes:
        family: sets its rate and the segments in which it is stored.
        least_s: shortest period between two reads, whatever the family's rate.
        blocks: it may hang in a driver, so it runs in a thread of its own.
        about: where its values come from: source, resolution, "modelled".
    """

    family: ClassVar[str]
    least_s: ClassVar[float]
    blocks: ClassVar[bool]
    about: Mapping[str, str]

    @classmethod
    def open(cls, site: Site) -> Sensor | Null: ...
    def collect(self, now: float) -> Sample: ...


class Null:
    """Stands in for a sensor that this machine does not have, with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        self.about: Mapping[str, str] = {"absent": reason}

    def collect(self, now: float) -> Sample:
        return Sample(self.name, now, {})


class KeptFile:
    """A file of /proc or /sys, opened once and read repeatedly.

    Opening costs several times as much as reading, and the kernel generates such a file again at
    each read from its start.
    """

    def __init__(self, path: Path, size: int = PAGE) -> None:
        self._size = size
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return its first bytes, at most `size`."""
        return os.pread(self._fd, self._size, 0)

    def read_all(self) -> bytes:
        """Return a whole file that the kernel returns in several reads."""
        parts, at = [], 0
        while part := os.pread(self._fd, self._size, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def number(self) -> int:
        """Return its content as an integer."""
        return int(self.read())

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def kept(path: Path, size: int = PAGE) -> KeptFile | None:
    """Return the file, or None if it does not exist or is not readable."""
    try:
        file = KeptFile(path, size)
        file.read()
    except OSError:
        return None
    return file


def pressure_s(file: KeptFile) -> float:
    """Return the seconds since boot in which a task waited for the resource (/proc/pressure)."""
    data = file.read()
    at = data.index(b"total=") + 6
    return int(data[at : data.index(b"\n", at)]) / 1e6


def text_of(path: Path, default: str = "") -> str:
    """Return the stripped text of a small file, `default` if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return default
