"""What collectors share: where they look, files kept open, and the sensor that is not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from flyball.core.protocols import Sample

PAGE = 4096


class HostPower(NamedTuple):
    """Draw of a host without its accelerators, for where it cannot be measured."""

    idle_w: float
    peak_w: float
    source: str


@dataclass(frozen=True)
class Site:
    """Where to look, and what cannot be found out by looking.

    Attributes:
        root: above `proc` and `sys`; another folder in tests.
        state: the state folder, None = no jobs and no reports.
        host_power: draw of the host, if somebody states it.
        ours: process ids of our jobs at this moment.
        nvml: stands for the module `pynvml` in tests.
        window_s: over which CPU use is averaged.
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
    """A collector as the agent runs it.

    Attributes:
        family: whose rate it follows and in whose segments it is kept.
        least_s: it is not read more often than this, whatever the family's rate.
        blocks: it may hang in a driver, so it runs in a thread of its own.
        about: how its values were come by: source, resolution, "modelled".
    """

    family: ClassVar[str]
    least_s: ClassVar[float]
    blocks: ClassVar[bool]
    about: Mapping[str, str]

    @classmethod
    def open(cls, site: Site) -> Sensor | Null: ...
    def collect(self, now: float) -> Sample: ...


class Null:
    """A sensor that this machine does not have. It sees nothing and says why."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        self.about: Mapping[str, str] = {"absent": reason}

    def collect(self, now: float) -> Sample:
        return Sample(self.name, now, {})


class KeptFile:
    """A file of /proc or /sys, opened once and read anew each time.

    Opening costs several times what reading does, and the kernel writes such a file afresh at
    each read from its beginning.
    """

    def __init__(self, path: Path, size: int = PAGE) -> None:
        self._size = size
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Its beginning, at most `size` bytes."""
        return os.pread(self._fd, self._size, 0)

    def read_all(self) -> bytes:
        """All of a file that is given out in pieces, one record after the other."""
        parts, at = [], 0
        while part := os.pread(self._fd, self._size, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def number(self) -> int:
        """Its only content."""
        return int(self.read())

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def kept(path: Path, size: int = PAGE) -> KeptFile | None:
    """The file, or None where this kernel does not have it or does not show it to us."""
    try:
        found = KeptFile(path, size)
        found.read()
    except OSError:
        return None
    return found


def pressure_s(file: KeptFile) -> float:
    """Seconds since boot in which some task waited for the resource (`/proc/pressure/*`)."""
    data = file.read()
    at = data.index(b"total=") + 6
    return int(data[at : data.index(b"\n", at)]) / 1e6


def text_of(path: Path, default: str = "") -> str:
    """A small file's only line, `default` if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return default
