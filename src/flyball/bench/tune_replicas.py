"""Replicas that follow recorded request rates, against the smallest fleet that never changes.

ServeGen: two weeks of three production services in steps of ten minutes. The first week is there
to learn from, the second is served: request by request (`twin/services.py`), in rounds of a minute,
knowing only what was seen so far. The fleet it is compared with is chosen in hindsight.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from flyball.core.records import Records, records
from flyball.core.results import Floats, Ints
from flyball.core.shared_data import shared_data
from flyball.core.units import S_PER_DAY, S_PER_MIN, S_PER_WEEK, to_us
from flyball.physics.serving import (
    Lengths,
    Queue,
    Replica,
    Target,
    find_replica,
    lengths_from,
    queue_of,
    scaled,
)
from flyball.predict.load.contract import LEVELS
from flyball.predict.load.registry import get_forecaster
from flyball.predict.series import Series
from flyball.tune.replicas import OUTCOME, Settings, fresh, learn, wanted
from flyball.twin.services import BLOCK_S, Service, Traffic

Row = dict[str, Any]
Note = Callable[[str], None]

STEP_S = 600.0
ROUND_S = S_PER_MIN
WARM_S = 2 * S_PER_DAY
"""Served before the week that counts, for the margin to settle."""
SEEDS = (1, 2, 3, 4, 5)
MOST_REPLICAS = 512
CONFIDENCE = 0.95
HPA_USE, HPA_TOLERANCE, HPA_WINDOW = 0.7, 0.1, 5
FORECASTER = "tree-changes"
LEAD = 4
"""Rounds from the end of one to when replicas ordered then are ready, and on until the next."""


class Case(NamedTuple):
    """A recorded service and what is assumed of it.

    Attributes:
        replica: whose figures serve for it; the models' real sizes are not published.
        clump: requests simulated as one, below the median dispersion that was recorded.
        bar: percent of device-hours to save at least.
    """

    replica: str
    clump: int
    bar: float


CASES = {
    "m-large": Case("llama-70b", 8, -40.0),
    "m-mid": Case("qwen-32b", 32, -15.0),
    "m-small": Case("llama-8b", 16, -40.0),
}


class Record(NamedTuple):
    """What was recorded of one service, by steps of ten minutes over two weeks."""

    rates_rps: Floats
    dispersion: Floats
    lengths: Lengths


def _rows(name: str) -> Iterator[dict[str, str]]:
    path = shared_data("servegen_2025", name)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@cache
def recorded() -> dict[str, Record]:
    """The three services.

    Raises:
        DataAbsent: the data are not on this machine.
    """
    steps = round(2 * S_PER_WEEK / STEP_S)
    rates = {name: np.zeros(steps) for name in CASES}
    spread = {name: np.zeros((2, steps)) for name in CASES}
    quantiles: dict[tuple[str, str], dict[float, float]] = {}
    means: dict[tuple[str, str], float] = {}
    for row in _rows("total_rate_10min.csv.gz"):
        if row["model"] in CASES:
            rates[row["model"]][int(float(row["t_s"]) / STEP_S)] = float(row["total_rate_rps"])
    for row in _rows("client_rate_10min.csv.gz"):
        if row["model"] in CASES:
            rate, step = float(row["rate_rps"]), int(float(row["t_s"]) / STEP_S)
            # Clients are independent, so their variances add up.
            spread[row["model"]][:, step] += rate, rate * float(row["iat_cv"] or 1.0) ** 2
    for row in _rows("token_length_quantiles.csv.gz"):
        key = row["model"], row["field"]
        if row["quantile"] == "mean":
            means[key] = float(row["value"])
        else:
            quantiles.setdefault(key, {})[float(row["quantile"])] = float(row["value"])
    return {
        name: Record(
            rates[name],
            np.where(spread[name][0] > 0, spread[name][1] / np.maximum(spread[name][0], 1e-9), 1.0),
            scaled(
                lengths_from(quantiles[name, "input_tokens"], quantiles[name, "output_tokens"]),
                means[name, "input_tokens"],
                means[name, "output_tokens"],
            ),
        )
        for name in CASES
    }


@dataclass(frozen=True)
class Week:
    """One service with one draw of its requests: warm-up, then the week that counts."""

    name: str
    replica: Replica
    record: Record
    steps: bool
    seed: int

    @property
    def traffic(self) -> Traffic:
        first = round((S_PER_WEEK - WARM_S) / STEP_S)
        record = self.record
        return Traffic(
            *(STEP_S, record.rates_rps[first:], record.dispersion[first:], record.lengths),
            *(CASES[self.name].clump, self.steps),
        )

    @property
    def queue(self) -> Queue:
        return queue_of(self.replica, self.record.lengths)

    def serve(self, ready: int, rule: Rule | None, most_late: float = math.inf) -> Outcome:
        """Serve it all with so many replicas at first and a rule for the rest.

        Given up as soon as more requests are late than `most_late`.
        """
        service = Service(self.replica, self.traffic, ready, self.seed)
        service.advance(WARM_S) if rule is None else None
        arrivals: list[float] = []
        before = service.counts
        begin = (before, service.served())
        for index in range(round(service.now_s / ROUND_S), round(self.traffic.span_s / ROUND_S)):
            if index == round(WARM_S / ROUND_S):
                begin = (before, service.served())
            service.advance((index + 1) * ROUND_S)
            after = service.counts
            brought = Round(index, *(now - then for now, then in zip(after, before, strict=True)))
            arrivals.append(brought.arrived)
            before = after
            if rule is not None:
                service.order(rule.order(brought, service.fleet.ordered))
            elif after[2] - begin[0][2] > most_late:
                break
        end = service.served()
        arrived = after[0] - begin[0][0]
        unstarted = after[0] - after[1]
        return Outcome(
            1.0 - (after[2] - begin[0][2] + unstarted) / arrived,
            end.device_h - begin[1].device_h,
            end.energy_kwh - begin[1].energy_kwh,
            np.array(arrivals),
        )


class Round(NamedTuple):
    """What came in a round."""

    index: int
    arrived: int
    started: int
    late: int


class Outcome(NamedTuple):
    """Of the week that counts; arrivals by round from where it began."""

    within: float
    device_h: float
    energy_kwh: float
    arrivals: Floats


class Rule(Protocol):
    """Decides after each round how many replicas there should be."""

    def order(self, brought: Round, ordered: int) -> int: ...
