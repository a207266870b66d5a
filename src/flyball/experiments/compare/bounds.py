"""Lower bounds on the mean completion time, which no policy can beat.

Regret is measured against the best of three bounds. All use the same few facts. Job j is
present from its release r_j (its submission, or later if a predecessor cannot have ended before).
Its share is s_j devices. Alone in pool p it needs d_jp: its work over its rate there (packed or
spread, whichever is higher), or its limit if that is shorter; infinite where it cannot run.
d_j is the least of these. Pool p has D_p devices.

*What every schedule obeys.* Let f_j(t) be the part of job j that is done per second at time
t, counting only progress that is kept. It integrates to 1 by the completion C_j, is 0 before r_j,
and in pool p it is at most 1 / d_jp while s_j devices of that pool are held. (A job that is killed
by its limit spent its last attempt, at least d_jp, on its devices: take f_j = 1 / limit there.)
Restarts, lost work, failures, waking nodes, caps, fragmentation, array limits and power budgets
only delay completions and are left out.

`solo`: C_j >= r_j + d_j, as f_j never exceeds 1 / d_j.

`shared`: give each pool a weight w_p >= 0. All pools together offer sum(w_p D_p) weighted
devices, and job j cannot be done with less than a_j = min_p(w_p s_j d_jp) weighted
device-seconds, since all of it done in pool p would cost w_p s_j d_jp, and parts in proportion.
So the schedule is also one on a single machine of that speed with works a_j. There the rule
"shortest remaining work first" has at every instant completed at least as many jobs as any
other schedule, shared machine included (Schrage 1968); hence the k-th completion of any
schedule is not before the k-th of that rule. Nor is it before the k-th smallest r_j + d_j. The
larger of the two, summed over k, is a bound. Any weights are valid; a search finds good ones.

`priced`: capacity has a price by pool and time, see `priced_bound`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.results import Floats
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import Workload
from flyball.twin.build import build_state

WEIGHT_STEPS = (2.0, 1.3)
"""Factors that pool weights are multiplied and divided by, in turn."""


@dataclass(frozen=True)
class JobNeeds:
    """Holds what jobs need and what pools have, in seconds and devices.

    Attributes:
        submit_s: submission of each job, since the first one.
        release_s: earliest start of each job.
        share: devices that each job holds.
        need_s: run time of each job (row) alone in each pool (column); infinite = cannot run.
        devices: of each pool.
    """

    submit_s: Floats
    release_s: Floats
    share: Floats
    need_s: Floats
    devices: Floats

    @property
    def solo_s(self) -> Floats:
        """Run time of each job alone in the pool that is best for it."""
        least: Floats = self.need_s.min(axis=1)
        return least

    def only(self, jobs: npt.NDArray[np.bool_]) -> JobNeeds:
        """Return the same for some of the jobs."""
        return replace(
            self,
            submit_s=self.submit_s[jobs],
            release_s=self.release_s[jobs],
            share=self.share[jobs],
            need_s=self.need_s[jobs],
        )


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on the mean completion time, in seconds; `best` is the largest."""

    solo_s: float
    shared_s: float
    priced_s: float

    @property
    def best_s(self) -> float:
        return max(self.solo_s, self.shared_s, self.priced_s)

    def as_dict(self) -> dict[str, float]:
        """Return one entry of the JSON's `bounds`."""
        return {
            "solo_s": self.solo_s,
            "shared_s": self.shared_s,
            "priced_s": self.priced_s,
            "best_s": self.best_s,
        }


def lower_bounds(cluster: Cluster, workload: Workload, effects: Effects) -> Bounds:
    """Compute every bound; `effects` matter only for the speed of spread gangs."""
    from flyball.experiments.compare.priced_bound import priced_s

    demand = demand_of(cluster, workload, effects)
    weights, shared = best_shared(demand)
    return Bounds(solo_s(demand), shared, priced_s(demand, weights))


