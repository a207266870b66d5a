"""Maintains the telemetry folder: converts spools, merges minutes to hours, removes old files.

The agent starts this as a short-lived process every few minutes, so that pyarrow's memory is
used only for that time:

    python -m flyball.monitor.store FOLDER --before SECOND
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flyball.core.errors import BadInput
from flyball.monitor import segments
from flyball.monitor.keep import Keep
from flyball.monitor.rates import FAMILIES
from flyball.monitor.spool import SUFFIX, read_spool, spans

MINUTE = ".parquet"
HOUR = ".hour.parquet"
HOUR_S = 3600
DAY_S = 86_400
MIB = 1 << 20
ASIDE = ".live.bad"
"""Suffix of spools that could not be converted `MOST_TRIES` times; they expire like the others."""
MOST_TRIES = 3
TRIES = "store.tries"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
MOST_MESSAGES = 5
"""Maximum number of failures that are printed; the rest are only counted."""


@dataclass
class StoreResult:
    """Counts the files that were handled, and the bytes that are left."""

    written: int = 0
    compacted: int = 0
    removed: int = 0
    damaged: int = 0
    size_bytes: int = 0
    failures: int = 0
    messages: list[str] = field(default_factory=list)

    def add_failure(self, path: Path, error: Exception) -> None:
        """Count a failure, and keep the messages of the first few."""
        self.failures += 1
        if len(self.messages) < MOST_MESSAGES:
            self.messages.append(f"{path}: {type(error).__name__}: {error}")


def tidy(folder: Path, before_s: float, keep: Keep = Keep()) -> StoreResult:  # noqa: B008 (it is frozen)
    """Convert every spool that starts before `before_s`, compact full hours, remove the oldest.

    A file that cannot be read is left in place, counted, and expires like the others; so does a
    spool that cannot be converted, which is renamed after some tries. Only files beyond the limits
    are removed, and that first: on a full disk it makes room for the rest.
    """
    done = StoreResult()
    tries = _read_tries(folder)
    _drop_half_written(folder)
    _retain(folder, before_s, keep, done)
    for family in FAMILIES:
        _convert(folder / family, before_s, tries, done)
        if math.isfinite(before_s):
            _compact(folder / family, before_s, done)
    _retain(folder, before_s, keep, done)
    _write_tries(folder, tries)
    return done


def _drop_half_written(folder: Path) -> None:
    """Remove the temporary files of a store that was killed: we hold its lock now."""
    for family in FAMILIES:
        for path in (folder / family).glob(".*.tmp"):
            path.unlink(missing_ok=True)


def _convert(folder: Path, before_s: float, tries: dict[str, int], done: StoreResult) -> None:
    for start_s, path in spans(folder, SUFFIX).items():
        if start_s >= before_s:
            continue
        try:
            _convert_one(path, start_s, done)
        except Exception as error:
            done.add_failure(path, error)
            if getattr(error, "errno", None) in NO_ROOM:
                return  # not the spool's fault; those after it would fail, too
            _count_try(path, tries)


def _convert_one(path: Path, start_s: int, done: StoreResult) -> None:
    damage: list[Path] = []
    segment = segments.gather(read_spool(path, damage), start_s)
    if len(segment.times_s):
        segments.write(path.with_name(f"{start_s}{MINUTE}"), segment)
        done.written += 1
    path.unlink()
    done.damaged += len(damage)


def _count_try(path: Path, tries: dict[str, int]) -> None:
    name = f"{path.parent.name}/{path.name}"
    tries[name] = tries.get(name, 0) + 1
    if tries[name] >= MOST_TRIES:
        del tries[name]
        path.rename(path.with_name(path.name.removesuffix(SUFFIX) + ASIDE))


def _read_tries(folder: Path) -> dict[str, int]:
    """Return how often the remaining spools could not be converted."""
    try:
        tries = json.loads((folder / TRIES).read_bytes())
        return {name: int(tries[name]) for name in tries if (folder / name).exists()}
    except (OSError, ValueError, TypeError):
        return {}


def _write_tries(folder: Path, tries: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # on a full disk the count starts again
        if tries:
            (folder / TRIES).write_text(json.dumps(tries))
        else:
            (folder / TRIES).unlink(missing_ok=True)


def _compact(folder: Path, before_s: float, done: StoreResult) -> None:
    """Merge the minutes of each full hour into one file."""
    hours: dict[int, list[int]] = {}
    minutes = spans(folder, MINUTE)
    for start_s in minutes:
        hours.setdefault(start_s // HOUR_S * HOUR_S, []).append(start_s)
    for hour_s, starts in hours.items():
        if hour_s + HOUR_S > before_s:
            continue
        target = folder / f"{hour_s}{HOUR}"
        try:
            _compact_hour(target, {start_s: minutes[start_s] for start_s in starts}, done)
        except Exception as error:
            done.add_failure(target, error)


def _compact_hour(target: Path, minutes: Mapping[int, Path], done: StoreResult) -> None:
    """Add these minutes to the hour's file; those that cannot be read are left in place."""
    hour = _read(target, done) if target.exists() else None
    read = {start_s: _read(path, done) for start_s, path in minutes.items()}
    readable = {start_s: minute for start_s, minute in read.items() if minute is not None}
    covered = set(hour.spans) if hour else set()
    fresh = [minute for start_s, minute in readable.items() if start_s not in covered]
    if fresh:
        segments.write(target, segments.merge([hour, *fresh] if hour else fresh))
        done.compacted += 1
    for start_s in readable:
        minutes[start_s].unlink()


