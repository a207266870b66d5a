"""One round of choosing places by price: the options with their surplus, on a board."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import Reason, Status
from flyball.core.results import Floats, Ints
from flyball.core.units import US_PER_S, to_us
from flyball.tune.options import Options
from flyball.tune.plan_draft import Board
from flyball.tune.room import Victims, make_room

TRIES = 4
"""Of its best options a running job tries this many before it stays where it is."""
WAYS = 32
"""Pending jobs that others may be shrunk for in a round."""
TIE = 1e-9
"""Surplus that counts as none: prices leave many options at just 0."""


class Terms(NamedTuple):
    """When a change may be made; see `Elastic` for what each means."""

    horizon_s: float
    gap_s: float
    patience_s: float
    margin: float


class Market:
    """The jobs of a round, what they want at the prices, and what they get.

    Arrays by job are in the order of `options.jobs`; `at` is an index into them.
    """

    def __init__(
        self, board: Board, options: Options, worth: Floats, price: Floats, terms: Terms
    ) -> None:
        self.board, self.options, self.terms = board, options, terms
        self.worth = worth
        self.surplus: Floats = worth - price[options.pool] * options.count
        jobs, runs = board.state.jobs.view(np.ndarray), board.state.runs.view(np.ndarray)
        mine, now_us = options.jobs, board.now_us
        self.running = (runs["status"][mine] == Status.RUNNING) & (board.pool[mine] >= 0)
        self.started = runs["attempt"][mine] > 0
        self.asked = jobs["devices"][mine]
        self.left_us = _left_us(jobs, runs, mine, now_us)
        self.restart_s = (jobs["restart_us"][mine] + jobs["checkpoint_us"][mine]) / US_PER_S
        since_us = np.where(self.started, runs["began_us"][mine], jobs["submit_us"][mine])
        self.waited_s = (now_us - since_us) / US_PER_S
        gap_us = to_us(terms.gap_s) * (1 + runs["preemptions"][mine].astype(np.int64))
        self.ripe = self.running & (now_us - runs["began_us"][mine] >= gap_us)
        for at in np.flatnonzero(self.ripe & (board.count[mine] == 1)).tolist():
            self.ripe[at] = not board.guests(int(mine[at]))  # pairs are for others to part
        self.elastic = jobs["curve"][mine] >= 0
        self._order: dict[int, list[int]] = {}  # options of a kind, highest surplus first
        self._less: dict[tuple[int, int], int] = {}  # by option and devices fewer, the next one
        self._no_room: set[tuple[int, int]] = set()  # (pool, count) that failed
        self._stuck: set[int] = set()  # kinds that found no place

    def unplan(self) -> None:
        """Take back the starts of the plan."""
        placed = self.board.pool[self.options.jobs] >= 0
        for at in np.flatnonzero(~self.running & placed).tolist():
            self.board.stop(int(self.options.jobs[at]), Reason.SIZED, 0.0)

    # Who waited too long ------------------------------------------------------------

    def serve_late(self) -> None:
        """Start the jobs that waited longer than the patience; room is made for one of them."""
        late = np.flatnonzero(~self.running & (self.waited_s >= self.terms.patience_s))
        made = False
        for at in late[np.argsort(-self.waited_s[late], kind="stable")].tolist():
            if self._start(at, -np.inf) or made or self.started[at]:
                continue
            made = self._make_room(at)

    def _make_room(self, at: int) -> bool:
        """Set elastic jobs aside for one that never ran; they find another place or size."""
        options, job = self.options, int(self.options.jobs[at])
        able = np.flatnonzero(self.ripe & self.elastic & (self.board.pool[options.jobs] >= 0))
        now = self._now(able)
        values = np.where(now >= 0, options.value[now], 0.0)
        victims = Victims(options.jobs[able].tolist(), values.tolist())
        for option in self._ranked(int(options.of_job[at])):
            pool, count = int(options.pool[option]), int(options.count[option])
            chosen = make_room(self.board, victims, pool, count)
            if chosen is None:
                continue
            for victim in chosen:
                self.board.stop(victim, Reason.YIELDED, float(options.value[option]))
                self.running[np.searchsorted(options.jobs, victim)] = False
            self._freed()
            if self.board.start(job, pool, count, Reason.OVERDUE, float(options.value[option])):
                return True
        return False

    # Running jobs -----------------------------------------------------------------------

    def change(self) -> None:
        """Resize and move running jobs where that pays, those that shrink first."""
        options = self.options
        able = np.flatnonzero(self.ripe & self.running)
        if not len(able):
            return
        kinds = options.of_job[able]
        best = np.array([self._ranked(kind)[0] for kind in kinds.tolist()])
        now = self._now(able)
        gain = self.surplus[best] - np.where(now >= 0, self.surplus[now], 0.0)
        wanted = (best != now) & self._pays(able, best, gain)
        jobs = options.jobs[able]
        shrinks = (options.pool[best] == self.board.pool[jobs]) & (
            options.count[best] < self.board.count[jobs]
        )
        chosen = np.flatnonzero(wanted)
        chosen = chosen[np.lexsort((able[chosen], -gain[chosen], ~shrinks[chosen]))]
        for each in chosen.tolist():
            self._change(int(able[each]), int(now[each]))

    def _now(self, able: Ints) -> Ints:
        """The options that running jobs have now."""
        jobs = self.options.jobs[able]
        if not len(jobs):
            return jobs
        return self.options.at(
            self.options.of_job[able], self.board.pool[jobs], self.board.count[jobs]
        )

    def _pays(self, at: Any, option: Any, gain: Any) -> Any:
        """Whether a gain over what is left of a job exceeds checkpoint and restart."""
        left_s = self.left_us[at] / self.options.rate[option] / US_PER_S
        cost = self.restart_s[at] * self.options.value[option]
        return gain * np.minimum(left_s, self.terms.horizon_s) > self.terms.margin * cost

    def _change(self, at: int, now: int) -> None:
        """Give a running job the best of its options that has room and still pays."""
        board, options, job = self.board, self.options, int(self.options.jobs[at])
        pool, count, cap = int(board.pool[job]), int(board.count[job]), int(board.cap[job])
        here = float(self.surplus[now]) if now >= 0 else 0.0
        for option in self._ranked(int(options.of_job[at]))[:TRIES]:
            gain = float(self.surplus[option]) - here
            to_pool, to_count = int(options.pool[option]), int(options.count[option])
            if option == now or not self._pays(at, option, gain):
                return
            if board.free_in(to_pool) + (count if pool == to_pool else 0) < to_count:
                continue
            why = _reason(pool, count, to_pool, to_count)
            board.stop(job, why, gain)
            if board.start(job, to_pool, to_count, why, gain, cap):
                self._freed()
                return
            back = board.start(job, pool, count, why, gain, cap)
            assert back, "a job fits where it was"

    # Pending jobs -------------------------------------------------------------------------

    def start_pending(self) -> None:
        """Start what is worth its price, highest surplus a device first, then the shortest."""
        options = self.options
        waiting = self._waiting()
        if not len(waiting):
            return
        kinds = options.of_job[waiting].tolist()
        able = np.array([bool(self._ranked(kind)) for kind in kinds])
        waiting = waiting[able]
        best = np.array([self._ranked(kind)[0] for kind in options.of_job[waiting].tolist()], int)
        density = self.surplus[best] / options.count[best]
        for at in waiting[np.lexsort((waiting, self.left_us[waiting], -density))].tolist():
            self._start(at, -TIE)

    def make_way(self) -> None:
        """Shrink a running job for each that is worth more than what the other loses.

        At the prices both may be content where they are: what a device is worth to the last who
        has it and to the first who has none is then the same, and nobody moves.
        """
        waiting = self._waiting()
        able = np.flatnonzero(self.ripe & self.elastic & (self.board.pool[self.options.jobs] >= 0))
        if not len(waiting) or not len(able):
            return
        holders: dict[int, list[int]] = {}
        for at, now in zip(able.tolist(), self._now(able).tolist(), strict=True):
            holders.setdefault(now, []).append(at)
        holders.pop(-1, None)
        wanted = [
            (-float(self.surplus[option]), float(self.left_us[at]), at)
            for at, kind in zip(
                waiting.tolist(), self.options.of_job[waiting].tolist(), strict=True
            )
            for option in self._ranked(kind)[:1]
            if self.surplus[option] > TIE
        ]
        for _surplus, _left, at in sorted(wanted)[:WAYS]:
            ranked = self._ranked(int(self.options.of_job[at]))[:TRIES]
            any(self._way(at, option, holders) for option in ranked if self.surplus[option] > TIE)

    def _way(self, at: int, option: int, holders: dict[int, list[int]]) -> bool:
        """Start a pending job on what one running job gives up, if that pays."""
        board, options = self.board, self.options
        pool, count = int(options.pool[option]), int(options.count[option])
        found = self._cheapest(pool, count - board.free_in(pool), holders)
        if found is None:
            return False
        now, less = found
        other = holders[now][0]
        gain = float(self.worth[option] - self.worth[now] + self.worth[less])
        if not (self._pays(other, less, gain) and self._pays(at, option, gain)):
            return False
        victim, job = int(options.jobs[other]), int(options.jobs[at])
        had, cap = int(options.count[now]), int(board.cap[victim])
        board.stop(victim, Reason.SHRANK, gain)
        if board.start(victim, pool, int(options.count[less]), Reason.SHRANK, gain, cap):
            if board.start(job, pool, count, Reason.SIZED, gain):
                holders[now].pop(0)
                self._freed()
                return True
            board.stop(victim, Reason.SHRANK, gain)
        back = board.start(victim, pool, had, Reason.SHRANK, gain, cap)
        assert back, "a job fits where it was"
        return False

    def _cheapest(
        self, pool: int, need: int, holders: dict[int, list[int]]
    ) -> tuple[int, int] | None:
        """The option whose holders lose least by giving up so many devices, and the smaller one."""
        best: tuple[float, int, int] | None = None
        for now, jobs in holders.items():
            less = self._smaller(now, need) if jobs and self.options.pool[now] == pool else -1
            if less >= 0:
                lost = float(self.worth[now] - self.worth[less])
                best = min(best, (lost, now, less)) if best else (lost, now, less)
        return None if best is None else best[1:]

    def _smaller(self, now: int, need: int) -> int:
        """The option of most worth with so many devices fewer, in the same pool; -1 = none."""
        key = now, max(need, 1)
        if key not in self._less:
            options, kind = self.options, int(self.options.kind[now])
            begin, end = int(options.begin[kind]), int(options.begin[kind + 1])
            able = options.pool[begin:end] == options.pool[now]
            able &= options.count[begin:end] <= options.count[now] - key[1]
            worth = np.where(able, self.worth[begin:end], -np.inf)
            self._less[key] = begin + int(worth.argmax()) if able.any() else -1
        return self._less[key]

    def fill(self) -> None:
        """Start what still waits on what is still free, longest wait first."""
        waiting = self._waiting()
        self._stuck.clear()
        for at in waiting[np.argsort(-self.waited_s[waiting], kind="stable")].tolist():
            if not self.board.free.any():
                return
            kind = int(self.options.of_job[at])
            if kind in self._stuck:
                continue
            begin, end = int(self.options.begin[kind]), int(self.options.begin[kind + 1])
            order = begin + np.argsort(-self.worth[begin:end], kind="stable")
            if not self._first_with_room(at, order[self.worth[order] > 0.0].tolist()):
                self._stuck.add(kind)

    def _waiting(self) -> Ints:
        return np.flatnonzero(~self.running & (self.board.pool[self.options.jobs] < 0))

    def _start(self, at: int, floor: float) -> bool:
        """Start a pending job where its surplus is highest among what has room."""
        kind = int(self.options.of_job[at])
        if kind in self._stuck:
            return False
        ranked = self._ranked(kind)
        if self._first_with_room(at, (each for each in ranked if self.surplus[each] >= floor)):
            return True
        self._stuck.add(kind)
        return False

    def _first_with_room(self, at: int, options: Iterable[int]) -> bool:
        job, asked = int(self.options.jobs[at]), int(self.asked[at])
        for option in options:
            pool, count = int(self.options.pool[option]), int(self.options.count[option])
            if (pool, count) in self._no_room:
                continue
            why = Reason.IN_ORDER if count == asked else Reason.SIZED
            if self.board.start(job, pool, count, why, float(self.options.value[option])):
                return True
            self._no_room.add((pool, count))
        return False

    def _ranked(self, kind: int) -> list[int]:
        """The options of a kind, highest surplus first."""
        found = self._order.get(kind)
        if found is None:
            begin, end = int(self.options.begin[kind]), int(self.options.begin[kind + 1])
            found = (begin + np.argsort(-self.surplus[begin:end], kind="stable")).tolist()
            self._order[kind] = found
        return found

    def _freed(self) -> None:
        """Devices came free: what found no room may find some now."""
        self._no_room.clear()
        self._stuck.clear()


def _reason(pool: int, count: int, to_pool: int, to_count: int) -> Reason:
    if pool != to_pool:
        return Reason.CHANGED_TYPE
    return Reason.GREW if to_count > count else Reason.SHRANK


def _left_us(jobs: Any, runs: Any, mine: Ints, now_us: int) -> Floats:
    """Estimated work left; an estimate that was outlived doubles."""
    estimate_us = jobs["estimate_us"][mine]
    running = runs["status"][mine] == Status.RUNNING
    slice_us = np.maximum(0, now_us - runs["ready_us"][mine]) * runs["rate"][mine]
    done_us = runs["done_us"][mine] + np.where(running, slice_us, 0.0)
    doubled = np.ceil(np.log2(np.maximum(1.0, done_us / estimate_us)))
    guess_us = estimate_us * 2.0**doubled
    left: Floats = np.where(guess_us <= done_us, 2.0 * guess_us, guess_us) - done_us
    return left
