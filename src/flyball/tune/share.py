"""Share: jobs of one device run two to a device where they hardly slow each other down.

A round does, in this order:

1. *Part* the pairs in which somebody is slower than its limit (measured, not predicted), and,
   while devices are idle and nobody waits, the pairs that are faster apart.
2. *Join* pending jobs to running ones, by the matching of greatest predicted gain.
3. *Gather*: where jobs still wait for devices, put running jobs together two by two, if what
   the freed device does exceeds the restart of the one that moves.

Limit: a job may lose the part `limit` of its speed. With `stay_s` = 0 that holds for every pair.
Else a pair may be slower for a while as long as the job's whole running time so far, and the next
`stay_s` with it, stay within the limit: it lives on the time it had the device to itself.

What a pair does is predicted by `state.pair_guesses`; `learn` puts what was measured there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Reason, Status
from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.tune.matching import match, pair_up
from flyball.tune.plan_draft import Board

WORTHWHILE = 1.35
"""A pair beyond the limit, for a while, must do so many times the work of one alone. On K80 no pair
does (1.275 at most), nor can one hope for it before it has run (1.348): there, what pairs gain is
lost in moving jobs about."""

Bools = npt.NDArray[np.bool_]

TOLERANCE = 0.005
"""A measured speed this far below the limit is not held against a pair."""


@dataclass(frozen=True)
class Share:
    """Settings of the tuner.

    Attributes:
        limit: the part of its speed alone that a job may lose.
        stay_s: 0 = the limit holds in every pair; else over a job's running time, and a pair
            is made only if it can stay so long.
        round_s: until it is asked again.
        moves: a job that was set aside so often is not moved again, and shares within the limit
            of a pair only.
        slowest: a guest's speed must be this part of its best anywhere.
        gather: put running jobs together when others wait.
        most: jobs looked at on either side in a round.
    """

    limit: float = 0.2
    stay_s: float = 0.0
    round_s: float = 60.0
    moves: int = 8
    slowest: float = 0.5
    gather: bool = True
    most: int = 256

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan with pairs parted and made."""
        if not len(state.pair_guesses):
            return plan
        board = Board(state, plan)
        view = _View(state, board)
        self._part(state, board, view)
        self._join(state, board, view)
        if self.gather:
            self._gather(state, board, view)
        return board.plan()

    # 1. Part ----------------------------------------------------------------------

    def _part(self, state: State, board: Board, view: _View) -> None:
        """Stop guests of pairs that are too slow; let others have idle devices of their own."""
        pairs = view.pairs()
        if not len(pairs):
            return
        speed = state.runs.slow[pairs]
        bear = np.all(view.bearable(pairs, speed, self), axis=1).tolist()
        nobody_waits = not len(view.waiting())
        for (_, guest), slow, fine in zip(pairs.tolist(), speed, bear, strict=True):
            if not fine:
                self._apart(board, view, guest, float(1.0 - slow.sum()), must=True)
            elif nobody_waits and self._better_apart(view, guest, slow):
                self._apart(board, view, guest, float(2.0 - slow.sum()), must=False)

    def _better_apart(self, view: _View, guest: int, slow: Floats) -> bool:
        """Whether two devices do more until the guest ends, less its restart."""
        left_us = view.left_us(np.array([guest]), int(view.board.pool[guest]))[0]
        return bool((2.0 - slow.sum()) * left_us > view.move_us(np.array([guest]))[0])

    def _apart(self, board: Board, view: _View, guest: int, gain: float, must: bool) -> None:
        pool = int(board.pool[guest])
        if not must and not board.room(pool, 1):
            return
        board.stop(guest, Reason.PARTED, gain)
        board.start(guest, pool, 1, Reason.PARTED, gain)
        view.forget(guest)

    # 2. Join ----------------------------------------------------------------------

    def _join(self, state: State, board: Board, view: _View) -> None:
        """Start pending jobs beside running ones."""
        holders = view.few(view.alone(), self.most)
        waiting = view.waiting()
        guests = view.few(waiting[view.single[waiting]], self.most)
        if not len(holders) or not len(guests):
            return
        gain = view.gains(holders, guests, self)
        for row, column in match(gain):
            holder, guest = int(holders[row]), int(guests[column])
            if board.join(guest, holder, Reason.SHARED, float(gain[row, column])):
                view.note(holder, guest)

    # 3. Gather --------------------------------------------------------------------

    def _gather(self, state: State, board: Board, view: _View) -> None:
        """Put running jobs together where pending ones could use the devices this frees."""
        wanted = view.wanted()
        for pool in np.flatnonzero(wanted > 0):
            idle = int(board.free[state.nodes.pool == pool].sum())
            alone = view.alone()
            mine = alone[(board.pool[alone] == pool) & view.settled(alone)]
            mine = view.few(mine, self.most)
            gain = view.gains(mine, mine, self)
            left_us = view.left_us(mine, int(pool))
            together_us = np.minimum.outer(left_us, left_us)
            move_us = view.move_us(mine)
            gain = np.where(gain * together_us > np.maximum.outer(move_us, move_us), gain, 0.0)
            often = state.runs.preemptions[mine] >= self.moves
            gain[np.logical_or.outer(often, often)] = 0.0
            for a, b in pair_up(gain)[: max(0, wanted[pool] - idle)]:
                stays, moves = sorted((int(mine[a]), int(mine[b])), key=view.began)
                board.stop(moves, Reason.SHARED, float(gain[a, b]))
                board.join(moves, stays, Reason.SHARED, float(gain[a, b]))
                view.note(stays, moves)