def _read(path: Path, done: StoreResult) -> segments.Segment | None:
    try:
        return segments.read(path)
    except ValueError:
        done.damaged += 1
        return None


def _retain(folder: Path, now_s: float, keep: Keep, done: StoreResult) -> None:
    """Remove files beyond the age or size limits; the spool being written counts but stays."""
    files = sorted(_all_files(folder, (MINUTE, HOUR, SUFFIX, ASIDE)))
    total = sum(size for _, _, size in files)
    for start_s, path, size in files:
        too_old = math.isfinite(now_s) and start_s < now_s - keep.days * DAY_S
        in_use = path.suffix == SUFFIX and start_s >= now_s
        if in_use or (not too_old and total <= keep.mib * MIB):
            continue
        path.unlink()
        total -= size
        done.removed += 1
    done.size_bytes = total


def _all_files(
    folder: Path, suffixes: Sequence[str] = (MINUTE, HOUR)
) -> Iterable[tuple[int, Path, int]]:
    for family in FAMILIES:
        for suffix in suffixes:
            for start_s, path in spans(folder / family, suffix).items():
                yield start_s, path, path.stat().st_size


def size_by_family(folder: Path) -> dict[str, int]:
    """Return the bytes of finished segments by family."""
    sizes = dict.fromkeys(FAMILIES, 0)
    for _, path, size in _all_files(folder):
        sizes[path.parent.name] += size
    return sizes


def main(arguments: list[str] | None = None) -> int:
    """Run the store process; returns its exit code."""
    parser = argparse.ArgumentParser(prog="flyball.monitor.store", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", type=float, default=math.inf)
    parser.add_argument("--keep-days", type=float, default=Keep.days)
    parser.add_argument("--keep-mib", type=float, default=Keep.mib)
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        error = BadInput(f"no folder {options.folder}", "name the telemetry folder")
        sys.stderr.write(f"{error}\n")
        return 2
    os.nice(10)
    with (options.folder / "store.lock").open("w") as held:
        # A store that a previous agent started may still be running.
        fcntl.flock(held, fcntl.LOCK_EX)
        done = tidy(options.folder, options.before, Keep(options.keep_days, options.keep_mib))
    for message in done.messages:
        sys.stderr.write(f"flyball.monitor.store: {message}\n")
    if done.failures > len(done.messages):
        sys.stderr.write(f"flyball.monitor.store: {done.failures} failures in all\n")
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(main())
