"""Keeping house in the telemetry folder: spools to segments, minutes to hours, old ones away.

The agent starts this as a short-lived process every few minutes, so that pyarrow's memory is
taken only while it is used:

    python -m flyball.monitor.store FOLDER --before SECOND
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flyball.core.errors import BadInput
from flyball.monitor import segments
from flyball.monitor.rates import FAMILIES
from flyball.monitor.spool import SUFFIX, read_spool, spans

MINUTE = ".parquet"
HOUR = ".hour.parquet"
HOUR_S = 3600
DAY_S = 86_400
MIB = 1 << 20


@dataclass(frozen=True)
class Keep:
    """How much is kept: what is older, or beyond the size, goes; the oldest first."""

    days: float = 7.0
    mib: float = 512.0


@dataclass
class Done:
    """What was done, in files, and the bytes that are left."""

    written: int = 0
    compacted: int = 0
    removed: int = 0
    damaged: int = 0
    size_bytes: int = 0


def tidy(folder: Path, before_s: float, keep: Keep = Keep()) -> Done:  # noqa: B008 (it is frozen)
    """Convert every spool that begins before `before_s`, compact full hours, drop the oldest.

    A file that cannot be read is left where it is, counted, and ages away with the others.
    """
    done = Done()
    for family in FAMILIES:
        _convert(folder / family, before_s, done)
        if math.isfinite(before_s):
            _compact(folder / family, before_s, done)
    _retain(folder, before_s, keep, done)
    return done


def _convert(folder: Path, before_s: float, done: Done) -> None:
    for start_s, path in spans(folder, SUFFIX).items():
        if start_s >= before_s:
            continue
        damage: list[Path] = []
        segment = segments.gather(read_spool(path, damage), start_s)
        done.damaged += len(damage)
        if len(segment.times_s):
            segments.write(folder / f"{start_s}{MINUTE}", segment)
            done.written += 1
        path.unlink()


def _compact(folder: Path, before_s: float, done: Done) -> None:
    """Minutes of hours that are over become one file each."""
    hours: dict[int, list[int]] = {}
    minutes = spans(folder, MINUTE)
    for start_s in minutes:
        hours.setdefault(start_s // HOUR_S * HOUR_S, []).append(start_s)
    for hour_s, starts in hours.items():
        if hour_s + HOUR_S > before_s:
            continue
        _compact_hour(folder / f"{hour_s}{HOUR}", {each: minutes[each] for each in starts}, done)


def _compact_hour(target: Path, minutes: Mapping[int, Path], done: Done) -> None:
    """Add these minutes to the hour's file; what cannot be read is left where it is."""
    hour = _read(target, done) if target.exists() else None
    read = {start_s: _read(path, done) for start_s, path in minutes.items()}
    whole = {start_s: each for start_s, each in read.items() if each is not None}
    covered = set(hour.spans) if hour else set()
    fresh = [each for start_s, each in whole.items() if start_s not in covered]
    if fresh:
        segments.write(target, segments.merge([hour, *fresh] if hour else fresh))
        done.compacted += 1
    for start_s in whole:
        minutes[start_s].unlink()


def _read(path: Path, done: Done) -> segments.Segment | None:
    try:
        return segments.read(path)
    except ValueError:
        done.damaged += 1
        return None


def _retain(folder: Path, now_s: float, keep: Keep, done: Done) -> None:
    found = sorted(_all_files(folder))
    total = sum(size for _, _, size in found)
    for start_s, path, size in found:
        too_old = math.isfinite(now_s) and start_s < now_s - keep.days * DAY_S
        if not too_old and total <= keep.mib * MIB:
            continue
        path.unlink()
        total -= size
        done.removed += 1
    done.size_bytes = total


def _all_files(folder: Path) -> Iterable[tuple[int, Path, int]]:
    for family in FAMILIES:
        for suffix in (MINUTE, HOUR):
            for start_s, path in spans(folder / family, suffix).items():
                yield start_s, path, path.stat().st_size


def size_by_family(folder: Path) -> dict[str, int]:
    """Bytes of finished segments by family."""
    sizes = dict.fromkeys(FAMILIES, 0)
    for _, path, size in _all_files(folder):
        sizes[path.parent.name] += size
    return sizes


def main(arguments: list[str] | None = None) -> int:
    """The short-lived process."""
    parser = argparse.ArgumentParser(prog="flyball.monitor.store", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", type=float, default=math.inf)
    parser.add_argument("--keep-days", type=float, default=Keep.days)
    parser.add_argument("--keep-mib", type=float, default=Keep.mib)
    chosen = parser.parse_args(arguments)
    if not chosen.folder.is_dir():
        sys.stderr.write(f"{BadInput(f'no folder {chosen.folder}', 'name the telemetry folder')}\n")
        return 2
    os.nice(10)
    with (chosen.folder / "store.lock").open("w") as held:
        # One that an agent before this one left may still be at work.
        fcntl.flock(held, fcntl.LOCK_EX)
        tidy(chosen.folder, chosen.before, Keep(chosen.keep_days, chosen.keep_mib))
    return 0


if __name__ == "__main__":
    sys.exit(main())
