"""Elastic: chooses which jobs run, on which type of device, and on how many devices.

Every round a linear programme prices the devices of each pool (`tune/prices.py`). A job's best
place is where its value less the price of its devices is highest. Running jobs move or change
their size only where that pays for the checkpoint and the restart; pending ones start where
they are worth most, those that waited long first (`tune/price_round.py`).

If more load is forecast, devices are priced as if that much of each pool were taken already, so
that jobs do not grow into what others will ask for soon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.tune.options import Options
from flyball.tune.plan_draft import PlanDraft
from flyball.tune.price_round import PriceRound, Terms
from flyball.tune.prices import prices


@dataclass(frozen=True)
class Elastic:
    """Holds the settings of the tuner.

    Attributes:
        eta: grow a job while a further device adds this part of its first one's goodput.
            0.5 is neutral for completion time, 0.7 puts energy first.
        energy: price of a watt, as a part of what the best use of a watt yields.
        horizon_s: a change must pay for itself within this time, or what is left of the job.
        gap_s: least time between the first two changes of a job; longer by as much for each
            further one.
        patience_s: a job that waited this long comes before all that did not.
        margin: ratio of gain to cost that a change of a running job needs.
        long: how much more the work of a long job counts. Short jobs end soon anyway; a long one
            that only gets what they leave remains undone.
        long_s: a job estimated to take this long counts as long, a shorter one in proportion.
        ahead_s: how far ahead load is looked for that jobs must not grow into; 0 = not at all.
        level: quantile of the load forecast that counts.
    """

    eta: float = 0.6
    energy: float = 0.2
    horizon_s: float = 3600.0
    gap_s: float = 600.0
    patience_s: float = 4 * 3600.0
    margin: float = 1.5
    long: float = 1.0
    long_s: float = 8 * 3600.0
    ahead_s: float = 0.0
    level: float = 0.75

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with sizes and places of jobs chosen by price."""
        draft = PlanDraft(state, plan)
        options = Options.of(state, draft.active, self.eta)
        if not len(options.kind):
            return plan
        weighed = options.value * self._importance(options)
        worth = weighed - self._watt_price(options) * options.watts
        price = prices(options, worth, self._capacity(state, draft, options, outlook.load))
        terms = Terms(self.horizon_s, self.gap_s, self.patience_s, self.margin)
        round_ = PriceRound(draft, options, worth, price, terms)
        # 1. Undo the starts of the plan: sizes are chosen here.
        round_.unplan()
        # 2. Start jobs that waited too long, making room if necessary.
        round_.serve_late()
        # 3. Change running jobs where that pays: first those that shrink, which makes room.
        round_.change()
        # 4. Start pending jobs where they are worth their price.
        round_.start_pending()
        # 5. Shrink jobs for others that are worth more, and fill what is still free.
        round_.make_way()
        round_.fill()
        return draft.plan()

    def _capacity(
        self, state: State, draft: PlanDraft, options: Options, load: Forecast | None
    ) -> Floats:
        """Return the devices of each pool that jobs hold or could hold, less those soon needed."""
        capacity = _capacity(state, draft, options)
        if load is None or not self.ahead_s:
            return capacity
        milli = state.jobs.devices[draft.active] * state.jobs.milli[draft.active]
        asked = float(milli.sum()) / MILLI_PER_DEVICE
        more = max(0.0, load.peak(self.level, self.ahead_s) - asked)
        left: Floats = capacity * max(0.0, 1.0 - more / max(1.0, float(capacity.sum())))
        return left

    def _importance(self, options: Options) -> Floats:
        """Return the weight of each option: long jobs count more, or they remain at the end."""
        by_kind = 1.0 + self.long * np.minimum(1.0, options.length_s / self.long_s)
        weights: Floats = by_kind[options.kind]
        return weights

    def _watt_price(self, options: Options) -> float:
        """Return the price of a joule, in reference device-seconds."""
        some = options.begin[:-1] < options.begin[1:]
        best = np.maximum.reduceat(options.value / options.watts, options.begin[:-1][some])
        jobs = np.bincount(options.of_job, minlength=len(some))[some]
        return self.energy * float((best * jobs).sum() / jobs.sum())


def _capacity(state: State, draft: PlanDraft, options: Options) -> Floats:
    """Return the devices of each pool that the jobs of the options hold or could hold."""
    pools = len(state.pools)
    free = np.bincount(state.nodes.view(np.ndarray)["pool"], draft.free, minlength=pools)
    placed = options.jobs[draft.pool[options.jobs] >= 0]
    held = np.bincount(draft.pool[placed], draft.count[placed], minlength=pools)
    both: Floats = (free + held).astype(np.float64)
    return both
