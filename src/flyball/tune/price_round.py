"""One round of placing jobs by price: applies the options of highest surplus to a plan draft."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import Reason, Status
from flyball.core.results import Floats, Ints
from flyball.core.units import US_PER_S, to_us
from flyball.tune.options import Options
from flyball.tune.plan_draft import PlanDraft
from flyball.tune.room import Victims, make_room

TRIES = 4
"""Number of its best options that a running job tries before it stays where it is."""
WAYS = 32
"""Maximum number of pending jobs for which others are shrunk in a round."""
TIE = 1e-9
"""Surplus that counts as 0: prices leave many options at just 0."""


class Terms(NamedTuple):
    """Holds when a change may be made; see `Elastic` for each setting."""

    horizon_s: float
    gap_s: float
    patience_s: float
    margin: float


class PriceRound:
    """Places the jobs of a round by their options at the current prices.

    Arrays by job are in the order of `options.jobs`; `at` is an index into them.
    """

    def __init__(
        self, draft: PlanDraft, options: Options, worth: Floats, price: Floats, terms: Terms
    ) -> None:
        self.draft, self.options, self.terms = draft, options, terms
        self.worth = worth
        self.surplus: Floats = worth - price[options.pool] * options.count
        jobs, runs = draft.state.jobs.view(np.ndarray), draft.state.runs.view(np.ndarray)
        mine, now_us = options.jobs, draft.now_us
        self.running = (runs["status"][mine] == Status.RUNNING) & (draft.pool[mine] >= 0)
        self.started = runs["attempt"][mine] > 0
        self.asked = jobs["devices"][mine]
        self.left_us = _left_us(jobs, runs, mine, now_us)
        self.restart_s = (jobs["restart_us"][mine] + jobs["checkpoint_us"][mine]) / US_PER_S
        since_us = np.where(self.started, runs["began_us"][mine], jobs["submit_us"][mine])
        self.waited_s = (now_us - since_us) / US_PER_S
        gap_us = to_us(terms.gap_s) * (1 + runs["preemptions"][mine].astype(np.int64))
        self.ripe = self.running & (now_us - runs["began_us"][mine] >= gap_us)
        for at in np.flatnonzero(self.ripe & (draft.count[mine] == 1)).tolist():
            self.ripe[at] = not draft.guests(int(mine[at]))  # pairs are left to the share tuner
        self.elastic = jobs["curve"][mine] >= 0
        self._order: dict[int, list[int]] = {}  # options of a kind, highest surplus first
        self._less: dict[tuple[int, int], int] = {}  # smaller option by option and devices given up
        self._no_room: set[tuple[int, int]] = set()  # (pool, count) that failed
        self._stuck: set[int] = set()  # kinds that found no room

    def unplan(self) -> None:
        """Undo the starts of the plan."""
        placed = self.draft.pool[self.options.jobs] >= 0
        for at in np.flatnonzero(~self.running & placed).tolist():
            self.draft.stop(int(self.options.jobs[at]), Reason.SIZED, 0.0)

    # Jobs that waited too long --------------------------------------------------------

    def serve_late(self) -> None:
        """Start the jobs that waited longer than `patience_s`; make room for one of them."""
        late = np.flatnonzero(~self.running & (self.waited_s >= self.terms.patience_s))
        made_room = False
        for at in late[np.argsort(-self.waited_s[late], kind="stable")].tolist():
            if self._start(at, -np.inf) or made_room or self.started[at]:
                continue
            made_room = self._make_room(at)

    def _make_room(self, at: int) -> bool:
        """Preempt elastic jobs for one that never ran; they find another place or size."""
        options, job = self.options, int(self.options.jobs[at])
        able = np.flatnonzero(self.ripe & self.elastic & (self.draft.pool[options.jobs] >= 0))
        now = self._now(able)
        values = np.where(now >= 0, options.value[now], 0.0)
        victims = Victims(options.jobs[able].tolist(), values.tolist())
        for option in self._ranked(int(options.of_job[at])):
            pool, count = int(options.pool[option]), int(options.count[option])
            chosen = make_room(self.draft, victims, pool, count)
            if chosen is None:
                continue
            for victim in chosen:
                self.draft.stop(victim, Reason.YIELDED, float(options.value[option]))
                self.running[np.searchsorted(options.jobs, victim)] = False
            self._freed()
            if self.draft.start(job, pool, count, Reason.OVERDUE, float(options.value[option])):
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
        pays = (best != now) & self._pays(able, best, gain)
        jobs = options.jobs[able]
        shrinks = (options.pool[best] == self.draft.pool[jobs]) & (
            options.count[best] < self.draft.count[jobs]
        )
        chosen = np.flatnonzero(pays)
        chosen = chosen[np.lexsort((able[chosen], -gain[chosen], ~shrinks[chosen]))]
        for index in chosen.tolist():
            self._change(int(able[index]), int(now[index]))

    def _now(self, able: Ints) -> Ints:
        """Return the current options of running jobs."""
        jobs = self.options.jobs[able]
        if not len(jobs):
            return jobs
        return self.options.at(
            self.options.of_job[able], self.draft.pool[jobs], self.draft.count[jobs]
        )

    def _pays(self, at: Any, option: Any, gain: Any) -> Any:
        """Return whether a gain over the rest of a job exceeds its checkpoint and restart."""
        left_s = self.left_us[at] / self.options.rate[option] / US_PER_S
        cost = self.restart_s[at] * self.options.value[option]
        return gain * np.minimum(left_s, self.terms.horizon_s) > self.terms.margin * cost

    def _change(self, at: int, now: int) -> None:
        """Move a running job to the best of its options that has room and still pays."""
        draft, options, job = self.draft, self.options, int(self.options.jobs[at])
        pool, count, cap = int(draft.pool[job]), int(draft.count[job]), int(draft.cap[job])
        here = float(self.surplus[now]) if now >= 0 else 0.0
        for option in self._ranked(int(options.of_job[at]))[:TRIES]:
            gain = float(self.surplus[option]) - here
            to_pool, to_count = int(options.pool[option]), int(options.count[option])
            if option == now or not self._pays(at, option, gain):
                return
            if draft.free_in(to_pool) + (count if pool == to_pool else 0) < to_count:
                continue
            why = _reason(pool, count, to_pool, to_count)
            draft.stop(job, why, gain)
            if draft.start(job, to_pool, to_count, why, gain, cap):
                self._freed()
                return
            back = draft.start(job, pool, count, why, gain, cap)
            assert back, "a job fits where it was"

    # Pending jobs -------------------------------------------------------------------------

    def start_pending(self) -> None:
        """Start jobs that are worth their price: highest surplus per device, then shortest."""
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
        """Shrink a running job for each pending one that is worth more than the other loses.

        At the prices neither may gain by a change: a device is then worth the same to the last
        job that has it and to the first that has none, and no job moves.
        """
        waiting = self._waiting()
        able = np.flatnonzero(self.ripe & self.elastic & (self.draft.pool[self.options.jobs] >= 0))
        if not len(waiting) or not len(able):
            return
        holders: dict[int, list[int]] = {}
        for at, now in zip(able.tolist(), self._now(able).tolist(), strict=True):
            holders.setdefault(now, []).append(at)
        holders.pop(-1, None)
        candidates = [
            (-float(self.surplus[option]), float(self.left_us[at]), at)
            for at, kind in zip(
                waiting.tolist(), self.options.of_job[waiting].tolist(), strict=True
            )
            for option in self._ranked(kind)[:1]
            if self.surplus[option] > TIE
        ]
        for _surplus, _left, at in sorted(candidates)[:WAYS]:
            ranked = self._ranked(int(self.options.of_job[at]))[:TRIES]
            any(self._way(at, option, holders) for option in ranked if self.surplus[option] > TIE)

    def _way(self, at: int, option: int, holders: dict[int, list[int]]) -> bool:
        """Start a pending job on what one running job gives up, if that pays."""
        draft, options = self.draft, self.options
        pool, count = int(options.pool[option]), int(options.count[option])
        cheapest = self._cheapest(pool, count - draft.free_in(pool), holders)
        if cheapest is None:
            return False
        now, less = cheapest
        other = holders[now][0]
        gain = float(self.worth[option] - self.worth[now] + self.worth[less])
        if not (self._pays(other, less, gain) and self._pays(at, option, gain)):
            return False
        victim, job = int(options.jobs[other]), int(options.jobs[at])
        had, cap = int(options.count[now]), int(draft.cap[victim])
        draft.stop(victim, Reason.SHRANK, gain)
        if draft.start(victim, pool, int(options.count[less]), Reason.SHRANK, gain, cap):
            if draft.start(job, pool, count, Reason.SIZED, gain):
                holders[now].pop(0)
                self._freed()
                return True
            draft.stop(victim, Reason.SHRANK, gain)
        back = draft.start(victim, pool, had, Reason.SHRANK, gain, cap)
        assert back, "a job fits where it was"
        return False

    def _cheapest(
        self, pool: int, need: int, holders: dict[int, list[int]]
    ) -> tuple[int, int] | None:
        """Return the option that loses least by giving up `need` devices, and the smaller one."""
        best: tuple[float, int, int] | None = None
        for now, jobs in holders.items():
            less = self._smaller(now, need) if jobs and self.options.pool[now] == pool else -1
            if less >= 0:
                lost = float(self.worth[now] - self.worth[less])
                best = min(best, (lost, now, less)) if best else (lost, now, less)
        return None if best is None else best[1:]

    def _smaller(self, now: int, need: int) -> int:
        """Return the best option in the same pool with `need` devices fewer; -1 = none."""
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
        """Start jobs that still wait on devices still free, longest wait first."""
        waiting = self._waiting()
        self._stuck.clear()
        for at in waiting[np.argsort(-self.waited_s[waiting], kind="stable")].tolist():
            if not self.draft.free.any():
                return
            kind = int(self.options.of_job[at])
            if kind in self._stuck:
                continue
            begin, end = int(self.options.begin[kind]), int(self.options.begin[kind + 1])
            order = begin + np.argsort(-self.worth[begin:end], kind="stable")
            if not self._first_with_room(at, order[self.worth[order] > 0.0].tolist()):
                self._stuck.add(kind)

    def _waiting(self) -> Ints:
        return np.flatnonzero(~self.running & (self.draft.pool[self.options.jobs] < 0))

    def _start(self, at: int, floor: float) -> bool:
        """Start a pending job where its surplus is highest among what has room."""
        kind = int(self.options.of_job[at])
        if kind in self._stuck:
            return False
        ranked = self._ranked(kind)
        good = (option for option in ranked if self.surplus[option] >= floor)
        if self._first_with_room(at, good):
            return True
        self._stuck.add(kind)
        return False

    def _first_with_room(self, at: int, options: Iterable[int]) -> bool:
        """Start a job with the first of these options that has room; False = none has."""
        job, asked = int(self.options.jobs[at]), int(self.asked[at])
        for option in options:
            pool, count = int(self.options.pool[option]), int(self.options.count[option])
            if (pool, count) in self._no_room:
                continue
            why = Reason.IN_ORDER if count == asked else Reason.SIZED
            if self.draft.start(job, pool, count, why, float(self.options.value[option])):
                return True
            self._no_room.add((pool, count))
        return False

    def _ranked(self, kind: int) -> list[int]:
        """Return the options of a kind, highest surplus first."""
        ranked = self._order.get(kind)
        if ranked is None:
            begin, end = int(self.options.begin[kind]), int(self.options.begin[kind + 1])
            ranked = (begin + np.argsort(-self.surplus[begin:end], kind="stable")).tolist()
            self._order[kind] = ranked
        return ranked

    def _freed(self) -> None:
        """Clear what is remembered about lack of room, because devices came free."""
        self._no_room.clear()
        self._stuck.clear()


def _reason(pool: int, count: int, to_pool: int, to_count: int) -> Reason:
    if pool != to_pool:
        return Reason.CHANGED_TYPE
    return Reason.GREW if to_count > count else Reason.SHRANK


def _left_us(jobs: Any, runs: Any, mine: Ints, now_us: int) -> Floats:
    """Return the estimated work left; an outlived estimate doubles."""
    estimate_us = jobs["estimate_us"][mine]
    running = runs["status"][mine] == Status.RUNNING
    slice_us = np.maximum(0, now_us - runs["ready_us"][mine]) * runs["rate"][mine]
    done_us = runs["done_us"][mine] + np.where(running, slice_us, 0.0)
    doubled = np.ceil(np.log2(np.maximum(1.0, done_us / estimate_us)))
    guess_us = estimate_us * 2.0**doubled
    left: Floats = np.where(guess_us <= done_us, 2.0 * guess_us, guess_us) - done_us
    return left
