"""How fast the journal is, on the disk where temporary files are. The figures of the docs.

pytest -q -s -m soak tests/control/journal/test_speed.py
"""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest
from tests.control.journal.cases import Kept, decided, ended, intended, started, submitted

from flyball.core.events import Event

pytestmark = pytest.mark.soak

THREADS = 32
EACH = 50
HISTORY = 100_000


def test_durable_appends_of_many_threads(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db", inline=False)
    waits_s: list[float] = []
    events = [submitted(job) for job in range(1, THREADS * EACH + 1)]

    def work(worker: int) -> None:
        for at in range(EACH):
            began = time.perf_counter()
            kept.journal.append([events[worker * EACH + at]]).wait()
            waits_s.append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(THREADS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - began
    kept.journal.close()
    count, waits_s = THREADS * EACH, sorted(waits_s)
    p50_ms, p99_ms = waits_s[count // 2] * 1e3, waits_s[count * 99 // 100] * 1e3
    print(
        f"\n{THREADS} threads, an event each: {count / took_s:,.0f} durable appends a second, "
        f"{count / kept.journal.commits:.1f} a commit, wait {p50_ms:.1f} ms (p99 {p99_ms:.0f})"
    )
    assert kept.journal.commits < count / 4


def test_one_thread_and_batches(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db", inline=False)
    singles = [submitted(job) for job in range(1, 201)]
    began = time.perf_counter()
    for single in singles:
        kept.journal.append([single]).wait()
    print(f"\none thread: {200 / (time.perf_counter() - began):,.0f} durable appends a second")
    batches = [[submitted(1000 * batch + at) for at in range(1000)] for batch in range(1, 11)]
    began = time.perf_counter()
    for batch in batches:
        kept.journal.append(batch).wait()
    took_s = time.perf_counter() - began
    print(f"batches of 1000: {10_000 / took_s:,.0f} jobs a second, {took_s * 100:.0f} ms a batch")
    kept.journal.close()


def test_recovery_with_a_long_history(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    kept = Kept(path, inline=False)
    for first in range(1, HISTORY, 1000):
        ids = range(first, first + 1000)
        events: list[Event] = [*(submitted(job) for job in ids), decided(first, actions=1000)]
        for job in ids:
            events += [intended(job), started(job), ended(job)]
        kept.journal.append(events)
    kept.journal.append([submitted(HISTORY + job) for job in range(1, 501)]).wait()
    kept.journal.close()
    size = path.stat().st_size
    print(f"\n{size / HISTORY:,.0f} bytes a job with its four events ({size / 2**20:.0f} MiB)")
    del kept, events
    gc.collect()  # a control plane starts without half a million events in memory
    began = time.perf_counter()
    kept = Kept(path, inline=False)
    took_s = time.perf_counter() - began
    assert len(kept.live_state.jobs) == 500
    assert kept.live_state.seq == 4 * HISTORY + HISTORY // 1000 + 500
    print(f"opened and recovered after {HISTORY:,} jobs: {took_s * 1e3:.0f} ms")
    for what in ("last", "active", "final_states", "counts", "ended", "jobs"):
        began = time.perf_counter()
        getattr(kept.journal, what)()
        print(f"  {what}: {(time.perf_counter() - began) * 1e3:.1f} ms")
    kept.journal.close()
