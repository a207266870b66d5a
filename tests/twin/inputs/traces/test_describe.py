"""The figures of a workload, against cases worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flyball.core.workload import JobClass, Workload
from flyball.schedule.classify import classify_one
from flyball.twin.inputs.traces import read_trace
from flyball.twin.inputs.traces.describe import autocorrelation, describe, dispersion

SAMPLES = Path(__file__).parent / "samples"


def test_a_small_case() -> None:
    workload = Workload.of(
        "four", [0, 10, 20, 100], [10, 10, 10, 970], [1, 1, 2, 8],
        tenant=[0, 0, 0, 1], tenants=("a", "b"), outcome=[0, 1, 2, 0],
    )  # fmt: skip
    got = describe(workload)
    assert got["jobs"] == 4
    assert got["span_s"] == 100
    assert got["jobs_per_day"] == pytest.approx(3456)
    assert got["arrivals"]["gap_s"]["p50"] == 10
    assert got["durations"]["p50"] == 10
    assert got["durations"]["mean"] == 250
    total = 10 + 10 + 20 + 7760
    assert got["load_devices"] == pytest.approx(total / 100)
    assert got["gpus"]["8"] == {
        "jobs": 0.25, "device_time": pytest.approx(7760 / total), "median_s": 970,
    }  # fmt: skip
    assert got["concentration"]["top_1_percent"] == pytest.approx(7760 / total)
    assert got["tenants"]["count"] == 2
    assert got["tenants"]["top_1"] == 0.75
    assert got["outcomes"]["cancelled"]["jobs"] == 0.25
    assert got["fields"] == ["tenant", "outcome"]


def test_the_mix_of_classes() -> None:
    # 10 + 10 device seconds of one device with 1 GiB, 10 of a quarter with 2 GiB (2.5), and
    # 2 x 77.5 of a gang whose class is stated.
    workload = Workload.of(
        "four", [0, 1, 2, 3], [10, 10, 10, 77.5], [1, 1, 1, 2], milli=[1000, 1000, 250, 1000],
        memory_mib=[1024, 1024, 2048, 0], kind=[-1, -1, -1, JobClass.MIXED],
    )  # fmt: skip
    got = describe(workload)["classes"]
    assert list(got) == ["compute-intensive", "latency-sensitive", "mixed"]
    total = 10 + 10 + 2.5 + 155
    assert got["compute-intensive"] == {
        "jobs": 0.5,
        "device_time": pytest.approx(20 / total),
        "confidence": pytest.approx(classify_one(memory_mib=1024).confidence),
        "reason": "1.0 GiB a device, the class has 0.5 to 2",
    }
    assert got["latency-sensitive"]["jobs"] == 0.25
    assert got["latency-sensitive"]["reason"] == "25 % of one device, 2.0 GiB"
    assert got["mixed"]["confidence"] == 1.0
    assert got["mixed"]["reason"] == "stated in the trace"


def test_the_commonest_reason() -> None:
    # All five are gangs; 32 devices without memory stated is the commonest case.
    memory_mib = [9, 0, 9, 0, 0]
    workload = Workload.of("five", np.arange(5), 1.0, [16, 32, 16, 32, 32], memory_mib=memory_mib)
    classes = describe(workload)["classes"]
    assert classes["bandwidth-limited"]["reason"] == "a gang of 32, more than one node of 8"


def test_calendar() -> None:
    # Ten jobs at 9 h on five weekdays, five at 21 h on the two days of the weekend.
    starts = [86_400 * day + 32_400 for day in range(5) for _ in range(10)]
    starts += [86_400 * day + 75_600 for day in (5, 6) for _ in range(5)]
    got = describe(Workload.of("week", starts, 1.0))["arrivals"]
    assert got["weekday_over_weekend"] == 2.0
    assert got["by_weekday"] == [10, 10, 10, 10, 10, 5, 5]
    assert got["by_hour"][9] == pytest.approx(50 / 7)
    shifted = describe(Workload.of("week", starts, 1.0), start_weekday=1)["arrivals"]
    assert shifted["by_weekday"][1] == 10
    assert shifted["by_weekday"][0] == 5


def test_poisson_has_dispersion_one() -> None:
    counts = np.random.default_rng(1).poisson(20, 5000)
    assert dispersion(counts) == pytest.approx(1.0, abs=0.1)
    assert autocorrelation(counts, 1) == pytest.approx(0.0, abs=0.05)
    wave = np.tile([0.0, 10.0], 500)
    assert autocorrelation(wave, 1) == pytest.approx(-1.0, abs=0.01)
    assert autocorrelation(wave, 2) == pytest.approx(1.0, abs=0.01)


def test_one_job_and_the_samples_have_plain_numbers() -> None:
    for workload in (
        Workload.of("one", [5], [0]),
        read_trace(SAMPLES / "jobs.csv"),
        read_trace(SAMPLES / "philly.csv"),
    ):
        text = json.dumps(describe(workload))
        assert json.loads(text)["jobs"] == len(workload)


def test_fields_of_the_full_sample() -> None:
    assert describe(read_trace(SAMPLES / "jobs.csv"))["fields"] == [
        "model", "class", "device", "tenant", "user", "memory", "priority", "estimate", "limit",
        "fraction", "array", "after", "outcome",
    ]  # fmt: skip
