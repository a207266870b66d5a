"""Reads, writes and use of each disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import KeptFile, Null, Site, kept, pressure_s

SECTOR_BYTES = 512
"""Unit of /proc/diskstats, whatever the disk's sector size."""
SIZE = 1 << 16


class Disk:
    """Totals since boot of whole disks with any traffic: `vda.read_bytes_total`, ...

    `busy_s_total` is the time in which at least one request was in flight; its rate is the
    utilisation. Partitions and devices on top of other disks (`dm-`, `md`, `loop`) are left out
    of the sums `read_bytes_total` and `written_bytes_total`, or they would count twice.
    """

    family: ClassVar[str] = "network"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = True

    def __init__(self, file: KeptFile, disks: set[bytes], pressure: KeptFile | None) -> None:
        self._file, self._disks, self._pressure = file, disks, pressure
        self.about: Mapping[str, str] = {
            "source": "/proc/diskstats",
            "resolution": "1 sector (512 bytes), busy time 1 ms",
        }

    @classmethod
    def open(cls, site: Site) -> Disk | Null:
        file = kept(site.proc("diskstats"), SIZE)
        if file is None:
            return Null("disk", f"no {site.proc('diskstats')}: not a Linux machine")
        blocks = site.sys("block")
        disks = {path.name.encode() for path in blocks.iterdir()} if blocks.is_dir() else set()
        if not disks:
            return Null("disk", f"no disk in {blocks}")
        return cls(file, disks, kept(site.proc("pressure/io")))

    def collect(self, now: float) -> Sample:
        values: dict[str, float] = {"read_bytes_total": 0, "written_bytes_total": 0}
        for line in self._file.read_all().split(b"\n"):
            fields = line.split(None, 13)
            if len(fields) < 13 or fields[2] not in self._disks:
                continue
            if fields[3] == b"0" and fields[7] == b"0":
                continue
            name = fields[2].decode(errors="replace").replace("!", "/")
            read, written = int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES
            values[f"{name}.reads_total"] = int(fields[3])
            values[f"{name}.read_bytes_total"] = read
            values[f"{name}.writes_total"] = int(fields[7])
            values[f"{name}.written_bytes_total"] = written
            values[f"{name}.busy_s_total"] = int(fields[12]) / 1e3
            if not name.startswith(("dm-", "md", "loop", "zram")):
                values["read_bytes_total"] += read
                values["written_bytes_total"] += written
        if self._pressure is not None:
            values["stalled_s_total"] = pressure_s(self._pressure)
        return Sample("disk", now, values)
