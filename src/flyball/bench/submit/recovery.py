"""Measures the time from a start to the first decision, with a long history in the journal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from flyball.bench.submit.rows import Row, SubmitSetting, at_most
from flyball.bench.submit.server import START_S, started, state_folder, wait_until
from flyball.control.jobs.live_state import LiveState
from flyball.control.journal.history import History
from flyball.control.journal.store import Changes, Journal
from flyball.control.plane import JOURNAL, Plane
from flyball.core.clock import LiveClock
from flyball.core.events import Ended, Event, Intended, Started, Submitted
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine
from flyball.twin.live import warm

BATCH = 1_000
PENDING = 10
REPEATS = 3
BAR_S = 5.0
RUN_US = 60 * US_PER_S
SPEC = {"argv": ["true"], "name": "train", "cwd": "/", "user": "anna", "limit_s": 3600.0}


def recovery(setting: SubmitSetting) -> list[Row]:
    """From opening the journal, and from starting the process, to the first decision on record."""
    count = setting.size(100_000, 2_000)
    warm(setting.note)
    with state_folder(setting.folder) as base:
        setting.note(f"  writing a history of {count:,} jobs")
        write_history(base / JOURNAL, count)
        size_mb = (base / JOURNAL).stat().st_size / 1e6
        opened = np.median([time_opening(setting, base) for _ in range(REPEATS)], axis=0)
        up = np.median([time_up(setting, base) for _ in range(REPEATS)], axis=0)
    setting.note(f"  {opened[0]:.2f} s from opening, {up[0]:.2f} s from the start of the process")
    about = f"{count:,} ended jobs, journal of {size_mb:.0f} MB; median of {REPEATS}"
    return [
        at_most(
            f"first decision after {name}", float(times[0]), "s", BAR_S, about=about,
            cpu_s=float(times[1]),
        )
        for name, times in (("opening the plane", opened), ("starting `flyball up`", up))
    ]  # fmt: skip


def write_history(path: Path, count: int) -> None:
    """Write jobs that have ended, and a few pending ones, as a control plane would record them."""
    live_state = LiveState()

    def committed(seq: int, events: Sequence[Event], changes: Changes) -> None:
        live_state.absorb(seq, changes)

    began_us = LiveClock().now_us() - (count + PENDING) * US_PER_S - RUN_US
    with Journal(path, live_state.fold, committed) as journal:
        for first in range(1, count + 1, BATCH):
            ids = range(first, min(first + BATCH, count + 1))
            for event in (_submitted, _intended, _started, _ended):
                journal.append([event(job, began_us + job * US_PER_S) for job in ids]).wait()
        ids = range(count + 1, count + 1 + PENDING)
        journal.append([_submitted(job, began_us + job * US_PER_S) for job in ids]).wait()


def _submitted(job: int, at_us: int) -> Event:
    return Submitted(at_us, job, SPEC, "api")


def _intended(job: int, at_us: int) -> Event:
    return Intended(at_us, job, 1, [[0, 1]], decision=job)


def _started(job: int, at_us: int) -> Event:
    return Started(at_us, job, 1, began_us=at_us, pid=1)


def _ended(job: int, at_us: int) -> Event:
    over_us = at_us + RUN_US
    values: dict[str, Any] = {"exit_code": 0, "signal": 0, "why": "exit", "cpu_s": 59.5}
    return Ended(over_us, job, 1, over_us, JobState.COMPLETED, values=values)


@contextmanager
def _copy(setting: SubmitSetting, base: Path) -> Iterator[Path]:
    """Copy the history to a new folder, so that repeats do not see each other's changes."""
    with state_folder(setting.folder) as state:
        for path in base.glob(f"{JOURNAL}*"):
            shutil.copy(path, state)
        yield state


def time_opening(setting: SubmitSetting, base: Path) -> tuple[float, float]:
    """Return wall and CPU seconds from opening the plane to its first decision."""
    with _copy(setting, base) as state:
        clock = LiveClock()
        engine = VirtualEngine([LiveNode("here", "CPU1", 2, 2, 8192)], clock.now_us)
        began, cpu = time.monotonic(), time.process_time()
        knobs = get_policy("easy").knobs
        plane = Plane(state, engine, "easy", knobs, lambda _last: clock.now_us)
        try:
            plane.open()
            plane.step()
            took = time.monotonic() - began, time.process_time() - cpu
            assert plane.decider.number == 1, "it decided nothing"
        finally:
            plane.close()
    return took


def time_up(setting: SubmitSetting, base: Path) -> tuple[float, float]:
    """Return the same for `flyball up`, observed in the journal that the process writes."""
    with _copy(setting, base) as state, History(state / JOURNAL) as history:
        began = time.monotonic()
        with started(state) as process:
            wait_until(lambda: history.last_decision() > 0, START_S, "the first decision")
            took_s = time.monotonic() - began
            times = psutil.Process(process.pid).cpu_times()
    return took_s, times.user + times.system
