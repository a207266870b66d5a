"""Elastic jobs: who runs, on which type of device, and on how many.

Every round a linear programme prices the devices of each pool (`tune/prices.py`). A job wants
the place where its value less the price of its devices is highest. Running jobs move or change
their size only where that pays for the checkpoint and the restart; pending ones start where
they are worth most, those that waited long first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.codes import Reason, Status
from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import US_PER_S, to_us
from flyball.tune.board import Board
from flyball.tune.prices import Options, prices


@dataclass(frozen=True)
class Elastic:
    """Settings of the tuner.

    Attributes:
        eta: grow a job while a further device adds this part of its first one's goodput.
            0.5 is neutral for completion time, 0.7 puts energy first.
        energy: price of a watt, as a part of what the best use of a watt yields.
        horizon_s: a change pays for itself within this time, or what is left of the job.
        gap_s: time between two changes of a job, at least.
        patience_s: a job that waited this long comes before all that did not.
        margin: gain over cost that a change of a running job needs.
    """

    eta: float = 0.5
    energy: float = 0.0
    horizon_s: float = 3600.0
    gap_s: float = 600.0
    patience_s: float = 4 * 3600.0
    margin: float = 1.5

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan with sizes and places chosen by price."""
        board = Board(state, plan)
        options = Options.of(state, board.active, self.eta)
        if not len(options.kind):
            return plan
        worth = options.value - self._watt_price(options) * options.watts
        price = prices(options, worth, _capacity(state, board, options))
        market = Market(state, board, options, worth - price[options.pool] * options.count, self)
        market.unplan()
        # 1. What shrinks makes room at once.
        wants = market.wants()
        market.change([want for want in wants if want.shrinks])
        # 2. The others in order of what they gain by it: pending jobs and jobs that move or grow.
        market.place(wants)
        # 3. Nothing stays idle that somebody could use.
        market.fill(worth)
        return board.plan()

    def _watt_price(self, options: Options) -> float:
        """Reference device-seconds a joule."""
        best = np.maximum.reduceat(options.value / options.watts, options.begin[:-1])
        jobs = np.bincount(options.of_job)
        return self.energy * float((best * jobs).sum() / jobs.sum())


def _capacity(state: State, board: Board, options: Options) -> Floats:
    """Devices of each pool that the jobs of the options hold or could hold."""
    pools = len(state.pools)
    free = np.bincount(state.nodes["pool"], board.free, minlength=pools)
    placed = options.jobs[board.pool[options.jobs] >= 0]
    held = np.bincount(board.pool[placed], board.count[placed], minlength=pools)
    both: Floats = (free + held).astype(np.float64)
    return both


@dataclass(frozen=True)
class Want:
    """A running job and the option it would rather have."""

    job: int
    kind: int
    option: int
    now: int
    gain: float
    shrinks: bool


