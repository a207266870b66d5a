"""Share: runs one-device jobs two to a device where they hardly slow each other down.

A round does, in this order:

1. *Part* the pairs in which a job is slower than its limit (measured, not predicted), and,
   while devices are idle and no job waits, the pairs that are faster apart.
2. *Join* pending jobs to running ones, by the matching of greatest predicted gain.
3. *Gather*: where jobs still wait for devices, pair up running jobs if the work on the freed
   device exceeds the restart of the one that moves.

Limit: a job may lose the part `limit` of its speed. With `stay_s` = 0 that holds for every pair.
Else a pair may be slower for a while as long as the job's total running time, including the next
`stay_s`, stays within the limit: it uses up the time it had the device to itself.

The speed of a pair is predicted by `state.pair_guesses`; `seen_speeds.learn_speeds` puts
measurements there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Reason, Status
from flyball.core.protocols import Outlook
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.tune.matching import match, pair_up
from flyball.tune.plan_draft import PlanDraft

WORTHWHILE = 1.35
"""Least work of a pair beyond the limit, relative to one job alone. On K80 no pair reaches it
(1.275 at most), nor is predicted to before it has run (1.348): there, what pairs gain is lost in
moving jobs."""

Bools = npt.NDArray[np.bool_]

TOLERANCE = 0.005
"""How far below the limit a measured speed may be before a pair is parted."""


@dataclass(frozen=True)
class Share:
    """Holds the settings of the tuner.

    Attributes:
        limit: the part of its speed alone that a job may lose.
        stay_s: 0 = the limit holds in every pair; else over a job's running time, and a pair
            is formed only if it can stay this long.
        round_s: time until the next round.
        moves: a job that was preempted this often is not moved again, and shares only within
            the limit of a pair.
        slowest: least speed of a guest, relative to its best in any pool.
        gather: pair up running jobs when others wait.
        most: jobs considered on either side in a round.
        alone: workload classes whose jobs never share a device.
    """

    limit: float = 0.2
    stay_s: float = 0.0
    round_s: float = 60.0
    moves: int = 8
    slowest: float = 0.5
    gather: bool = True
    most: int = 256
    alone: tuple[int, ...] = ()

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with pairs parted and formed."""
        if not len(state.pair_guesses):
            return plan
        draft = PlanDraft(state, plan)
        view = _PairView(state, draft, self.alone)
        self._part(state, draft, view)
        self._join(state, draft, view)
        if self.gather:
            self._gather(state, draft, view)
        return draft.plan()

    # 1. Part ----------------------------------------------------------------------

    def _part(self, state: State, draft: PlanDraft, view: _PairView) -> None:
        """Stop guests of pairs that are too slow; move others to idle devices if that pays."""
        pairs = view.pairs()
        if not len(pairs):
            return
        speed = state.runs.slow[pairs]
        bear = np.all(view.bearable(pairs, speed, self), axis=1).tolist()
        none_waits = not len(view.waiting())
        for (_, guest), slow, fine in zip(pairs.tolist(), speed, bear, strict=True):
            if not fine:
                self._apart(draft, view, guest, float(1.0 - slow.sum()), must=True)
            elif none_waits and self._better_apart(view, guest, slow):
                self._apart(draft, view, guest, float(2.0 - slow.sum()), must=False)

    def _better_apart(self, view: _PairView, guest: int, slow: Floats) -> bool:
        """Return whether two devices do more until the guest ends, net of its restart."""
        left_us = view.left_us(np.array([guest]), int(view.draft.pool[guest]))[0]
        return bool((2.0 - slow.sum()) * left_us > view.move_us(np.array([guest]))[0])

    def _apart(
        self, draft: PlanDraft, view: _PairView, guest: int, gain: float, must: bool
    ) -> None:
        """Restart a guest on another device; it may have to wait for one if it `must` leave."""
        pool = int(draft.pool[guest])
        if not must and not draft.room(pool, 1):
            return
        draft.stop(guest, Reason.PARTED, gain)
        draft.start(guest, pool, 1, Reason.PARTED, gain)
        view.forget(guest)

    # 2. Join ----------------------------------------------------------------------

    def _join(self, state: State, draft: PlanDraft, view: _PairView) -> None:
        """Start pending jobs as guests of running ones."""
        holders = view.few(view.alone(), self.most)
        waiting = view.waiting()
        guests = view.few(waiting[view.single[waiting]], self.most)
        if not len(holders) or not len(guests):
            return
        gain = view.gains(holders, guests, self)
        for row, column in match(gain):
            holder, guest = int(holders[row]), int(guests[column])
            if draft.join(guest, holder, Reason.SHARED, float(gain[row, column])):
                view.note(holder, guest)

    # 3. Gather --------------------------------------------------------------------

    def _gather(self, state: State, draft: PlanDraft, view: _PairView) -> None:
        """Pair up running jobs where pending ones could use the devices this frees."""
        demand = view.wanted()
        for pool in np.flatnonzero(demand > 0):
            idle = int(draft.free[state.nodes.pool == pool].sum())
            alone = view.alone()
            candidates = alone[(draft.pool[alone] == pool) & view.settled(alone)]
            candidates = view.few(candidates, self.most)
            gain = view.gains(candidates, candidates, self)
            left_us = view.left_us(candidates, int(pool))
            together_us = np.minimum.outer(left_us, left_us)
            move_us = view.move_us(candidates)
            gain = np.where(gain * together_us > np.maximum.outer(move_us, move_us), gain, 0.0)
            often = state.runs.preemptions[candidates] >= self.moves
            gain[np.logical_or.outer(often, often)] = 0.0
            for a, b in pair_up(gain)[: max(0, demand[pool] - idle)]:
                stays, moves = sorted((int(candidates[a]), int(candidates[b])), key=view.began)
                draft.stop(moves, Reason.SHARED, float(gain[a, b]))
                draft.join(moves, stays, Reason.SHARED, float(gain[a, b]))
                view.note(stays, moves)


