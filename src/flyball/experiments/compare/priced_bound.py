"""The `priced` bound: the fluid relaxation with capacity priced by pool and stretch of time.

In the words of `bounds`: the mean busy time M_j, the integral of t f_j(t), is at most
C_j - d_j / 2, since f_j never exceeds 1 / d_j and is 0 after C_j. So sum(C_j) is at least
sum(M_j + d_j / 2), and it is enough to bound sum(M_j) from below.

Let h_jp(t) be 1 while job j holds its devices in pool p, else 0. At most one of these is 1 at a
time, f_j <= sum_p h_jp / d_jp, and sum_j s_j h_jp <= D_p. Put any price q_p(t) >= 0 on a
device-second of pool p. What is offered costs at least as much as what is held, so

    sum_j M_j >= sum_j integral(t f_j + sum_p q_p s_j h_jp) - sum_p integral(q_p D_p).

As f_j integrates to 1, for any level m the j-th integral is m less the integral of
(m - t) f_j - sum_p q_p s_j h_jp, which is nowhere more than

    g_j(t) = max(0, max_p((m - t) / d_jp - q_p(t) s_j))   from r_j on.

So *every* choice of prices and levels gives a valid bound, whatever way it was found. Here
prices are constant in each stretch of time, so that g_j is the highest of a few straight lines
there and its integral exact. Prices start as those of one machine that does the smallest job
first; then they rise where jobs would use more than there is, and fall where less.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.experiments.compare.bounds import JobNeeds
from flyball.physics.compile import entry, kernel

STRETCHES = 300
STEPS = 100
FIRST_STEP = 0.3
LAST_STEP = 0.02
CLOSE = 1e-3
"""A level is good enough when it fills a job to within this part."""
MOST_TRIES = 60


def priced_s(demand: JobNeeds, weights: Floats) -> float:
    """The bound on the mean completion time, in seconds.

    Args:
        demand: of the jobs.
        weights: of the pools, to begin with; see `bounds.best_shared`.
    """
    # A job without work ends at its release, one without devices takes nobody's room.
    real = (demand.solo_s > 0) & (demand.share > 0)
    total = float((demand.release_s + demand.solo_s)[~real].sum() - demand.submit_s.sum())
    if real.any():
        busy = demand.only(real)
        total += _ascend(busy, weights) + float(busy.solo_s.sum()) / 2
    return total / len(real)


def _ascend(demand: JobNeeds, weights: Floats) -> float:
    """The largest bound on the sum of mean busy times that a few steps find."""
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
        # As a factor, so that prices stay above 0 and in scale.
        prices = prices * np.exp(step * np.clip(held / offered - 1.0, -1.0, 1.0))
    return best


# Prices to begin with ---------------------------------------------------------------


def _first_prices(demand: JobNeeds, weights: Floats) -> tuple[Floats, Floats]:
    """Edges of the stretches, and the prices (stretch, pool) of one machine for all.

    While the machine does a job of work a, the price falls by 1 / a a second, so that no instant of
    its turn serves the job better than another; at the end of a busy period it is 0.
    """
    works = (weights * demand.need_s).min(axis=1) * demand.share
    begin, end, job = _smallest_first(demand.release_s, works / float(weights @ demand.devices))
    falls = (end - begin) / works[job]
    after = np.zeros(len(job))  # the price when a slice ends
    for at in range(len(job) - 2, -1, -1):
        if begin[at + 1] <= end[at]:
            after[at] = after[at + 1] + falls[at + 1]
    # Stretches are short where much happens, and nowhere very long.
    events = np.concatenate((begin, end, demand.release_s + demand.solo_s))
    even = np.linspace(0.0, float(events.max()), STRETCHES // 2)
    instants = np.unique(np.concatenate((events, even)))
    edges = np.unique(np.quantile(instants, np.linspace(0.0, 1.0, STRETCHES + 1)))
    middles = (edges[1:] + edges[:-1]) / 2
    at = np.maximum(0, np.searchsorted(begin, middles, side="right") - 1)
    height = after[at] + np.maximum(0.0, end[at] - middles) / works[job[at]]
    least = 1e-3 * float(height.max())  # a price of 0 would never rise
    return edges, np.maximum(height, least)[:, None] * weights


def _smallest_first(release_s: Floats, works_s: Floats) -> tuple[Any, Any, Any]:
    """Slices (begins, ends, jobs) of a machine that always does the smallest job that is there."""
    order = np.argsort(release_s, kind="stable").tolist()
    work_left = works_s.tolist()
    slices: list[tuple[float, float, int]] = []
    there: list[tuple[float, int]] = []
    now, place = 0.0, 0
    while there or place < len(order):
        if not there:
            now = max(now, float(release_s[order[place]]))
        while place < len(order) and release_s[order[place]] <= now:
            heapq.heappush(there, (float(works_s[order[place]]), order[place]))
            place += 1
        until = float(release_s[order[place]]) if place < len(order) else np.inf
        job = there[0][1]
        if now + work_left[job] <= until:
            end = now + work_left[job]
            heapq.heappop(there)
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
    """The sum over jobs of their level less the integral of g_j.

    Args:
        levels: of the jobs, to begin with; left at the best found.
        held: device-seconds held by stretch and pool, added to.
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
    """A level at which the job is about filled: there the bound is highest."""
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
    """The integral of g_j, and the part of the job that is done where g_j is above 0.

    In each stretch g_j is the upper edge of the lines (zero - t) / need of the pools, where these
    are above 0: a steeper line is highest first, a flatter one later.
    """
    saved, filled = 0.0, 0.0
    last = len(edges) - 1
    first = int(np.searchsorted(edges, release_s, side="right")) - 1
    for stretch in range(first, last + 1):
        begin = max(edges[stretch], release_s)
        if begin >= level:
            break
        end = edges[stretch + 1] if stretch < last else np.inf
        for pool in range(len(need_s)):
            price = prices[stretch, pool] if stretch < last else 0.0
            zero = level - price * share * need_s[pool]
            if not zero > begin or need_s[pool] == np.inf:
                continue
            lower, upper = begin, min(end, zero)
            for other in range(len(need_s)):
                if other == pool or need_s[other] == np.inf:
                    continue
                other_price = prices[stretch, other] if stretch < last else 0.0
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
                if note and stretch < last:
                    held[stretch, pool] += share * (upper - lower)
    return saved, filled
