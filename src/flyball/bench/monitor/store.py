"""Measures the cost of turning an hour's samples into segments, by doing it once.

A minute that an agent recorded is repeated for an hour, and the housekeeping processes of that hour
are run: one that converts and compacts all of it, and, for the other starts within an hour, one
that finds a single minute.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path

from flyball.core.protocols import Sample
from flyball.monitor.agent import STORE_S
from flyball.monitor.rates import FAMILIES
from flyball.monitor.spool import SUFFIX, Row, Spool, read_spool, spans
from flyball.monitor.store import HOUR_S


def storing_share(recorded: Path, work: Path) -> float:
    """Return the CPU time of storing as a share of one core.

    Args:
        recorded: a telemetry folder with spools that are not stored yet.
        work: an empty folder.
    """
    hour_cpu_s = _cpu_s(_repeated(recorded, work / "hour", HOUR_S), 2.0 * HOUR_S)
    start_cpu_s = _cpu_s(_repeated(recorded, work / "minute", 60.0), math.inf)
    return (hour_cpu_s + (HOUR_S / STORE_S - 1.0) * start_cpu_s) / HOUR_S


def _repeated(recorded: Path, target: Path, seconds: float) -> Path:
    """Write spools of the first `seconds` of an hour by repeating the record."""
    families = {family: _rows(recorded / family) for family in FAMILIES}
    times = [row.time_s for rows in families.values() for row in rows]
    begin_s = min(times)
    span_s = max(times) - begin_s + 1.0
    for family, rows in families.items():
        spool = Spool(target / family)
        for turn in range(math.ceil(seconds / span_s)):
            shift_s = turn * span_s - begin_s
            for row in rows:
                if row.time_s + shift_s < seconds:
                    spool.add(_sample(row, row.time_s + shift_s))
            spool.flush()
        spool.close()
    return target


def _rows(folder: Path) -> list[Row]:
    return [row for path in spans(folder, SUFFIX).values() for row in read_spool(path)]


def _sample(row: Row, time_s: float) -> Sample:
    source = row.names[0].partition(".")[0]
    names = [name.removeprefix(f"{source}.") for name in row.names]
    return Sample(source, time_s, dict(zip(names, row.values, strict=True)))


def _cpu_s(folder: Path, before_s: float) -> float:
    """Return the CPU time of one round of housekeeping."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "flyball.monitor.store", str(folder)]
    subprocess.run([*command, "--before", str(before_s)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