def demand_of(cluster: Cluster, workload: Workload, effects: Effects) -> JobNeeds:
    """Return the facts that bounds are computed from.

    Raises:
        BadInput: a job that no pool could ever hold.
    """
    # Without a power budget, so that a pool counts even if only a capped device could use it.
    state = build_state(replace(cluster, power_budget_w=0.0), workload, Knobs(), effects)
    jobs, pools = state.jobs, state.pools
    rates = state.rates.reshape(-1, len(pools))[jobs.profile]
    rate = np.maximum(rates["packed"], rates["spread"])
    could = (state.shapes.pools[jobs.shape_id][:, None] >> np.arange(len(pools)).astype("u8")) & 1
    need_us = np.full(rate.shape, np.inf)
    np.divide(jobs.work_us[:, None], rate, out=need_us, where=(could == 1) & (rate > 0))
    limit_us = np.where(jobs.limit_us > 0, jobs.limit_us.astype(np.float64), np.inf)[:, None]
    need_us = np.where(np.isfinite(need_us), np.minimum(need_us, limit_us), np.inf)
    submit_s = (jobs.submit_us - jobs.submit_us[0]) / US_PER_S
    need_s = need_us / US_PER_S
    return JobNeeds(
        submit_s=submit_s,
        release_s=_releases(workload, submit_s, need_s.min(axis=1)),
        share=jobs.devices * jobs.milli / MILLI_PER_DEVICE,
        need_s=need_s,
        devices=(pools.nodes * pools.capacity).astype(np.float64),
    )


def _releases(workload: Workload, submit_s: Floats, solo_s: Floats) -> Floats:
    """Return submissions, or the earliest end of the last predecessor if that is later."""
    release_s = submit_s.copy()
    while True:  # one pass for each job of the longest chain
        later = release_s.copy()
        ends = (release_s + solo_s)[workload.after_on]
        np.maximum.at(later, workload.after_job, ends)
        if (later == release_s).all():
            return release_s
        release_s = later


def solo_s(demand: JobNeeds) -> float:
    """Return the bound of every job alone on the cluster."""
    return float(np.mean(demand.release_s + demand.solo_s - demand.submit_s))


def shared_s(demand: JobNeeds, weights: Floats) -> float:
    """Return the bound of one machine as fast as all pools together, at these weights."""
    works = (weights * demand.need_s).min(axis=1) * demand.share / float(weights @ demand.devices)
    ends = np.sort(_shortest_remaining_ends(demand.release_s, works))
    alone = np.sort(demand.release_s + demand.solo_s)
    return float(np.mean(np.maximum(ends, alone)) - np.mean(demand.submit_s))


def best_shared(demand: JobNeeds) -> tuple[Floats, float]:
    """Return weights of the pools that make `shared_s` large, and its value there.

    Starts from each pool's mean relative speed, which is best if all jobs see the pools alike.
    """
    speed = demand.solo_s[:, None] / np.where(demand.need_s > 0, demand.need_s, np.inf)
    mean_speed = np.average(speed, axis=0, weights=demand.share * demand.solo_s + 1e-9)
    starts = [np.ones(len(demand.devices)), np.maximum(mean_speed, 1e-3)]
    best, weights = max(
        ((shared_s(demand, start), start) for start in starts), key=lambda pair: pair[0]
    )
    if len(weights) == 1:
        return weights, best
    for step in WEIGHT_STEPS:
        for pool in range(len(weights)):
            for factor in (step, 1 / step):
                moved = weights.copy()
                moved[pool] *= factor
                value = shared_s(demand, moved)
                if value > best:
                    best, weights = value, moved
    return weights, best


def _shortest_remaining_ends(release_s: Floats, works_s: Floats) -> Floats:
    """Return completions on one machine that always runs the job with the least work left."""
    order = np.argsort(release_s, kind="stable")
    ends = np.zeros(len(order))
    left: list[tuple[float, int]] = []
    now = 0.0
    for place, job in enumerate(order.tolist()):
        now = max(now, float(release_s[job]))
        heapq.heappush(left, (float(works_s[job]), job))
        last = place + 1 == len(order)
        until = np.inf if last else float(release_s[order[place + 1]])
        while left and now < until:
            work, first = heapq.heappop(left)
            if now + work > until:
                heapq.heappush(left, (work - (until - now), first))
                now = until
            else:
                now += work
                ends[first] = now
    return ends
