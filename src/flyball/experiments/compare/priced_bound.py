"""The `priced` bound: the fluid relaxation with capacity priced by pool and time interval.

In the notation of `bounds`, the mean busy time M_j, the integral of t f_j(t), is at most
C_j - d_j / 2, since f_j never exceeds 1 / d_j and is 0 after C_j. So sum(C_j) is at least
sum(M_j + d_j / 2), and it is enough to bound sum(M_j) from below.

Let h_jp(t) be 1 while job j holds its devices in pool p, else 0. At most one of these is 1 at a
time, f_j <= sum_p h_jp / d_jp, and sum_j s_j h_jp <= D_p. Put any price q_p(t) >= 0 on a
device-second of pool p. What is offered costs at least as much as what is held, so

    sum_j M_j >= sum_j integral(t f_j + sum_p q_p s_j h_jp) - sum_p integral(q_p D_p).

As f_j integrates to 1, for any level m the j-th integral is m less the integral of
(m - t) f_j - sum_p q_p s_j h_jp, which is nowhere more than

    g_j(t) = max(0, max_p((m - t) / d_jp - q_p(t) s_j))   from r_j on.

So *every* choice of prices and levels gives a valid bound. Here prices are constant in each
interval of time, so that g_j is the highest of a few straight lines there and its integral is
exact. Prices start as those of one machine that runs the smallest job first; then they rise where
jobs would use more than there is, and fall where less.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.experiments.compare.bounds import JobNeeds
from flyball.physics.compile import entry, kernel

INTERVALS = 300
STEPS = 100
FIRST_STEP = 0.3
LAST_STEP = 0.02
CLOSE = 1e-3
"""Relative tolerance to which a level must fill a job."""
MOST_TRIES = 60


def priced_s(demand: JobNeeds, weights: Floats) -> float:
    """Return the bound on the mean completion time, in seconds.

    Args:
        demand: of the jobs.
        weights: of the pools, to begin with; see `bounds.best_shared`.
    """
    # A job without work ends at its release; one without devices uses no capacity.
    real = (demand.solo_s > 0) & (demand.share > 0)
    total = float((demand.release_s + demand.solo_s)[~real].sum() - demand.submit_s.sum())
    if real.any():
        busy = demand.only(real)
        total += _ascend(busy, weights) + float(busy.solo_s.sum()) / 2
    return total / len(real)


def _ascend(demand: JobNeeds, weights: Floats) -> float:
    """Return the largest bound on the sum of mean busy times that a few steps find."""
    edges, prices = _first_prices(demand, weights)
    offered = demand.devices * np.diff(edges)[:, None]
    levels = demand.release_s + demand.solo_s
    held = np.zeros_like(prices)
    best = -np.inf
    for step in np.geomspace(FIRST_STEP, LAST_STEP, STEPS):
        held[:] = 0.0
        jobs = (demand.release_s, demand.share, demand.need_s, demand.solo_s)
        paid = _pay(*jobs, edges, prices, levels, held)
        best = max(best, paid - float((prices * offered).sum()))
        # A factor keeps prices above 0 and in scale.
        prices = prices * np.exp(step * np.clip(held / offered - 1.0, -1.0, 1.0))
    return best


# Prices to begin with ---------------------------------------------------------------


def _first_prices(demand: JobNeeds, weights: Floats) -> tuple[Floats, Floats]:
    """Return the edges of the intervals, and the prices (interval, pool) of one machine for all.

    While the machine runs a job of work a, the price falls by 1 / a per second, so that no instant
    of its slice is better for the job than another; at the end of a busy period it is 0.
    """
    works = (weights * demand.need_s).min(axis=1) * demand.share
    begin, end, job = _smallest_first(demand.release_s, works / float(weights @ demand.devices))
    falls = (end - begin) / works[job]
    after = np.zeros(len(job))  # the price when a slice ends
    for at in range(len(job) - 2, -1, -1):
        if begin[at + 1] <= end[at]:
            after[at] = after[at + 1] + falls[at + 1]
    # Intervals are short where there are many events, and never very long.
    events = np.concatenate((begin, end, demand.release_s + demand.solo_s))
    even = np.linspace(0.0, float(events.max()), INTERVALS // 2)
    instants = np.unique(np.concatenate((events, even)))
    edges = np.unique(np.quantile(instants, np.linspace(0.0, 1.0, INTERVALS + 1)))
    middles = (edges[1:] + edges[:-1]) / 2
    at = np.maximum(0, np.searchsorted(begin, middles, side="right") - 1)
    height = after[at] + np.maximum(0.0, end[at] - middles) / works[job[at]]
    least = 1e-3 * float(height.max())  # a price of 0 would never rise
    return edges, np.maximum(height, least)[:, None] * weights


def _smallest_first(release_s: Floats, works_s: Floats) -> tuple[Any, Any, Any]:
    """Return slices (begins, ends, jobs) of a machine that always runs the smallest job present."""
    order = np.argsort(release_s, kind="stable").tolist()
    work_left = works_s.tolist()
    slices: list[tuple[float, float, int]] = []
    present: list[tuple[float, int]] = []
    now, place = 0.0, 0
    while present or place < len(order):
        if not present:
            now = max(now, float(release_s[order[place]]))
        while place < len(order) and release_s[order[place]] <= now:
            heapq.heappush(present, (float(works_s[order[place]]), order[place]))
            place += 1
        until = float(release_s[order[place]]) if place < len(order) else np.inf
        job = present[0][1]
        if now + work_left[job] <= until:
            end = now + work_left[job]
            heapq.heappop(present)
        else:
            end = until
            work_left[job] -= until - now
        slices.append((now, end, job))
        now = end
    begins, ends, jobs = zip(*slices, strict=True)
    return np.array(begins), np.array(ends), np.array(jobs)


# What jobs pay at least ----------------------------------------------------------------


@entry
def _pay(
    release_s: Any, share: Any, need_s: Any, solo_s: Any, edges: Any, prices: Any, levels: Any,
    held: Any,
) -> float:  # fmt: skip
    """Return the sum over jobs of their level less the integral of g_j.

    Args:
        levels: of the jobs, to begin with; updated to the best found.
        held: device-seconds held by interval and pool, added to.
    """
    paid = 0.0
    for job in range(len(release_s)):
        level = _level(
            levels[job], release_s[job], share[job], need_s[job], solo_s[job], edges, prices
        )
        levels[job] = level
        saved, _ = _gain(level, release_s[job], share[job], need_s[job], edges, prices, held, True)
        paid += level - saved
    return paid


@kernel
def _level(
    guess: float, release_s: float, share: float, need_s: Any, solo_s: float, edges: Any,
    prices: Any,
) -> float:  # fmt: skip
    """Return a level at which the job is about filled: there the bound is highest."""
    low, high = release_s, np.inf
    level, step = max(guess, release_s), solo_s / 4
    for _ in range(MOST_TRIES):
        _, filled = _gain(level, release_s, share, need_s, edges, prices, prices, False)
        if abs(filled - 1.0) <= CLOSE:
            break
        if filled < 1.0:
            low = level
            level = level + step if high == np.inf else (low + high) / 2
        else:
            high = level
            level = max((low + high) / 2, level - step)
        step *= 2
    return level


@kernel
def _gain(
    level: float, release_s: float, share: float, need_s: Any, edges: Any, prices: Any,
    held: Any, note: bool,
) -> tuple[float, float]:  # fmt: skip
    """Return the integral of g_j, and the part of the job that is done where g_j is above 0.

    In each interval g_j is the upper edge of the lines (zero - t) / need of the pools, where these
    are above 0: a steeper line is highest first, a flatter one later.
    """
    saved, filled = 0.0, 0.0
    last = len(edges) - 1
    first = int(np.searchsorted(edges, release_s, side="right")) - 1
    for interval in range(first, last + 1):
        begin = max(edges[interval], release_s)
        if begin >= level:
            break
        end = edges[interval + 1] if interval < last else np.inf
        for pool in range(len(need_s)):
            price = prices[interval, pool] if interval < last else 0.0
            zero = level - price * share * need_s[pool]
            if not zero > begin or need_s[pool] == np.inf:
                continue
            lower, upper = begin, min(end, zero)
            for other in range(len(need_s)):
                if other == pool or need_s[other] == np.inf:
                    continue
                other_price = prices[interval, other] if interval < last else 0.0
                other_zero = level - other_price * share * need_s[other]
                slower_by = need_s[other] - need_s[pool]
                if slower_by == 0.0:
                    if other_zero > zero or (other_zero == zero and other < pool):
                        upper = lower
                    continue
                meet = (zero * need_s[other] - other_zero * need_s[pool]) / slower_by
                if slower_by > 0:
                    upper = min(upper, meet)
                else:
                    lower = max(lower, meet)
            if upper > lower:
                above, below = zero - lower, zero - upper
                saved += (above * above - below * below) / (2 * need_s[pool])
                filled += (upper - lower) / need_s[pool]
                if note and interval < last:
                    held[interval, pool] += share * (upper - lower)
    return saved, filled
