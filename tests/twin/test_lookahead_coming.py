"""Roll-outs with future arrivals, and how these are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from tests.twin.test_live import CLUSTER, NOW, small, view

from flyball.core.units import US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.lookahead import (
    DAY_US,
    FutureArrivals,
    draw_arrivals,
    draw_scores,
    start_times,
    with_arrivals,
)
from flyball.twin.tables.spread import run_times
from flyball.twin.twin import Twin

FULL = [(0, 0, 15), (1, 1, 15), (2, 2, 15)]
HOUR_US = to_us(3600.0)


def coming(picks: list[int], after_s: list[float], run_s: list[float]) -> FutureArrivals:
    times = NOW + np.array(after_s) * US_PER_S
    return FutureArrivals(
        np.array(picks, np.int64), times.astype(np.int64), np.array(run_s) * US_PER_S
    )


def estimated(work: Workload, seconds: list[float]) -> Workload:
    return replace(work, estimate_us=np.array(seconds) * US_PER_S)


def test_shorter_jobs_that_come_later_overtake() -> None:
    # The nodes are full for 40 s (since 5 s, 60 s now). One job waits, expected to take 100 s;
    # three that come after 10 s are expected to take 5 s and do take 20 s.
    work = estimated(small([4, 4, 4, 4]), [100, 100, 100, 100])
    recent = estimated(small([4]), [5])
    draws = np.array([[95.0, 95.0, 95.0, 100.0]]) * US_PER_S
    later = [coming([0, 0, 0], [10, 10, 10], [20, 20, 20])]
    by_length = get_policy("sjf").knobs
    first = get_policy("fifo-skip").knobs
    now_view = view(work, FULL)
    alone = start_times(CLUSTER, now_view, by_length, NOW, draws)
    overtaken = start_times(CLUSTER, now_view, by_length, NOW, draws, recent, later)
    in_turn = start_times(CLUSTER, now_view, first, NOW, draws, recent, later)
    assert alone[0].tolist() == [0, 0, 0, 40]
    assert overtaken[0].tolist() == [0, 0, 0, 60]
    assert in_turn[0].tolist() == [0, 0, 0, 40]


def test_each_roll_out_has_its_own_arrivals() -> None:
    work = estimated(small([4, 4, 4, 4]), [100, 100, 100, 100])
    recent = estimated(small([4, 1]), [5, 5])
    draws = np.array([[95.0, 95.0, 95.0, 100.0]] * 4) * US_PER_S
    later = [
        coming([0, 0, 0], [10, 10, 10], [20, 20, 20]),
        coming([], [], []),
        coming([1, 1, 1], [1, 2, 3], [60, 60, 60]),
        coming([0, 1, 0], [10, 10, 10], [20, 30, 20]),
    ]
    knobs = get_policy("sjf").knobs
    starts = start_times(CLUSTER, view(work, FULL), knobs, NOW, draws, recent, later)
    # Three small ones fit on one node; of (4, 1, 4) one takes the third node for 30 s.
    assert starts[:, 3].tolist() == [60, 40, 40, 60]


@pytest.mark.parametrize(
    "name", ["fifo", "fifo-skip", "easy", "sjf", "saf", "fair", "las", "qssf", "tiresias", "srtf"]
)
def test_a_roll_out_is_a_run_of_the_twin(name: str) -> None:
    """Nothing runs yet: a twin given all arrivals in advance makes the same run."""
    rng = np.random.default_rng(11)
    knobs = get_policy(name).knobs
    present, more = 12, 25
    sizes = rng.choice((1, 1, 2, 3, 4, 8), present + more)
    users = rng.integers(0, 3, present + more)
    estimates = rng.choice((20e6, 60e6, 300e6), present + more)
    run_us = np.rint(rng.uniform(5, 120, present + more) * US_PER_S)
    after_us = np.sort(rng.integers(1, 400 * US_PER_S, more))

    def of(rows: Any, submit_us: Any) -> Workload:
        return Workload.of(
            "x", np.asarray(submit_us) / US_PER_S, run_us[rows] / US_PER_S, sizes[rows],
            kind=0, device=0, device_names=("CPU1",), estimate_us=estimates[rows],
            tenant=users[rows], user=users[rows], tenants=("a", "b", "c"), users=("u", "v", "w"),
        )  # fmt: skip

    first, then = np.arange(present), present + np.arange(more)
    workload = of(np.append(first, then), np.append(np.full(present, NOW), NOW + after_us))
    twin = Twin(CLUSTER, workload, knobs)
    twin.run()
    expected = (np.asarray(twin.state.runs.first_start_us)[:present] - NOW) / US_PER_S
    later = FutureArrivals(np.arange(more), NOW + after_us, run_us[then])
    now_view = view(of(first, np.full(present, NOW)))
    starts = start_times(
        CLUSTER, now_view, knobs, NOW, run_us[None, :present], of(then, after_us), [later]
    )
    assert starts[0].tolist() == expected.tolist()


def test_names_are_recoded() -> None:
    one = small([1, 2], tenant=np.array([0, 1]), tenants=("ada", "ben"))
    other = small([1, 1, 1], tenant=np.array([0, 1, -1]), tenants=("zoe", "ada"))
    both = with_arrivals(one, other, NOW)
    names = [both.tenants[code] if code >= 0 else "" for code in both.tenant]
    assert names == ["ada", "ben", "zoe", "ada", ""]
    assert len(both) == 5
    assert (both.group == -1).all()


# Draws of arrivals ----------------------------------------------------------------------


def test_no_past_arrivals_give_no_arrivals() -> None:
    rng = np.random.default_rng(1)
    none = np.zeros(0, np.int64)
    assert len(draw_arrivals(none, NOW, HOUR_US, rng)[0]) == 0
    assert len(draw_arrivals(np.array([NOW]), NOW, HOUR_US, rng)[0]) == 0


def test_a_steady_rate_continues() -> None:
    """One job a minute for a day: the same rate follows, in order and within the horizon."""
    rng = np.random.default_rng(2)
    now_us = 2 * DAY_US
    came = np.arange(DAY_US, now_us, to_us(60.0))
    picks, times = draw_arrivals(came, now_us, 8 * HOUR_US, rng)
    assert 478 <= len(picks) <= 482
    assert (np.diff(times) >= 0).all()
    assert times[0] >= now_us
    assert times[-1] <= now_us + 8 * HOUR_US
    assert picks.min() >= 0
    assert picks.max() < len(came)


def test_the_hour_of_the_day_is_kept() -> None:
    """For five days jobs arrived from noon to four only: so do future ones."""
    rng = np.random.default_rng(3)
    noon = [day * DAY_US + 12 * HOUR_US for day in range(5)]
    came = np.concatenate([start + np.arange(0, 4 * HOUR_US, to_us(300.0)) for start in noon])
    now_us = 5 * DAY_US
    _picks, times = draw_arrivals(came, now_us, DAY_US, rng, since_us=0)
    hours = (times % DAY_US) / HOUR_US
    assert len(times) == 48
    assert (hours >= 12).all()
    assert (hours <= 16).all()


def test_busy_days_follow_busy_days() -> None:
    """Quiet for a week, then ten times as many for a day: the busy day is drawn more often."""
    quiet = np.arange(0, 7 * DAY_US, to_us(600.0))
    busy = np.arange(7 * DAY_US, 8 * DAY_US, to_us(60.0))
    rng = np.random.default_rng(4)
    came = np.concatenate([quiet, busy])
    counts = [len(draw_arrivals(came, 8 * DAY_US, 4 * HOUR_US, rng)[0]) for _ in range(200)]
    assert set(counts) == {24, 240}
    assert 0.3 < np.mean(np.array(counts) == 240) < 0.55


# Run times -------------------------------------------------------------------------------


def test_run_times_are_the_quantiles_at_their_levels() -> None:
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    quantiles = np.array([[1.0, 5.0, 10.0, 60.0, 600.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    scores = np.repeat(ndtri(np.array(levels))[:, None], 2, axis=1)
    assert np.allclose(run_times(quantiles, levels, scores), quantiles.T)
    far = run_times(quantiles, levels, np.array([[-4.0, -4.0], [4.0, 4.0]]))
    assert far[0, 0] < 1.0
    assert far[1, 0] > 600.0
    assert far[:, 1].tolist() == pytest.approx([2.0, 2.0])


def test_jobs_of_one_owner_are_long_together() -> None:
    rng = np.random.default_rng(5)
    of_owner = rng.standard_normal((4000, 2))
    scores = draw_scores(np.array([0, 0, 1]), of_owner, rng, alike=0.7)
    correlation = np.asarray(np.corrcoef(scores.T))
    assert correlation[0, 1] == pytest.approx(0.7, abs=0.04)
    assert abs(correlation[0, 2]) < 0.05
    assert scores.std(axis=0) == pytest.approx([1.0] * 3, abs=0.04)
