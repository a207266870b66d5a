"""Spools: the samples of the current minute, appended as they come and readable at once.

The agent appends about once a second, so a crash loses no more than that; `store` converts a
finished spool to a Parquet segment. A record is a head (kind, schema, length) and its payload: kind
S names the values of a schema, kind R is a row of it, time first. A truncated tail is detected by
its length.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flyball.core.protocols import Sample

HEAD = struct.Struct("<cHI")
SUFFIX = ".live"
SEGMENT_S = 60
LONGEST = 1 << 24
"""Maximum length of a record: a larger one means that the file is damaged."""


class Row(NamedTuple):
    """One sample: full names (`source.name`) and their values."""

    time_s: float
    names: tuple[str, ...]
    values: tuple[float, ...]


class Spool:
    """Appends samples of one family; starts a new file at each full minute.

    Attributes:
        lost: how often samples could not be written: a full disk, a missing folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._pending = bytearray()
        self._schemas: dict[tuple[str, ...], tuple[int, struct.Struct]] = {}
        self._size = 0
        self._end_s = 0.0
        self.lost = 0

    def add(self, sample: Sample) -> None:
        """Buffer a sample; it is written by the next `flush`."""
        values = sample.values
        if not values:
            return
        if sample.time_s >= self._end_s:
            try:
                self._begin(sample.time_s)
            except OSError:
                self.lost += 1
                return
        key = (sample.source, *values)
        number, packer = self._schemas.get(key) or self._declare(key)
        size = packer.size - HEAD.size
        self._pending += packer.pack(b"R", number, size, sample.time_s, *values.values())

    def flush(self) -> None:
        """Write the buffered samples; on a full disk they are lost, and counted."""
        if not self._pending or self._file < 0:
            return
        try:
            written = os.write(self._file, self._pending)
        except OSError:
            written = -1
        if written == len(self._pending):
            self._size += written
        else:
            # Half a record would corrupt those after it, and lost records may include schemas.
            os.ftruncate(self._file, self._size)
            self._schemas.clear()
            self.lost += 1
        self._pending.clear()

    def close(self) -> None:
        """Flush and close the file, which the store may convert now."""
        self.flush()
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._end_s = 0.0

    def _begin(self, time_s: float) -> None:
        self.close()
        self._schemas.clear()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        start_s = int(time_s)
        # A second agent within the same minute starts its own file.
        while (self._folder / f"{start_s}.parquet").exists() or not self._open(start_s):
            start_s += 1
        self._size = 0
        self._end_s = (int(time_s) // SEGMENT_S + 1) * SEGMENT_S

    def _open(self, start_s: int) -> bool:
        path = self._folder / f"{start_s}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except FileExistsError:
            return False
        return True

    def _declare(self, key: tuple[str, ...]) -> tuple[int, struct.Struct]:
        schema = len(self._schemas), struct.Struct(f"{HEAD.format}{len(key)}d")
        self._schemas[key] = schema
        source, *names = key
        payload = json.dumps([f"{source}.{name}" for name in names]).encode()
        self._pending += HEAD.pack(b"S", schema[0], len(payload)) + payload
        return schema


def read_spool(path: Path, damage: list[Path] | None = None) -> Iterator[Row]:
    """Yield the rows of a spool up to its first damage; a damaged file is added to `damage`."""
    data = path.read_bytes()
    schemas: dict[int, tuple[tuple[str, ...], struct.Struct]] = {}
    at = 0
    while at + HEAD.size <= len(data):
        kind, number, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        if kind not in b"SR" or size > LONGEST:
            break
        if at + size > len(data):
            return  # being written, or truncated by a crash: the rows before it are good
        if kind == b"S":
            names = _names(data[at : at + size])
            schemas[number] = names, struct.Struct(f"<{len(names) + 1}d")
        elif number not in schemas or schemas[number][1].size != size:
            break
        else:
            names, packer = schemas[number]
            time_s, *values = packer.unpack_from(data, at)
            yield Row(time_s, names, tuple(values))
        at += size
    else:
        return
    if damage is not None:
        damage.append(path)


def _names(payload: bytes) -> tuple[str, ...]:
    try:
        return tuple(map(str, json.loads(payload)))
    except ValueError:
        return ()


def spans(folder: Path, suffix: str) -> Mapping[int, Path]:
    """Return the files of a family with this suffix, by the second at which they start."""
    paths = {}
    for path in folder.glob(f"*{suffix}"):
        stem = path.name.removesuffix(suffix)
        if stem.isdigit():
            paths[int(stem)] = path
    return dict(sorted(paths.items()))