class Seen(NamedTuple):
    """A job beside one other: its profile, the other's, where, and how fast that was."""

    pool: int
    profile: int
    other: int
    speed: float


def learn(state: State) -> Floats:
    """The guesses about pairs after a look at those that run: what was measured replaces them.

    Pure: returns a new array for `state.pair_guesses`.
    """
    guesses = state.pair_guesses.copy()
    profiles = len(state.rates) // len(state.pools)
    for seen in measured(state):
        guesses[(seen.pool * profiles + seen.profile) * profiles + seen.other] = seen.speed
    return guesses


def measured(state: State) -> list[Seen]:
    """What can be seen of pairs now; devices with more than two jobs tell of no pair."""
    single = (state.jobs.devices == 1) & (state.jobs.milli == MILLI_PER_DEVICE)
    running = np.flatnonzero((state.runs.status == Status.RUNNING) & single)
    found = []
    for jobs in _together(state, running):
        if len(jobs) == 2:
            for job, other in (jobs, jobs[::-1]):
                run = state.runs[job]
                profile, beside = state.jobs.profile[[job, other]]
                found.append(Seen(int(run.pool), int(profile), int(beside), float(run.slow)))
    return found


def _together(state: State, running: Ints) -> list[list[int]]:
    """Running one-device jobs by device, where there are several; the holder first."""
    running = running[state.runs.first_row[running] >= 0]
    rows = state.rows[state.runs.first_row[running]]
    spots = np.stack([rows.node.astype(np.uint64), rows.mask], axis=1)
    _, of, counts = np.unique(spots, axis=0, return_inverse=True, return_counts=True)
    of = of.ravel()
    shared = np.flatnonzero(counts[of] > 1)
    found: dict[int, list[int]] = {}
    for at in shared[np.argsort(-rows.milli[shared], kind="stable")]:
        found.setdefault(int(of[at]), []).append(int(running[at]))
    return list(found.values())


