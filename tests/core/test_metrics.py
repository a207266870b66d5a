"""Every metric against numbers worked by hand."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from flyball.core import metrics
from flyball.core.codes import Status
from flyball.core.results import Mark, Results

S = 1_000_000
H = 3600 * S


def results(**changes: Any) -> Results:
    """Three jobs on two nodes of two devices each.

    a: submitted at 0, runs 0..1 h on 1 device.
    b: submitted at 0, runs 1..3 h on 2 devices; alone it would take 1 h.
    c: submitted at 1 h, runs 1..2 h and 3..4 h on half a device; preempted once.
    """
    plain = Results(
        submit_us=np.array([0, 0, H]),
        first_start_us=np.array([0, H, H]),
        end_us=np.array([H, 3 * H, 4 * H]),
        devices=np.array([1, 2, 1]),
        milli=np.array([1000, 1000, 500]),
        solo_us=np.array([1.0 * H, 1.0 * H, 2.0 * H]),
        reference_us=np.array([1.0 * H, 4.0 * H, 1.0 * H]),
        service_us=np.array([1.0 * H, 4.0 * H, 1.0 * H]),
        waking_us=np.zeros(3, np.int64),
        lost_us=np.array([0.0, 0.0, 0.5 * H]),
        energy_j=np.array([3.6e6, 7.2e6, 3.6e6]),
        priority=np.zeros(3),
        tenant=np.array([0, 0, 1]),
        status=np.array([Status.DONE] * 3),
        attempts=np.array([1, 1, 2]),
        preemptions=np.array([0, 0, 1]),
        moves=np.zeros(3, np.int64),
        failures=np.zeros(3, np.int64),
        pool=np.zeros(3, np.int64),
        node_capacity=np.array([2, 2]),
        node_busy_us=np.array([4.0 * H, 2.0 * H]),
        node_energy_j=np.array([3.6e6, 7.2e6]),
        node_asleep_us=np.zeros(2),
        start_us=0,
        stop_us=4 * H,
        window=(Mark(H, 1.0 * H, 3.6e6, 1.0 * H, 1), Mark(3 * H, 5.0 * H, 10.8e6, 6.0 * H, 2)),
        peak_power_w=1500.0,
        events=11,
        decisions=5,
    )
    return replace(plain, **changes)


def nothing() -> Results:
    """A run without jobs or time."""
    plain = results()
    empty = {
        entry.name: getattr(plain, entry.name)[:0]
        for entry in fields(Results)
        if isinstance(getattr(plain, entry.name), np.ndarray)
    }
    mark = Mark(0, 0.0, 0.0, 0.0, 0)
    return replace(plain, **empty, stop_us=0, window=(mark, mark), events=0)


def test_completion() -> None:
    assert metrics.completions_s(results()).tolist() == [3600, 3 * 3600, 3 * 3600]


def test_wait_counts_the_time_set_aside() -> None:
    # c is in the system for 3 h and holds its half device for 2 h of them.
    assert metrics.waits_s(results()).tolist() == [0, 3600, 3600]
    waking = results(waking_us=np.array([0, H // 4, H // 2]))
    assert metrics.waits_s(waking).tolist() == [0, 4500, 5400]


def test_jobs_that_never_ended_count_in_no_time_metric() -> None:
    partial = results(status=np.array([Status.DONE, Status.RUNNING, Status.PENDING]))
    assert metrics.completions_s(partial).tolist() == [3600]
    assert metrics.waits_s(partial).tolist() == [0]


def test_slowdown_is_bounded_below_and_for_short_jobs() -> None:
    short = results(
        submit_us=np.array([0, 0, 0]),
        end_us=np.array([20 * S, 5 * S, 100 * S]),
        solo_us=np.array([1.0 * S, 5.0 * S, 50.0 * S]),
    )
    # 20 s / 10 s (not / 1 s); 5 s / 10 s, raised to 1; 100 s / 50 s.
    assert metrics.slowdowns(short).tolist() == [2.0, 1.0, 2.0]


def test_window_metrics() -> None:
    assert metrics.work_per_window(results()) == 4.0
    assert metrics.utilisation(results()) == 5 / 8  # 5 h of 4 devices x 2 h
    assert metrics.energy_per_work(results()) == 2.0 / 4.0  # 2 kWh for 4 device-hours


def test_cost_is_idle_plus_delay() -> None:
    # Idle: 4 devices x 4 h - 6 h = 10 h. Delay: b 1 h x 2, c 1 h x 0.5.
    assert metrics.cost_device_h(results(), delay_weight=0) == 10.0
    assert metrics.cost_device_h(results(), idle_weight=0) == 2.5
    assert metrics.cost_device_h(results()) == 12.5
    assert metrics.cost_device_h(results(), 2.0, 10.0) == 45.0


def test_balance() -> None:
    # Busy fractions 1/2 and 1/4: mean 3/8, deviation 1/8.
    assert metrics.balance(results()) == pytest.approx(1 / 3)
    assert metrics.balance(results(node_busy_us=np.array([1.0 * H, 1.0 * H]))) == 0
    # Nodes of unlike size that are equally busy are in balance.
    unlike = results(node_capacity=np.array([1, 3]), node_busy_us=np.array([1.0 * H, 3.0 * H]))
    assert metrics.balance(unlike) == 0


def test_lost_work() -> None:
    assert metrics.lost_device_h(results()) == 0.25


def test_jain() -> None:
    assert metrics.jain(np.array([1.0, 1.0, 1.0])) == 1.0
    assert metrics.jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert metrics.jain(np.array([1.0, 2.0])) == pytest.approx(9 / 10)


def test_fairness_is_over_tenants_and_else_over_jobs() -> None:
    # Speeds a 1, b 1/3, c 2/3; tenants (1 + 1/3) / 2 = 2/3 and 2/3.
    assert metrics.fairness_jain(results()) == pytest.approx(1.0)
    alone = results(tenant=np.array([-1, -1, -1]))
    assert metrics.fairness_jain(alone) == pytest.approx(2.0**2 / (3 * (1 + 1 / 9 + 4 / 9)))


def test_finish_time_fairness() -> None:
    # a is in with b: n = 2, share 4/2 >= 1, ideal 1 h, rho 1.
    # b asks for 2; n = 2 all along, share 2, ideal 1 h, took 3 h.
    # c asks for half; ideal 2 h, took 3 h.
    assert metrics.finish_time_fairness(results()).tolist() == [1.0, 3.0, 1.5]
    # On one device b's share is half a device, so 2 devices' work would have taken 4 h.
    small = results(node_capacity=np.array([1, 0]))
    assert metrics.finish_time_fairness(small)[1] == pytest.approx(3 / 4)


def test_summary_has_the_names_users_rely_on() -> None:
    summary = metrics.summarise(results()).as_dict()
    promised = {
        "completion_s", "wait_s", "slowdown_p95", "makespan_s", "work_per_window",
        "jobs_per_window", "utilisation", "energy_kwh", "energy_per_work", "peak_power_kw",
        "cost", "balance", "preemptions", "fairness_jain", "events",
    }  # fmt: skip
    assert promised <= set(summary)
    assert set(summary["completion_s"]) == {"mean", "p50", "p95", "p99"}
    assert summary["jobs"] == 3
    assert summary["makespan_s"] == 4 * 3600
    assert summary["energy_kwh"] == 3.0
    assert summary["peak_power_kw"] == 1.5
    assert summary["jobs_per_window"] == 1
    assert summary["preemptions"] == 1
    assert summary["events"] == 11
    assert summary["completion_s"]["mean"] == pytest.approx(7 * 3600 / 3)


def test_nothing_to_measure_is_null_not_a_crash() -> None:
    summary = metrics.summarise(nothing()).as_dict()
    json.dumps(summary, allow_nan=False)
    assert summary["completion_s"]["p99"] is None
    assert summary["utilisation"] is None
    assert summary["energy_per_work"] is None
    assert summary["balance"] is None
    assert summary["fairness_jain"] is None
    assert summary["cost"] == 0


def test_an_empty_window_is_null() -> None:
    mark = Mark(H, 1.0, 2.0, 3.0, 1)
    summary = metrics.summarise(results(window=(mark, mark))).as_dict()
    assert summary["utilisation"] is None
    assert summary["work_per_window"] == 0
    assert summary["energy_per_work"] is None


def test_without_nan_goes_all_the_way_down() -> None:
    assert metrics.without_nan({"a": [math.nan, 1.0, (math.inf,)]}) == {"a": [None, 1.0, [None]]}


def test_money_and_carbon_of_the_run_and_of_its_window() -> None:
    first, last = (replace(mark, money=m, carbon_g=c) for mark, m, c in zip(
        results().window, (1.0, 3.0), (100.0, 500.0), strict=True
    ))  # fmt: skip
    billed = metrics.summarise(
        results(
            node_money=np.array([2.0, 3.0]), node_carbon_g=np.array([300.0, 400.0]),
            window=(first, last),
        )
    )  # fmt: skip
    assert (billed.money, billed.carbon_g) == (5.0, 700.0)
    assert billed.money_per_work == pytest.approx(2.0 / 4.0)  # 4 device-hours in the window
    assert billed.carbon_g_per_work == pytest.approx(100.0)
    plain = metrics.summarise(results()).as_dict()
    assert plain["money"] is plain["carbon_g_per_work"] is None