class Market:
    """One round: the options with their surplus, and the board they are carried out on."""

    def __init__(
        self, state: State, board: Board, options: Options, surplus: Floats, rule: Elastic
    ) -> None:
        self.board, self.options, self.rule = board, options, rule
        self.surplus = surplus
        jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
        mine = options.jobs
        self.now_us = board.now_us
        self.restart_s = (jobs["restart_us"][mine] + jobs["checkpoint_us"][mine]) / US_PER_S
        self.running = (runs["status"][mine] == Status.RUNNING) & (board.pool[mine] >= 0)
        self.left_us = _left_us(jobs, runs, mine, board.now_us)
        self.changes = runs["preemptions"][mine].astype(np.int64)
        self.began_us = runs["began_us"][mine]
        self.waited_s = (board.now_us - jobs["submit_us"][mine]) / US_PER_S
        self.asked = jobs["devices"][mine]
        self.started = runs["attempt"][mine] > 0
        self._no_room: set[tuple[int, int]] = set()
        kinds = len(options.begin) - 1
        self.ranked = [self._ranked(kind) for kind in range(kinds)]

    def _ranked(self, kind: int) -> Ints:
        """The options of a kind, highest surplus first."""
        begin, end = int(self.options.begin[kind]), int(self.options.begin[kind + 1])
        return begin + np.argsort(-self.surplus[begin:end], kind="stable")

    def unplan(self) -> None:
        """Take back the starts of the plan: sizes are chosen here."""
        for at in np.flatnonzero(~self.running & (self.board.pool[self.options.jobs] >= 0)):
            self.board.stop(int(self.options.jobs[at]), Reason.SIZED, 0.0)
        self._no_room.clear()

    def wants(self) -> list[Want]:
        """Running jobs that would be better off elsewhere, enough to pay for the change."""
        rule, found = self.rule, []
        gap_us = to_us(rule.gap_s) * (1 + self.changes)
        ripe = self.running & (self.now_us - self.began_us >= gap_us)
        for at in np.flatnonzero(ripe):
            job, kind = int(self.options.jobs[at]), int(self.options.of_job[at])
            best = int(self.ranked[kind][0])
            now = self.options.at(kind, int(self.board.pool[job]), int(self.board.count[job]))
            if now == best:
                continue
            here = self.surplus[now] if now >= 0 else 0.0
            gain = float(self.surplus[best] - here)
            if self.pays(int(at), best, gain):
                shrinks = (
                    self.options.pool[best] == self.board.pool[job]
                    and self.options.count[best] < self.board.count[job]
                )
                found.append(Want(job, kind, best, now, gain, bool(shrinks)))
        found.sort(key=lambda want: (-want.gain, want.job))
        return found

    def pays(self, at: int, option: int, gain: float) -> bool:
        """Whether a gain over what is left of the job exceeds checkpoint and restart."""
        left_s = self.left_us[at] / self.options.rate[option] / US_PER_S
        lasts_s = min(left_s, self.rule.horizon_s)
        cost = self.restart_s[at] * self.options.value[option]
        return bool(gain * lasts_s > self.rule.margin * cost)

    def change(self, wants: list[Want]) -> None:
        """Carry out what fits of the changes of running jobs."""
        for want in wants:
            self._change(want)

    def _change(self, want: Want) -> None:
        board, options = self.board, self.options
        pool, count, cap = (int(each[want.job]) for each in (board.pool, board.count, board.cap))
        floor = self.surplus[want.now] if want.now >= 0 else 0.0
        at = int(np.searchsorted(options.jobs, want.job))
        # Try the best first, then others that still pay.
        for option in self.ranked[want.kind][:4]:
            gain = float(self.surplus[option] - floor)
            to_pool, to_count = int(options.pool[option]), int(options.count[option])
            if option == want.now or not self.pays(at, int(option), gain):
                return
            if not self._room(to_pool, to_count, pool, count):
                continue
            why = _reason(pool, count, to_pool, to_count)
            board.stop(want.job, why, gain)
            if board.start(want.job, to_pool, to_count, why, gain, cap):
                self._no_room.clear()
                return
            back = board.start(want.job, pool, count, why, gain, cap)
            assert back, "a job fits where it was"

    def _room(self, pool: int, count: int, mine: int, held: int) -> bool:
        free = self.board.free_in(pool) + (held if pool == mine else 0)
        return free >= count

    def place(self, wants: list[Want]) -> None:
        """Start pending jobs and change running ones, who waited too long first, then by gain."""
        rule = self.rule
        turns: list[tuple[float, float, int, Want | None]] = []
        for at in np.flatnonzero(~self.running):
            job, kind = int(self.options.jobs[at]), int(self.options.of_job[at])
            if not len(self.ranked[kind]):
                continue
            best = int(self.ranked[kind][0])
            late = self.waited_s[at] >= rule.patience_s
            density = float(self.surplus[best] / self.options.count[best])
            turns.append((-self.waited_s[at] if late else 0.0, -density, int(at), None))
        for want in wants:
            if not want.shrinks:
                density = want.gain / max(1, int(self.options.count[want.option]))
                turns.append(
                    (0.0, -density, int(np.searchsorted(self.options.jobs, want.job)), want)
                )
        turns.sort(key=lambda turn: turn[:3])
        for first, _, at, want in turns:
            if want is not None:
                self._change(want)
            else:
                self._start(at, -np.inf if first < 0 else -1e-9)

    def _start(self, at: int, floor: float) -> None:
        """Start a pending job where its surplus is highest among what has room."""
        options, board = self.options, self.board
        job, kind = int(options.jobs[at]), int(options.of_job[at])
        for option in self.ranked[kind]:
            gain = float(self.surplus[option])
            if gain < floor:
                return
            if self._try(at, job, int(option), gain):
                return

    def _try(self, at: int, job: int, option: int, gain: float) -> bool:
        pool, count = int(self.options.pool[option]), int(self.options.count[option])
        if (pool, count) in self._no_room:
            return False
        why = Reason.IN_ORDER if count == self.asked[at] else Reason.SIZED
        if self.board.start(job, pool, count, why, float(self.options.value[option])):
            return True
        self._no_room.add((pool, count))
        return False

    def fill(self, worth: Floats) -> None:
        """Start what still waits on what is still free, longest wait first."""
        options = self.options
        waiting = np.flatnonzero(~self.running & (self.board.pool[options.jobs] < 0))
        for at in waiting[np.argsort(-self.waited_s[waiting], kind="stable")]:
            if not self.board.free.any():
                return
            kind = int(options.of_job[at])
            begin, end = int(options.begin[kind]), int(options.begin[kind + 1])
            for option in begin + np.argsort(-worth[begin:end], kind="stable"):
                if worth[option] > 0 and self._try(
                    int(at), int(options.jobs[at]), int(option), 0.0
                ):
                    break


def _reason(pool: int, count: int, to_pool: int, to_count: int) -> Reason:
    if pool != to_pool:
        return Reason.CHANGED_TYPE
    return Reason.GREW if to_count > count else Reason.SHRANK


def _left_us(jobs: Any, runs: Any, mine: Ints, now_us: int) -> Floats:
    """Estimated work left; an estimate that was outlived doubles."""
    estimate = jobs["estimate_us"][mine]
    running = runs["status"][mine] == Status.RUNNING
    done = runs["done_us"][mine] + np.where(
        running, np.maximum(0, now_us - runs["ready_us"][mine]) * runs["rate"][mine], 0.0
    )
    guess = estimate * 2.0 ** np.ceil(np.log2(np.maximum(1.0, done / estimate)))
    guess = np.where(guess <= done, 2.0 * guess, guess)
    left: Floats = guess - done
    return left
