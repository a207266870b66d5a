"""Clock, cluster, effects, errors, units and workload: small, so together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flyball.core.clock import RealClock, VirtualClock
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, DataAbsent, FlyballError, UnknownName, at
from flyball.core.protocols import Clock
from flyball.core.units import duration_text, parse_duration_s, to_s, to_us
from flyball.core.workload import CLASS_LABELS, NOT_STATED, JobClass, Workload


def test_virtual_time_passes_only_in_sleep() -> None:
    clock: Clock = VirtualClock(5.0)
    clock.sleep(2.5)
    clock.sleep(-1.0)
    assert clock.now() == 7.5


def test_real_time_passes_by_itself() -> None:
    clock: Clock = RealClock()
    before = clock.now()
    clock.sleep(0.01)
    clock.sleep(-1.0)
    assert clock.now() - before >= 0.01


def test_cluster_counts() -> None:
    cluster = Cluster("c", (NodeGroup("a", 3, "V100", 8), NodeGroup("b", 2, "T4", 4)))
    assert cluster.node_count == 5
    assert cluster.device_count == 32


@pytest.mark.parametrize(
    "change", [{"mtbf_h": -1.0}, {"repair_h": math.nan}, {"restart_s": (1.0, math.inf, 2.0)}]
)
def test_effects_out_of_range(change: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="is out of range; use 0 or more"):
        Effects(**change)  # type: ignore[arg-type]


def test_errors_carry_remedy_and_code() -> None:
    assert str(FlyballError("no")) == "no"
    assert str(BadInput("no", "do this")) == "no; do this"
    assert BadInput("no").exit_code == 2
    assert DataAbsent("no").exit_code == 75
    assert at("jobs.csv", 7) == "jobs.csv row 7"
    assert at("jobs.csv") == "jobs.csv"


def test_unknown_name_guesses() -> None:
    assert "did you mean 'fifo'?" in str(UnknownName("policy", "fifi", ["fifo", "easy"]))
    far = str(UnknownName("policy", "qqqq", ["fifo", "easy"]))
    assert "did you mean" not in far
    assert far.endswith("known: easy, fifo")


def test_microseconds() -> None:
    assert to_us(1.5) == 1_500_000
    assert to_us(1e-7) == 0
    assert to_s(2_500_000) == 2.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (42, "42 s"),
        (210, "3.5 min"),
        (25_920, "7.2 h"),
        (354_240, "4.1 d"),
        (-42, "-42 s"),
        (math.nan, "nan"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3600", 3600.0),
        (" 0.5 ", 0.5),
        ("1e3", 1000.0),
        ("50ms", 0.05),
        ("0.5s", 0.5),
        ("45sec", 45.0),
        ("90m", 5400.0),
        ("10 MIN", 600.0),
        ("1.5h", 5400.0),
        (".5h", 1800.0),
        ("2d", 172_800.0),
        ("1h30m", 5400.0),
        ("1d 2h 3m 4s", 93_784.0),
        ("-5s", -5.0),
    ],
)
def test_durations_as_users_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "h", "1x", "1h30", "1:30", "1-00:00", "nan", "inf", "1e999", "1e999s", "5 5"]
)
def test_texts_that_are_no_duration(text: str) -> None:
    assert math.isnan(parse_duration_s(text))


def test_workload_is_in_order_of_submission() -> None:
    jobs = Workload.of("w", [5.0, 1.0, 1.0], [10.0, 20.0, 30.0], [1, 2, 4])
    assert jobs.ids.tolist() == ["j1", "j2", "j0"]
    assert jobs.submit_us.tolist() == [1_000_000, 1_000_000, 5_000_000]
    assert jobs.devices.tolist() == [2, 4, 1]
    assert jobs.span_us == 4_000_000
    assert jobs.model.tolist() == [NOT_STATED] * 3
    assert np.isnan(jobs.estimate_us).all()


def test_taking_rows_keeps_only_waits_among_them() -> None:
    jobs = Workload.of(
        "w",
        [0.0, 1.0, 2.0],
        [1.0, 1.0, 1.0],
        after_job=np.array([1, 2]),
        after_on=np.array([0, 1]),
    )
    taken = jobs.take(np.array([1, 2]))
    assert taken.ids.tolist() == ["j1", "j2"]
    assert taken.after_job.tolist() == [1]
    assert taken.after_on.tolist() == [0]


def test_an_empty_workload_spans_nothing() -> None:
    empty = Workload.of("w", [], [])
    assert len(empty) == 0
    assert empty.span_us == 0


def test_class_labels() -> None:
    assert JobClass.COMPUTE_INTENSIVE.label == "compute-intensive"
    assert len(CLASS_LABELS) == 5