def _together(state: State, running: Ints) -> list[list[int]]:
    """Group running one-device jobs by device, where there are several; the holder first."""
    running = running[state.runs.first_row[running] >= 0]
    rows = state.rows[state.runs.first_row[running]]
    spots = np.stack([rows.node.astype(np.uint64), rows.mask], axis=1)
    _, device_of, counts = np.unique(spots, axis=0, return_inverse=True, return_counts=True)
    device_of = device_of.ravel()
    shared = np.flatnonzero(counts[device_of] > 1)
    groups: dict[int, list[int]] = {}
    for at in shared[np.argsort(-rows.milli[shared], kind="stable")]:
        groups.setdefault(int(device_of[at]), []).append(int(running[at]))
    return list(groups.values())


class _PairView:
    """Views the one-device jobs of a draft: which are alone, which share, what pairs would do."""

    def __init__(self, state: State, draft: PlanDraft, alone: tuple[int, ...] = ()) -> None:
        self.state, self.draft = state, draft
        jobs = state.jobs
        asks_host = (state.shapes.cpu_milli > 0) | (state.shapes.host_mib > 0)
        self.single: Bools = (  # rigid, and nothing but a device
            (jobs.devices == 1)
            & (jobs.milli == MILLI_PER_DEVICE)
            & (jobs.curve < 0)
            & ~asks_host[jobs.shape_id]
        )
        if alone:
            self.single &= ~np.isin(jobs.kind, alone)
        self._pools = len(state.pools)
        profiles = len(state.rates) // self._pools
        self._speeds = state.pair_guesses.reshape(self._pools, profiles, profiles)
        self._packed = state.rates.packed.reshape(profiles, self._pools)
        runs, now_us = state.runs, draft.now_us
        self._running: Bools = runs.status == Status.RUNNING
        ran_us = np.where(self._running, np.maximum(now_us - runs.ready_us, 0), 0)
        self._done_us: Floats = runs.done_us + ran_us * runs.rate
        held_us = np.where(self._running, now_us - runs.since_us, 0)
        self._spent_us: Floats = runs.service_us + held_us  # on a device so far
        self._move_us: Ints = jobs.restart_us + jobs.checkpoint_us
        active = draft.active[self.single[draft.active]]
        self._on: Ints = active[draft.count[active] == 1]
        stays = self._on[self._running[self._on]]
        self._sharers = _together(state, stays)
        self._shared = {job for jobs in self._sharers for job in jobs}

    # Jobs ---------------------------------------------------------------------------

    def pairs(self) -> Ints:
        """Return the running pairs as rows of holder and guest; one row for each guest."""
        rows = [(jobs[0], guest) for jobs in self._sharers for guest in jobs[1:]]
        return np.array(rows, np.int64).reshape(-1, 2)

    def alone(self) -> Ints:
        """Return the one-device jobs that would have a device to themselves, by index."""
        return np.array([job for job in self._on.tolist() if job not in self._shared], np.int64)

    def waiting(self) -> Ints:
        """Return the pending jobs that the plan does not start, by index."""
        active = self.draft.active
        return np.asarray(active[self.draft.count[active] == 0])

    def few(self, jobs: Ints, most: int) -> Ints:
        """Return at most `most` of the jobs, evenly over profiles, lowest index first."""
        if len(jobs) <= most:
            return jobs
        profile = self.state.jobs.profile[jobs]
        order = np.argsort(profile, kind="stable")
        _, first, counts = np.unique(profile[order], return_index=True, return_counts=True)
        place = np.empty(len(jobs), np.int64)
        place[order] = np.arange(len(jobs)) - np.repeat(first, counts)
        return np.asarray(np.sort(jobs[np.lexsort((jobs, place))[:most]]))

    def wanted(self) -> Ints:
        """Return the devices that waiting jobs ask for, by pool they could run in."""
        waiting = self.waiting()
        jobs: Any = self.state.jobs[waiting]
        able = self._packed[jobs.profile] > 0
        return np.asarray((able * jobs.devices[:, None]).sum(axis=0), np.int64)

    def settled(self, jobs: Ints) -> Bools:
        """Return which jobs were running before: those that just start are not moved."""
        return np.asarray(self._running[jobs])

    def began(self, job: int) -> tuple[int, int]:
        """Return a sort key by start: of a pair the earlier starter stays."""
        return int(self.state.runs.began_us[job]), job

    def note(self, holder: int, guest: int) -> None:
        """Record that these two jobs share a device from now on."""
        self._shared |= {holder, guest}

    def forget(self, guest: int) -> None:
        """Exclude a guest that was just parted for the rest of the round."""
        self.single[guest] = False

    # Speeds ---------------------------------------------------------------------------

    def left_us(self, jobs: Ints, pool: int) -> Floats:
        """Return the estimated time that jobs have left in a pool, alone."""
        return self._left_us(jobs, self._packed[self.state.jobs.profile[jobs], pool])

    def move_us(self, jobs: Ints) -> Ints:
        """Return the time that a move costs jobs."""
        return np.asarray(self._move_us[jobs])

    def gains(self, holders: Ints, guests: Ints, share: Share) -> Floats:
        """Return the reference work per second that each guest adds to each holder; 0 = no pair.

        Both must stay within the limit, the two must do more than one alone, and memory must fit.
        """
        jobs, pool = self.state.jobs, self.draft.pool[holders]
        mine, theirs = jobs.profile[holders], jobs.profile[guests]
        held = self._speeds[pool[:, None], mine[:, None], theirs[None, :]]
        joined = self._speeds[pool[:, None], theirs[None, :], mine[:, None]]
        rate = self._packed[theirs][:, pool].T  # of the guest alone there
        best = self._packed[theirs].max(axis=1)
        worth = jobs.reference_us / np.maximum(jobs.estimate_us, 1.0)
        before = worth[holders] * self._packed[mine, pool]
        after = before[:, None] * held + worth[guests][None, :] * rate * joined
        memory = jobs.memory_mib[holders][:, None] + jobs.memory_mib[guests][None, :]
        fine = (held > 0) & (joined > 0) & (held + joined > 1.0)
        fine &= rate * joined >= share.slowest * best[None, :]
        fine &= memory <= self.state.pools.memory_mib[pool][:, None]
        fine &= self._bearable(holders, held.T, share.limit, share.stay_s, pool).T
        fine &= self._bearable(guests, joined, share.limit, share.stay_s, pool[:, None])
        often = self.state.runs.preemptions >= share.moves
        within = (held >= 1.0 - share.limit - 1e-9) & (joined >= 1.0 - share.limit - 1e-9)
        fine &= within | ~(often[holders][:, None] | often[guests][None, :])
        fine &= within | (held + joined >= WORTHWHILE)
        fine &= holders[:, None] != guests[None, :]
        if share.stay_s:
            fine &= np.logical_and.outer(
                self._can_try(holders, share), self._can_try(guests, share)
            )
        return np.asarray(np.where(fine, after - before[:, None], 0.0))

    def _can_try(self, jobs: Ints, share: Share) -> Bools:
        """Return whether jobs stay within the limit even if a pair turns out to be useless.

        By then a round is lost, and one restart each to form the pair and to part it.
        """
        fastest = self._packed[self.state.jobs.profile[jobs]].max(axis=1)
        lost_us = (
            self._lost_us(jobs, fastest) + share.round_s * US_PER_S + 2.0 * self._move_us[jobs]
        )
        total_us = self._spent_us[jobs] + self._left_us(jobs, fastest)
        return np.asarray(lost_us <= share.limit * total_us)

    def bearable(self, jobs: Ints, speed: Floats, share: Share) -> Bools:
        """Return whether jobs may continue at a measured speed until the next round."""
        pool = self.draft.pool[jobs]
        if share.stay_s:
            return self._bearable(jobs, speed, share.limit, share.round_s, pool)
        return self._bearable(jobs, speed + TOLERANCE, share.limit, 0.0, pool)

    def _bearable(self, jobs: Ints, speed: Floats, limit: float, stay_s: float, pool: Any) -> Bools:
        """Return whether a speed is within the limit as a pair, or over the total running time.

        The total is the running time so far, `stay_s` and a restart. With `stay_s` past losses
        count as well: where a job is beyond the limit so far, a pair within it must be fast enough
        for the rest of the job to make up for that.
        """
        within = speed >= 1.0 - limit - 1e-9
        if not stay_s:
            return np.asarray(within)
        alone = self._packed[self.state.jobs.profile[jobs], pool]
        lost_us, spent_us = self._lost_us(jobs, alone), self._spent_us[jobs]
        rest_us = self._left_us(jobs, alone) / np.maximum(speed, 1e-12)
        over_us = np.maximum(lost_us - limit * spent_us, 0.0)
        makes_up = over_us <= (speed - (1.0 - limit)) * rest_us + 1.0
        stay_us = stay_s * US_PER_S
        move_us = self._move_us[jobs]
        after_us = lost_us + (1.0 - speed) * stay_us + move_us
        within_total = after_us <= limit * (spent_us + stay_us + move_us)
        return np.asarray((within & makes_up) | within_total)

    def _lost_us(self, jobs: Ints, alone: Floats) -> Floats:
        """Return the time on devices beyond what the work done so far takes at these speeds."""
        done_us = self._done_us[jobs] / np.maximum(alone, 1e-12)
        return np.asarray(np.maximum(self._spent_us[jobs] - done_us, 0.0))

    def _left_us(self, jobs: Ints, alone: Floats) -> Floats:
        """Return the estimated time left at these speeds."""
        left = np.maximum(self.state.jobs.estimate_us[jobs] - self._done_us[jobs], 0.0)
        return np.asarray(left / np.maximum(alone, 1e-12))
