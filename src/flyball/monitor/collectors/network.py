"""Traffic of each interface and the states of TCP connections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import KeptFile, Null, Site, kept

STATES_S = 15.0
"""How often connections are counted: the kernel walks its whole table, which takes 0.7 ms on a
small machine with one connection, and once more for IPv6."""
MOST_INTERFACES = 32
"""Maximum number of interfaces; only the busiest are kept."""
SIZE = 1 << 16
STATES = (
    *("established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait", "close"),
    *("close_wait", "last_ack", "listen", "closing"),
)
"""TCP states in the kernel's order, from 1 (`net/tcp_states.h`)."""
STATE = re.compile(rb"^ *\d+: \S+ \S+ ([0-9A-F]{2}) ", re.MULTILINE)
SOCKETS = re.compile(rb"^TCP: inuse (\d+) orphan (\d+) tw (\d+)", re.MULTILINE)
FIELDS = {
    "rx_bytes_total": 0,
    "rx_packets_total": 1,
    "rx_errors_total": 2,
    "rx_dropped_total": 3,
    "tx_bytes_total": 8,
    "tx_packets_total": 9,
    "tx_errors_total": 10,
    "tx_dropped_total": 11,
}


class Network:
    """Totals since boot: `eth0.rx_bytes_total` and so on; interfaces without traffic are left out.

    `rx_bytes_total` and `tx_bytes_total` without an interface are sums over all but loopback.
    """

    family: ClassVar[str] = "network"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False

    def __init__(self, devices: KeptFile, sockets: KeptFile | None, tables: list[KeptFile]) -> None:
        self._devices, self._sockets, self._tables = devices, sockets, tables
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._states_due = -1.0
        self.about: Mapping[str, str] = {
            "source": "/proc/net/dev, sockstat, tcp, tcp6",
            "resolution": f"1 byte; connection states every {STATES_S:g} s",
        }

    @classmethod
    def open(cls, site: Site) -> Network | Null:
        devices = kept(site.proc("net/dev"), SIZE)
        if devices is None:
            return Null("network", f"no {site.proc('net/dev')}: not a Linux machine")
        tables = [kept(site.proc(f"net/{name}"), SIZE) for name in ("tcp", "tcp6")]
        sockets = kept(site.proc("net/sockstat"))
        return cls(devices, sockets, [table for table in tables if table is not None])

    def collect(self, now: float) -> Sample:
        values = self._traffic()
        match = SOCKETS.search(self._sockets.read()) if self._sockets else None
        if match:
            inuse, orphan, waiting = map(int, match.groups())
            values.update(tcp_sockets=inuse, tcp_orphans=orphan, tcp_time_wait=waiting)
        if now >= self._states_due:
            self._states_due = now + 0.9 * STATES_S
            values.update(self._states())
        return Sample("network", now, values)

    def _traffic(self) -> dict[str, float]:
        rows: list[tuple[bytes, list[bytes]]] = []
        for line in self._devices.read_all().split(b"\n")[2:]:
            name, mark, rest = line.partition(b":")
            fields = rest.split()
            if mark and (fields[0] != b"0" or fields[8] != b"0"):
                rows.append((name, fields))
        if len(rows) > MOST_INTERFACES:
            rows.sort(key=lambda row: -int(row[1][0]) - int(row[1][8]))
            del rows[MOST_INTERFACES:]
        values: dict[str, float] = {"rx_bytes_total": 0, "tx_bytes_total": 0}
        for name, fields in rows:
            names = self._names.get(name) or self._named(name)
            for key, index in zip(names, FIELDS.values(), strict=True):
                values[key] = int(fields[index])
            if names[0] != "lo.rx_bytes_total":
                values["rx_bytes_total"] += values[names[0]]
                values["tx_bytes_total"] += values[names[4]]
        return values

    def _named(self, name: bytes) -> tuple[str, ...]:
        text = name.strip().decode(errors="replace")
        names = self._names[name] = tuple(f"{text}.{field}" for field in FIELDS)
        return names

    def _states(self) -> dict[str, float]:
        counts: Counter[bytes] = Counter()
        for table in self._tables:
            counts.update(STATE.findall(table.read_all()))
        return {
            f"tcp_{state}": float(counts.get(b"%02X" % number, 0))
            for number, state in enumerate(STATES, start=1)
            if state != "time_wait"  # read from sockstat each time
        }