class _View:
    """One-device jobs on the board: who is alone, who shares, and what pairs would do."""

    def __init__(self, state: State, board: Board) -> None:
        self.state, self.board = state, board
        jobs = state.jobs
        asks_host = (state.shapes.cpu_milli > 0) | (state.shapes.host_mib > 0)
        self.single: Bools = (  # rigid, and nothing but a device
            (jobs.devices == 1)
            & (jobs.milli == MILLI_PER_DEVICE)
            & (jobs.curve < 0)
            & ~asks_host[jobs.shape_id]
        )
        self._pools = len(state.pools)
        profiles = len(state.rates) // self._pools
        self._speeds = state.pair_guesses.reshape(self._pools, profiles, profiles)
        self._packed = state.rates.packed.reshape(profiles, self._pools)
        runs, now_us = state.runs, board.now_us
        self._running: Bools = runs.status == Status.RUNNING
        ran_us = np.where(self._running, np.maximum(now_us - runs.ready_us, 0), 0)
        self._done_us: Floats = runs.done_us + ran_us * runs.rate
        held_us = np.where(self._running, now_us - runs.since_us, 0)
        self._spent_us: Floats = runs.service_us + held_us  # on a device so far
        self._move_us: Ints = jobs.restart_us + jobs.checkpoint_us
        active = board.active[self.single[board.active]]
        self._on: Ints = active[board.count[active] == 1]
        stays = self._on[self._running[self._on]]
        self._sharers = _together(state, stays)
        self._shared = {job for jobs in self._sharers for job in jobs}

    # Who ----------------------------------------------------------------------------

    def pairs(self) -> Ints:
        """Running pairs: rows of a holder and its guest. Of more on a device, each guest."""
        found = [(jobs[0], guest) for jobs in self._sharers for guest in jobs[1:]]
        return np.array(found, np.int64).reshape(-1, 2)

    def alone(self) -> Ints:
        """One-device jobs that would have a device to themselves, by index."""
        return np.array([job for job in self._on.tolist() if job not in self._shared], np.int64)

    def waiting(self) -> Ints:
        """Pending jobs that the plan does not start, by index."""
        active = self.board.active
        return np.asarray(active[self.board.count[active] == 0])

    def few(self, jobs: Ints, most: int) -> Ints:
        """At most so many of them, of every profile alike, lowest index first."""
        if len(jobs) <= most:
            return jobs
        profile = self.state.jobs.profile[jobs]
        order = np.argsort(profile, kind="stable")
        _, first, counts = np.unique(profile[order], return_index=True, return_counts=True)
        place = np.empty(len(jobs), np.int64)
        place[order] = np.arange(len(jobs)) - np.repeat(first, counts)
        return np.asarray(np.sort(jobs[np.lexsort((jobs, place))[:most]]))

    def wanted(self) -> Ints:
        """Devices that waiting jobs ask for, by pool they could run in."""
        waiting = self.waiting()
        jobs: Any = self.state.jobs[waiting]
        able = self._packed[jobs.profile] > 0
        return np.asarray((able * jobs.devices[:, None]).sum(axis=0), np.int64)

    def settled(self, jobs: Ints) -> Bools:
        """Which of them were running before: what just starts is not moved."""
        return np.asarray(self._running[jobs])

    def began(self, job: int) -> tuple[int, int]:
        """Earlier starters stay where they are."""
        return int(self.state.runs.began_us[job]), job

    def note(self, holder: int, guest: int) -> None:
        """These two share from now on."""
        self._shared |= {holder, guest}

    def forget(self, guest: int) -> None:
        """A guest that was just parted is left in peace in this round."""
        self.single[guest] = False

    # What -----------------------------------------------------------------------------

    def left_us(self, jobs: Ints, pool: int) -> Floats:
        """Estimated time that jobs have left in a pool, alone."""
        return self._left_us(jobs, self._packed[self.state.jobs.profile[jobs], pool])

    def move_us(self, jobs: Ints) -> Ints:
        """What it costs jobs to go on elsewhere."""
        return np.asarray(self._move_us[jobs])

    def gains(self, holders: Ints, guests: Ints, share: Share) -> Floats:
        """Reference work per second that each guest adds beside each holder; 0 = not to be.

        Both must bear it, the two together do more than one alone, and their memory fits.
        """
        jobs, pool = self.state.jobs, self.board.pool[holders]
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
        """Whether jobs stay within the limit should a pair turn out to be of no use at all: a
        round is lost by then, a restart to come together and one to part."""
        fastest = self._packed[self.state.jobs.profile[jobs]].max(axis=1)
        lost_us = (
            self._lost_us(jobs, fastest) + share.round_s * US_PER_S + 2.0 * self._move_us[jobs]
        )
        whole_us = self._spent_us[jobs] + self._left_us(jobs, fastest)
        return np.asarray(lost_us <= share.limit * whole_us)

    def bearable(self, jobs: Ints, speed: Floats, share: Share) -> Bools:
        """Whether jobs may go on at a measured speed until the next round."""
        pool = self.board.pool[jobs]
        if share.stay_s:
            return self._bearable(jobs, speed, share.limit, share.round_s, pool)
        return self._bearable(jobs, speed + TOLERANCE, share.limit, 0.0, pool)

    def _bearable(self, jobs: Ints, speed: Floats, limit: float, stay_s: float, pool: Any) -> Bools:
        """Within the limit as a pair; or over the running time so far, `stay_s` and a restart.

        With `stay_s` what a job has lost already counts as well: where it is beyond the limit so
        far, a pair within it must be so much faster that the rest of the job makes up for that.
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
        lives = after_us <= limit * (spent_us + stay_us + move_us)
        return np.asarray((within & makes_up) | lives)

    def _lost_us(self, jobs: Ints, alone: Floats) -> Floats:
        """Time on devices beyond what the work done so far takes at these speeds."""
        done_us = self._done_us[jobs] / np.maximum(alone, 1e-12)
        return np.asarray(np.maximum(self._spent_us[jobs] - done_us, 0.0))

    def _left_us(self, jobs: Ints, alone: Floats) -> Floats:
        """Estimated time to go at these speeds."""
        left = np.maximum(self.state.jobs.estimate_us[jobs] - self._done_us[jobs], 0.0)
        return np.asarray(left / np.maximum(alone, 1e-12))
