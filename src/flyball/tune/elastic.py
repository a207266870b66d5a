"""Elastic: chooses which jobs run, on which type of device, and on how many devices.

Every round a market decides size, type, start and making way together (`tune/market`). The work of
each job has an index: its reference work if work counts, how much its work left delays all jobs if
completion time counts, by default something of both. The devices of each pool have a price at
which demand meets supply, and a job's best place is where its indexed speed less the price of its
devices is highest.
Running jobs move, change their size or make way only where that pays for checkpoint and restart.

If more load is forecast, devices are priced as if that much of each pool were taken already, so
that jobs do not grow into what others will ask for soon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.protocols import Outlook
from flyball.core.records import Records, records
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.tune.market.bench import TERMS, bench_for

LONGEST_S = 1e12
"""Any longer time is as good as for ever."""


@dataclass(frozen=True)
class Elastic:
    """Holds the settings of the tuner.

    Attributes:
        eta: grow a job while a further device adds this part of its first one's goodput,
            whatever it is worth. 0.7 puts energy first, near 0 completion time.
        energy: price of a watt beyond what the job takes where it needs least energy, as a part
            of what the best use of a watt yields on average. Work worth more may take more.
        completion: how much completion time counts against work: 0 = work alone, 1 = completion
            time alone.
        horizon_s: a change must pay for itself within this time, or what is left of the job.
        gap_s: least time between the first two changes of a job; longer by as much for each
            further one.
        patience_s: a job that waited this long comes before all that did not.
        stretch: so does one that waited this many times what it would take with an equal share of
            the cluster; 0 = not.
        changes: changes and preemptions after which a job goes on as it is until it ends.
        margin: ratio of gain to cost that a change of a running job needs.
        long: how much more the work of a long job counts, where work counts, on as many devices
            as it asked for. Short jobs end soon anyway; a long one that only gets what they leave
            remains undone. Devices beyond those it grew into count as everybody's.
        long_s: a job estimated to take this long counts as long, a shorter one in proportion.
        ahead_s: how far ahead load is looked for that jobs must not grow into; 0 = not at all.
        level: quantile of the load forecast that counts.
    """

    eta: float = 0.35
    energy: float = 0.6
    completion: float = 0.5
    horizon_s: float = 3600.0
    gap_s: float = 300.0
    patience_s: float = 4 * 3600.0
    stretch: float = 6.0
    changes: float = 48.0
    margin: float = 1.5
    long: float = 3.0
    long_s: float = 8 * 3600.0
    ahead_s: float = 0.0
    level: float = 0.75

    def __post_init__(self) -> None:
        if not 0.0 <= self.completion <= 1.0:
            raise BadInput(f"elastic.completion={self.completion:g}", "use 0 to 1")

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with sizes and places of jobs chosen by the market."""
        from flyball.tune.market.round import trade  # compiled on first use

        peak = -1.0
        if outlook.load is not None and self.ahead_s:
            peak = outlook.load.peak(self.level, self.ahead_s)
        actions, room = -1, 0
        while actions < 0:
            bench = bench_for(state, len(plan), room)
            actions = trade(state, plan, _terms(self, peak), bench)
            room = 2 * len(bench.bidders) + 1
        return bench.out[:actions].copy().view(np.recarray)


@lru_cache(64)
def _terms(settings: Elastic, peak: float) -> Records:
    """Return the settings as a record for compiled code."""
    terms = records(1, TERMS)
    for name in ("eta", "energy", "completion", "margin", "long", "stretch", "changes"):
        terms[name] = getattr(settings, name)
    for name in ("long", "horizon", "gap", "patience"):
        terms[f"{name}_us"] = to_us(min(getattr(settings, f"{name}_s"), LONGEST_S))
    terms["peak"] = peak
    return terms
