"""Elastic jobs: who runs, on which type of device, and on how many.

Every round a linear programme prices the devices of each pool (`tune/prices.py`). A job wants
the place where its value less the price of its devices is highest. Running jobs move or change
their size only where that pays for the checkpoint and the restart; pending ones start where
they are worth most, those that waited long first (`tune/price_round.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.tune.options import Options
from flyball.tune.plan_draft import Board
from flyball.tune.price_round import Market, Terms
from flyball.tune.prices import prices


@dataclass(frozen=True)
class Elastic:
    """Settings of the tuner.

    Attributes:
        eta: grow a job while a further device adds this part of its first one's goodput.
            0.5 is neutral for completion time, 0.7 puts energy first.
        energy: price of a watt, as a part of what the best use of a watt yields.
        horizon_s: a change pays for itself within this time, or what is left of the job.
        gap_s: time between the first two changes of a job, at least; as much longer for each
            further one.
        patience_s: a job that waited this long comes before all that did not.
        margin: gain over cost that a change of a running job needs.
        long: how much more the work of a long job counts. Short ones end soon anyway; a long one
            that only gets what they leave is what remains undone.
        long_s: a job estimated to take this long counts as long, a shorter one in proportion.
    """

    eta: float = 0.6
    energy: float = 0.2
    horizon_s: float = 3600.0
    gap_s: float = 600.0
    patience_s: float = 4 * 3600.0
    margin: float = 1.5
    long: float = 1.0
    long_s: float = 8 * 3600.0

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan with sizes and places chosen by price."""
        board = Board(state, plan)
        options = Options.of(state, board.active, self.eta)
        if not len(options.kind):
            return plan
        weighed = options.value * self._importance(options)
        worth = weighed - self._watt_price(options) * options.watts
        price = prices(options, worth, _capacity(state, board, options))
        terms = Terms(self.horizon_s, self.gap_s, self.patience_s, self.margin)
        market = Market(board, options, worth, price, terms)
        # 1. Starts of the plan are taken back: sizes are chosen here.
        market.unplan()
        # 2. Whoever waited too long gets room, made if need be.
        market.serve_late()
        # 3. Running jobs change where that pays: what shrinks first, for it makes room.
        market.change()
        # 4. Pending jobs start where they are worth their price.
        market.start_pending()
        # 5. Others make way for what is worth more, and what is still free is filled.
        market.make_way()
        market.fill()
        return board.plan()

    def _importance(self, options: Options) -> Floats:
        """Weight of each option: what takes long is left over at the end unless it comes first."""
        by_kind = 1.0 + self.long * np.minimum(1.0, options.length_s / self.long_s)
        weights: Floats = by_kind[options.kind]
        return weights

    def _watt_price(self, options: Options) -> float:
        """Reference device-seconds a joule."""
        some = options.begin[:-1] < options.begin[1:]
        best = np.maximum.reduceat(options.value / options.watts, options.begin[:-1][some])
        jobs = np.bincount(options.of_job, minlength=len(some))[some]
        return self.energy * float((best * jobs).sum() / jobs.sum())


def _capacity(state: State, board: Board, options: Options) -> Floats:
    """Devices of each pool that the jobs of the options hold or could hold."""
    pools = len(state.pools)
    free = np.bincount(state.nodes.view(np.ndarray)["pool"], board.free, minlength=pools)
    placed = options.jobs[board.pool[options.jobs] >= 0]
    held = np.bincount(board.pool[placed], board.count[placed], minlength=pools)
    both: Floats = (free + held).astype(np.float64)
    return both
