"""Publishes samples: to the spools of their families, and as latest values in `latest.json`."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flyball.core.protocols import Sample
from flyball.monitor.rates import FAMILIES
from flyball.monitor.spool import Spool

LATEST = "latest.json"
FAST = "fast"
"""File by which a reader requests the fastest rates; holds the number of seconds."""
FORGET_S = 30.0
"""A value that was not sampled for this long is dropped from the latest ones. Values that a job
reported stay while the job runs: many report once an epoch, or a total only once."""
REPORTS, JOBS = "application", "jobs"
OF_THE_MOMENT = "steps_per_s"
"""A reported speed, unlike a step or a loss, expires like a sampled value."""
TOTAL, PER_S = "_total", "_per_s"
MOST_SCHEMAS = 1000
"""Maximum number of cached sets of names; jobs that come and go create new ones."""


class Outlet:
    """Collects samples; `publish`, called about once a second, writes them.

    What cannot be written is lost and counted (`lost`): monitoring continues on a full disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spools = {family: Spool(folder / family) for family in FAMILIES}
        self._last: dict[tuple[str, ...], Sample] = {}
        self._before: dict[str, tuple[float, float, float]] = {}
        self._names: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._reported: dict[str, tuple[float, dict[str, float]]] = {}
        self._unpublished = 0

    @property
    def lost(self) -> int:
        """Number of writes that failed."""
        return self._unpublished + sum(spool.lost for spool in self._spools.values())

    def add(self, family: str, sample: Sample) -> None:
        self._spools[family].add(sample)
        self._last[(sample.source, *sample.values)] = sample
        if sample.source == REPORTS:
            self._keep_reports(sample)

    def _keep_reports(self, sample: Sample) -> None:
        """Remember the last value of each field that a job reported."""
        for name, value in sample.values.items():
            job, dot, field = name.partition(".")
            if dot and job.isdecimal() and field != OF_THE_MOMENT and math.isfinite(value):
                _time_s, earlier = self._reported.get(job, (0.0, {}))
                self._reported[job] = sample.time_s, {**earlier, f"{sample.source}.{name}": value}

    def publish(self, now: float, rest: Mapping[str, Any]) -> None:
        """Flush the spools and replace `latest.json` atomically."""
        for spool in self._spools.values():
            spool.flush()
        values = self._latest(now)
        everything = {"time_s": now, "lost": self.lost, **rest, "values": values}
        try:
            self._replace(json.dumps(everything, allow_nan=False).encode())
        except OSError:
            self._unpublished += 1

    def _replace(self, data: bytes) -> None:
        temporary = self._folder / f".{LATEST}.tmp"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            complete = os.write(file, data) == len(data)
        finally:
            os.close(file)
        if not complete:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary))
        os.replace(temporary, self._folder / LATEST)

    def close(self) -> None:
        for spool in self._spools.values():
            spool.close()

    def _latest(self, now: float) -> dict[str, float]:
        self._last = {
            key: sample for key, sample in self._last.items() if sample.time_s >= now - FORGET_S
        }
        values: dict[str, float] = {}
        before: dict[str, tuple[float, float, float]] = {}
        for schema, sample in sorted(self._last.items(), key=lambda entry: entry[1].time_s):
            names = self._names.get(schema) or self._named(schema)
            for (name, per_s), value in zip(names, sample.values.values(), strict=True):
                if math.isfinite(value):
                    values[name] = value
                if per_s:
                    before[name] = total = self._rate(name, sample.time_s, value)
                    if not math.isnan(total[2]):
                        values[per_s] = total[2]
        self._before = before
        self._reported = {
            job: (time_s, reported)
            for job, (time_s, reported) in self._reported.items()
            if time_s >= now - FORGET_S or f"{JOBS}.{job}.attempt" in values
        }
        for _time_s, reported in self._reported.values():
            values.update(reported)
        return values

    def _named(self, schema: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the full names of a source's values, each with the name of its rate if a total."""
        if len(self._names) >= MOST_SCHEMAS:
            self._names.clear()
        source, *keys = schema
        self._names[schema] = names = [
            (f"{source}.{key}", f"{source}.{key.removesuffix(TOTAL)}{PER_S}" * key.endswith(TOTAL))
            for key in keys
        ]
        return names

    def _rate(self, name: str, time_s: float, value: float) -> tuple[float, float, float]:
        """Return time and value of a total, and its change per second since last published."""
        then, old, rate = self._before.get(name, (time_s, value, math.nan))
        if time_s <= then:
            return then, old, rate
        return time_s, value, max(0.0, value - old) / (time_s - then)
