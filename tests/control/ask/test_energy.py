"""Energy by counters, from telemetry as the agent stores it; and when it is not available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import ONE_NODE, START_US, TWO_NODES, spec_of

from flyball.control.ask.bills import Prices
from flyball.control.ask.energy import Energy, measured
from flyball.control.ask.receipts import Seen, receipt
from flyball.control.jobs.request import cluster_of
from flyball.core.jobs import Job, JobState
from flyball.core.live import LiveNode
from flyball.core.protocols import Sample
from flyball.core.signals import Signal
from flyball.core.workload import JobClass
from flyball.monitor.publish import Outlet
from flyball.monitor.reader import Telemetry
from flyball.physics import catalogue
from flyball.physics.power import draw_w

S = 1_000_000
START = START_US / S
GPUS = (LiveNode("a", "V100", 2, 8, 8192, ("GPU-b", "GPU-c")),)
SENSORS = {"nvidia": {"about": {"source": "NVML", "gpu1": "GPU-b", "gpu2": "GPU-c"}}}


def ran(*spans: list[Any], **asked: Any) -> Job:
    """A job that ended, with attempts of (from, to, rows, cpu_s) in seconds."""
    attempts = [
        [START_US + int(a * S), START_US + int(b * S), rows, cpu] for a, b, rows, cpu in spans
    ]
    values = {"spans": attempts, "active_s": 1.0}
    return Job(
        1, spec_of(**asked), START_US, JobState.COMPLETED, len(attempts),
        first_start_us=attempts[0][0], end_us=attempts[-1][1], values=values,
    )  # fmt: skip


def telemetry(
    folder: Path,
    seconds: int = 60,
    gone: range = range(0),
    package: Callable[[int], float] = lambda at: 50.0 * at,
) -> Telemetry:
    """A minute of a machine: two cores busy, 50 W in its package, 100 and 200 W in its devices."""
    outlet = Outlet(folder)
    for at in range(seconds):
        if at not in gone:
            busy = {"user_s_total": 1.5 * at, "system_s_total": 0.5 * at}
            gpus = {"gpu1.energy_j_total": 9e6 + 100.0 * at, "gpu2.energy_j_total": 200.0 * at}
            outlet.add("compute", Sample("compute", START + at, busy))
            outlet.add("compute", Sample("nvidia", START + at, gpus))
            zones = {"package_0_0_energy_j_total": package(at), "dram_0_0_energy_j_total": 1.0 * at}
            outlet.add("power", Sample("power", START + at, zones))
    outlet.publish(START + seconds - 1, {"sensors": SENSORS})
    return Telemetry(folder)


CORES = [5.5, 25.5, [[0, 1]], 10.0]


def test_cores_have_their_share_of_the_package(tmp_path: Path) -> None:
    """20 s of 50 W; of the 40 s of CPU time the job had 10."""
    energy = measured(ran(CORES), ONE_NODE, telemetry(tmp_path), START_US + 60 * S)
    assert energy.joules == pytest.approx(250.0)
    assert energy.note == "package counter, its share of CPU time"


def test_attempts_add_up_and_waits_do_not_count(tmp_path: Path) -> None:
    job = ran(CORES, [40.0, 50.0, [[0, 1]], 20.0])
    energy = measured(job, ONE_NODE, telemetry(tmp_path), START_US + 60 * S)
    assert energy.joules == pytest.approx(250.0 + 500.0)


def test_accelerators_have_separate_counters(tmp_path: Path) -> None:
    """The agent numbers all devices; the engine may have only some of them."""
    job = ran([10.0, 20.0, [[0, 3]], None], gpus=2)
    sensors = telemetry(tmp_path)
    energy = measured(job, GPUS, sensors, START_US + 60 * S)
    assert energy.joules == pytest.approx(3000.0)
    assert energy.note == "device counters"
    part = ran([10.0, 20.0, [[0, 2]], None], gpus=1, milli=250)
    assert measured(part, GPUS, sensors, START_US + 60 * S).joules == pytest.approx(500.0)


def test_right_after_the_end_the_last_second_is_extrapolated(tmp_path: Path) -> None:
    job = ran([10.0, 30.5, [[0, 1]], 41.0])
    energy = measured(job, ONE_NODE, telemetry(tmp_path, seconds=30), START_US + 31 * S)
    assert energy.joules == pytest.approx(20.5 * 50.0)


RESIZED = {"what": "resized", "time": START + 15}


@pytest.mark.parametrize(
    ("job", "seen", "why"),
    [
        (ran(CORES), {"gone": range(10, 25)}, "was not read all the time it ran"),
        (ran(CORES), {"seconds": 20}, "was not read all the time it ran"),
        (ran(CORES), {"gone": range(40)}, "was not read while it ran"),
        (ran(CORES), {"package": lambda at: 50.0 * (at % 20)}, "was reset while it ran"),
        (ran([5.0, 6.0, [[0, 1]], 1.0]), {}, "an attempt of less than 3 s is too short"),
        (ran([5.0, 25.0, [[0, 1]], None]), {}, "CPU time of an attempt is not known"),
        (ran([5.0, 25.0, [[1, 1]], None], gpus=1), {}, "no energy counter of its GPUs"),
        (ran([5.0, 25.0, [[9, 1]], None], gpus=1), {}, "no energy counter of its GPUs"),
        (
            replace(ran([5.0, 25.0, [[0, 1]], 1.0], gpus=1), values={
                **ran([5.0, 25.0, [[0, 1]], 1.0]).values, "tuned": {"log": [RESIZED]}
            }),
            {},
            "its GPUs changed while it ran",
        ),
    ],
)  # fmt: skip
def test_the_reason_why_it_is_not_measured(
    tmp_path: Path, job: Job, seen: dict[str, Any], why: str
) -> None:
    nodes = (*GPUS, *ONE_NODE)
    energy = measured(job, nodes, telemetry(tmp_path, **seen), START_US + 60 * S)
    assert energy.joules is None
    assert why in energy.note


def test_a_machine_without_counters(tmp_path: Path) -> None:
    assert measured(ran(CORES), ONE_NODE, None, START_US) == Energy(None, "")
    energy = measured(ran(CORES), ONE_NODE, Telemetry(tmp_path), START_US + 60 * S)
    assert energy == Energy(None, "no energy counter is read here")


def test_the_receipt_names_the_source(tmp_path: Path) -> None:
    job = ran(CORES)
    seen = Seen(energy=Energy(250.0, "package counter, its share of CPU time"))
    bill = receipt(job, cluster_of(ONE_NODE, "live"), Prices(), START_US + 60 * S, seen)
    assert (bill["energy_j"], bill["energy_source"]) == (250.0, "measured")
    assert bill["energy_note"] == "package counter, its share of CPU time"
    seen = Seen(energy=Energy(None, "too short"))
    bill = receipt(job, cluster_of(ONE_NODE, "live"), Prices(), START_US + 60 * S, seen)
    assert (bill["energy_source"], bill["energy_note"]) == ("modelled", "too short")


def test_modelled_by_the_devices_it_ran_on() -> None:
    """Of two kinds of nodes, three quarters of the time on the second."""
    mixed = (*GPUS, *TWO_NODES)
    job = replace(ran([0, 10, [[0, 1]], None], [20, 50, [[2, 1]], None]), service_us=40.0 * S)
    bill = receipt(job, cluster_of(mixed, "live"), Prices(), START_US + 60 * S)
    first, second = (
        draw_w(catalogue.get(device), JobClass.COMPUTE_INTENSIVE) for device in ("V100", "CPU1")
    )
    assert first != second
    assert bill["energy_j"] == pytest.approx(10 * first + 30 * second)


def test_measured_energy_is_priced_when_it_was_used(tmp_path: Path) -> None:
    # The package draws 10 W, from a full minute on 90 W; the price rises then.
    low_s = 180 - START_US // S % 60

    def package(at: int) -> float:
        return 10.0 * at + 80.0 * max(0, at - low_s)

    job = ran([0, 240, [[0, 1]], 480.0])
    sensors = telemetry(tmp_path, 241, package=package)
    energy = measured(job, ONE_NODE, sensors, START_US + 240 * S)
    low_j, high_j = 10.0 * low_s, 90.0 * (240 - low_s)
    assert energy.joules == pytest.approx(low_j + high_j)
    times = np.array([START_US, START_US + low_s * S], np.int64)
    price = Signal("case", times, np.array([1.0, 3.0]), START_US + 240 * S, dated=True)
    seen = Seen(energy=energy)
    bill = receipt(job, cluster_of(ONE_NODE, "live"), Prices(0.0, price), START_US + 240 * S, seen)
    assert bill["cost"] == pytest.approx((low_j * 1.0 + high_j * 3.0) / 3.6e6)
    assert bill["energy_cost_source"] == "measured"
