"""Use of cores from either source, and the rest of the compute family."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from tests.monitor.site import absent, bare, frozen, opened

from flyball.monitor.collectors.counters import Counters, PerfEvent
from flyball.monitor.cpu_time import Rolling, open_cpu_time
from flyball.monitor.sensor import Site

GROUP = "sys/fs/cgroup/cpuacct/cpuacct.usage_percpu"


def test_golden(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    compute = opened("compute", site)
    first = compute.collect(100.0)
    assert first.source == "compute"
    assert first.values == {
        "switches_total": 1_000_000,
        "forks_total": 5000,
        "runnable": 3,
        "user_s_total": 420.0,
        "system_s_total": 80.0,
        "iowait_s_total": 5.0,
        "steal_s_total": 3.0,
        "load_1m": 0.5,
        "stalled_s_total": 2.5,
    }
    # 50 ms of the first core and 100 ms of the second within 100 ms.
    (site.root / GROUP).write_text("250050000000 250100000000 0 0 \n")
    second = compute.collect(100.1).values
    assert second["core0_percent"] == pytest.approx(50.0)
    assert second["core1_percent"] == pytest.approx(100.0)
    assert second["total_percent"] == pytest.approx(75.0)
    assert compute.about["source"] == "cpuacct.usage_percpu"


def test_fast_readings_are_averaged_and_leave_out_the_rest(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    compute = opened("compute", site)
    for at in range(21):
        busy_ns = 250_000_000_000 + (at * 10_000_000 if at % 2 else (at - 1) * 10_000_000 + 1)
        (site.root / GROUP).write_text(f"{busy_ns} 250000000000 0 0 \n")
        sample = compute.collect(100.0 + at / 100)
    # The counter moves every other time; over 100 ms that is seen no more.
    assert sample.values["core0_percent"] == pytest.approx(100.0, abs=12.0)
    assert set(compute.collect(100.205).values) == {
        "total_percent",
        "core0_percent",
        "core1_percent",
    }


def test_a_group_of_a_container_is_not_the_machine(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    (site.root / GROUP).write_text("1000000000 1000000000 0 0 \n")
    source = open_cpu_time(site)
    assert (source.source, source.resolution) == ("/proc/stat", "10 ms")
    # user, nice, system, irq and softirq; what was stolen is not ours.
    assert source.read() == pytest.approx([251.5, 251.5])


def test_without_groups_ticks_are_used(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    (site.root / GROUP).unlink()
    compute = opened("compute", site)
    compute.collect(10.0)
    stat = site.root / "proc/stat"
    stat.write_text(stat.read_text().replace("cpu1 20000", "cpu1 20010"))
    values = compute.collect(10.2).values
    assert values["core0_percent"] == 0.0
    assert values["core1_percent"] == pytest.approx(50.0)


def test_rolling_needs_two_readings_at_different_times() -> None:
    rolling = Rolling(0.1)
    assert rolling.add(1.0, [0.0]) is None
    assert rolling.add(1.0, [1.0]) is None
    assert rolling.add(1.05, [0.025]) == pytest.approx([50.0])


def test_damaged_stat_raises(tmp_path: Path) -> None:
    site = frozen(tmp_path)
    compute = opened("compute", site)
    (site.root / "proc/stat").write_text("cpu 1 2 3 4 5 6 7 8\n")
    with pytest.raises(ValueError, match="without ctxt"):
        compute.collect(1.0)


def test_nothing_there(tmp_path: Path) -> None:
    assert "not a Linux machine" in absent("compute", bare(tmp_path))


def test_counters_say_why_they_are_not_there(tmp_path: Path) -> None:
    counters = Counters.open(frozen(tmp_path), [PerfEvent("none_total", 99, 99)])
    assert "perf_event_open reports" in counters.about["absent"]
    assert "perf_event_paranoid is 2" in counters.about["absent"]


def test_counters_count() -> None:
    # Software events: every kernel has them. Page faults stand for the caches.
    events = [PerfEvent("cache_references_total", 1, 2), PerfEvent("cache_misses_total", 1, 6)]
    counters = Counters.open(Site(), events)
    if "absent" in counters.about:
        pytest.skip(counters.about["absent"])
    first = counters.collect(1.0).values["cache_references_total"]
    with mmap.mmap(-1, 1 << 22) as fresh:
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1
    values = counters.collect(2.0).values
    assert values["cache_references_total"] > first + 100
    assert 0.0 <= values["cache_hit_percent"] <= 100.0
