"""The centre of all best solutions of a programme of shares, by an interior-point method.

Programmes of shares often have many best solutions. The simplex method returns a corner, where
capacity that the aim does not need stays with nobody; an interior-point method returns the
centre, where every job has a part of everything that is left. Gavel solves its programmes that
way, so `optimum = centre` follows it.

Equal jobs form one group that counts as often as it has jobs (a weighted central path), which
gives what one set of variables per job would. The Newton step uses the structure of the
programme: a small block for each group, joined by the capacities and by the common factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats
from flyball.schedule.shares.groups import JobGroups

GAP = 1e-7
"""Mean product of slack and price, over all constraints, at which the search ends."""
RESIDUAL = 1e-6
"""Largest violation of a constraint at which the search ends, unless the gap is far below."""
MOST_STEPS = 100
FIRST_GAP = 10.0
"""Gap of the first point, times the largest gain."""
CLOSER = 0.2
"""Part of the gap that a step aims to leave."""
STAY_INSIDE = 0.95
"""Part of the way to the boundary that a step may go."""
CENTRING_STEPS = 4
"""Steps that keep the gap and go to the centre, at the end."""


Errors = tuple[Floats, Floats, Floats, Floats, Floats]
"""What is missing in the constraints (time, need, pools) and in the prices (shares, factor)."""


@dataclass(frozen=True)
class Point:
    """Holds a point inside the programme, or a step: shares, slacks, their prices, the factor.

    Slacks come in three kinds: of a job's time (0), of its need (1) and of the pools (2).
    """

    shares: Floats
    prices: Floats
    slacks: tuple[Floats, Floats, Floats]
    values: tuple[Floats, Floats, Floats]
    factor: float = 0.0

    def pairs(self) -> list[tuple[Floats, Floats]]:
        """Return the pairs whose products go to zero together."""
        return [(self.shares, self.prices), *zip(self.slacks, self.values, strict=True)]

    def plus(self, step: Point, length: float) -> Point:
        """Return the point after part of a step."""
        return Point(
            self.shares + length * step.shares,
            self.prices + length * step.prices,
            _sums(self.slacks, step.slacks, length),
            _sums(self.values, step.values, length),
            self.factor + length * step.factor,
        )


def _over(value: Floats, price: Floats) -> Floats:
    """Return value / price, and 0 for constraints that are not in use (price 0)."""
    return np.divide(value, price, out=np.zeros(len(price)), where=price > 0)


def _sums(
    have: tuple[Floats, Floats, Floats], more: tuple[Floats, Floats, Floats], length: float
) -> tuple[Floats, Floats, Floats]:
    return (
        have[0] + length * more[0],
        have[1] + length * more[1],
        have[2] + length * more[2],
    )


class Programme:
    """Maximises gains x shares plus the factor by which all needs are met, at its centre.

    Needs are fixed (met once, and the factor is not used) or scaled by the factor.
    """

    def __init__(
        self,
        groups: JobGroups,
        capacity: Floats,
        gains: Floats | None = None,
        needs: Floats | None = None,
        fixed: bool = False,
    ) -> None:
        best = groups.speeds.max(axis=1)
        self.able = (groups.speeds > 0).astype(np.float64)
        self.speeds = groups.speeds / best[:, None]
        self.asks = (groups.jobs * groups.asks)[:, None] * self.able
        self.capacity = capacity
        self.gains = np.zeros_like(groups.speeds) if gains is None else gains
        self.has_needs, self.fixed = needs is not None, fixed
        self.needs = np.zeros(len(best)) if needs is None else needs / best
        self.scale = 1.0 if fixed or needs is None else float(self.needs.max())
        self.needs = self.needs / self.scale
        counts = groups.jobs
        of_needs = counts if self.has_needs else np.zeros(len(counts))
        self.weights = (counts[:, None] * self.able, counts, of_needs, np.ones(len(capacity)))
        self.total = sum(float(weight.sum()) for weight in self.weights)

    def solve(self) -> tuple[float, Floats]:
        """Return (the factor, the shares by group and pool)."""
        point, last_steps = self._start(), 0  # all constraints broken, prices high: on the path
        for _ in range(MOST_STEPS):
            errors, gap = self._errors(point), self._gap(point)
            worst = max(float(np.abs(error).max(initial=0.0)) for error in errors)
            if last_steps or (gap <= GAP and (worst <= RESIDUAL or gap <= GAP / 100)):
                last_steps += 1
                if last_steps > CENTRING_STEPS:
                    break
            step = self._step(point, errors, gap if last_steps else CLOSER * gap)
            point = point.plus(step, min(1.0, STAY_INSIDE * self._length(point, step)))
        return point.factor / self.scale, np.clip(point.shares * self.able, 0.0, 1.0)

    def _start(self) -> Point:
        counts, pools = self.weights[1], len(self.capacity)
        first = FIRST_GAP * max(1.0, float(self.gains.max(initial=0.0)))
        shares = np.full(self.speeds.shape, 1.0 / pools)
        prices = first * pools * counts[:, None] * np.ones(self.speeds.shape)
        ones, used = np.ones(len(counts)), np.ones(pools)
        values = (first * counts, first * counts * self.has_needs, first * used)
        return Point(shares, prices, (ones, ones, used), values)

    def _errors(self, point: Point) -> Errors:
        """Return what is missing in each constraint, and in the prices of shares and factor."""
        shares = point.shares * self.able
        needed = self.needs * (1.0 if self.fixed else point.factor)
        met = (self.speeds * shares).sum(axis=1) - needed
        time, need, pools = point.values
        share = self.gains - time[:, None] + need[:, None] * self.speeds - self.asks * pools
        factor = 0.0 if self.fixed or not self.has_needs else 1.0 - float(self.needs @ need)
        return (
            1.0 - shares.sum(axis=1) - point.slacks[0],
            (met - point.slacks[1]) * self.has_needs,
            self.capacity - (self.asks * shares).sum(axis=0) - point.slacks[2],
            (share + point.prices) * self.able,
            np.array([factor]),
        )

    def _step(self, point: Point, errors: Errors, centring: float) -> Point:
        """Return the Newton step towards products of `centring` x weight."""
        goals = [
            centring * weight - first * second
            for weight, (first, second) in zip(self.weights, point.pairs(), strict=True)
        ]
        bends = [
            _over(slack, value) for slack, value in zip(point.slacks, point.values, strict=True)
        ]
        sides = [
            error - _over(goal, value)
            for error, goal, value in zip(errors[:3], goals[1:], point.values, strict=True)
        ]
        right = np.column_stack(
            ((errors[3] + goals[0] / point.shares) * self.able, sides[0], sides[1])
        )
        solved, joint = self._reduced(point, bends, right, np.append(sides[2], errors[4]))
        pools = len(self.capacity)
        shares, time, need = solved[:, :pools], solved[:, pools], solved[:, pools + 1]
        values = (time, need * self.has_needs, joint[:pools])
        slacks = [
            _over(goal - slack * change, value)
            for goal, slack, change, value in zip(
                goals[1:], point.slacks, values, point.values, strict=True
            )
        ]
        prices = (goals[0] - point.prices * shares) / point.shares * self.able
        return Point(shares, prices, (slacks[0], slacks[1], slacks[2]), values, float(joint[pools]))

    def _reduced(
        self, point: Point, bends: list[Floats], right: Floats, right_joint: Floats
    ) -> tuple[Floats, Floats]:
        """Solve for changes: of shares and the two prices of each group, then what joins groups.

        Returns:
            (a row per group; the prices of the pools and the factor).
        """
        pools, count = len(self.capacity), len(right)
        free = self.has_needs and not self.fixed
        # 1. The block of each group: its shares, the price of its time, the price of its need.
        blocks = np.zeros((count, pools + 2, pools + 2))
        at = np.arange(pools)
        blocks[:, at, at] = np.where(self.able > 0, point.prices / point.shares, 1.0)
        blocks[:, :pools, pools] = blocks[:, pools, :pools] = self.able
        blocks[:, pools, pools] = -bends[0]
        if self.has_needs:
            blocks[:, :pools, pools + 1] = blocks[:, pools + 1, :pools] = -self.speeds
        blocks[:, pools + 1, pools + 1] = -bends[1] if self.has_needs else 1.0
        # 2. The prices of the pools and the factor join the groups.
        joins = np.zeros((count, pools + 2, pools + 1))
        joins[:, at, at] = self.asks
        joins[:, pools + 1, pools] = self.needs * free
        solved = np.linalg.solve(blocks, np.concatenate((joins, right[:, :, None]), axis=2))
        corner = np.diag(np.append(-bends[2], 0.0 if free else 1.0))
        corner -= np.einsum("gik,gil->kl", joins, solved[:, :, :-1])
        joint = np.linalg.solve(
            corner, right_joint - np.einsum("gik,gi->k", joins, solved[:, :, -1])
        )
        return solved[:, :, -1] - solved[:, :, :-1] @ joint, joint

    def _gap(self, point: Point) -> float:
        first, *others = point.pairs()
        total = float((first[0] * first[1] * self.able).sum())
        return (total + sum(float(a @ b) for a, b in others)) / self.total

    def _length(self, point: Point, step: Point) -> float:
        """Return how far the step may go before a share, slack or price is negative; at most 1."""
        length = 1.0
        for have, change in zip(point.pairs(), step.pairs(), strict=True):
            for value, move in zip(have, change, strict=True):
                falls = (move < 0) & (value > 0)
                if falls.any():
                    length = min(length, float((-value[falls] / move[falls]).min()))
        return length
