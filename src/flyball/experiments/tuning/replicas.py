"""Replicas that follow recorded request rates, against the smallest fleet that never changes.

ServeGen recorded two weeks of three production services in steps of ten minutes. The first week is
for learning, the second is served: request by request (`twin/services.py`), in rounds of a minute,
knowing only the past. The fleet it is compared with is chosen in hindsight.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from flyball.core.records import records
from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_DAY, S_PER_MIN, S_PER_WEEK, to_us
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.experiments.tuning.servegen import CASES, STEP_S, ServiceRecord, recorded
from flyball.physics.serving import USUAL, Queue, Replica, find_replica, queue_of
from flyball.predict.load.contract import LEVELS
from flyball.predict.load.registry import get_forecaster
from flyball.predict.series import Series
from flyball.tune.replicas import DEFAULT, OUTCOME, Settings, fresh, learn, wanted
from flyball.twin.services import Served, Service
from flyball.twin.traffic import BLOCK_S, Traffic

Note = Callable[[str], None]

ROUND_S = S_PER_MIN
WARM_S = S_PER_DAY
"""Time served before the week that counts, for the margin to settle."""
WARM_ROUNDS = round(WARM_S / ROUND_S)
TARGET = USUAL
SEEDS = (1, 2, 3, 4, 5)
STEPS_SEEDS = 3
"""Draws with rates in steps, the harder reading of the record."""
MOST_REPLICAS = 512
FAR = 3
"""Replicas between two fleets that are tried while the guess may be far off."""
HPA_USE, HPA_TOLERANCE, HPA_WINDOW = 0.7, 0.1, 5
FORECASTER = "tree-changes"
LEAD = 4
"""Rounds from an order until its replicas are ready, and until the next order after that."""


@dataclass(frozen=True)
class Week:
    """Holds one service with one draw of its requests: warm-up, then the week that counts."""

    name: str
    steps: bool
    seed: int

    @property
    def record(self) -> ServiceRecord:
        return recorded()[self.name]

    @property
    def replica(self) -> Replica:
        return find_replica(CASES[self.name].replica)

    @property
    def queue(self) -> Queue:
        return queue_of(self.replica, self.record.lengths)

    def traffic(self, begin_s: float, end_s: float) -> Traffic:
        """Return the requests between two instants of the record."""
        part = slice(round(begin_s / STEP_S), round(end_s / STEP_S))
        record = self.record
        return Traffic(
            *(STEP_S, record.rates_rps[part], record.dispersion[part], record.lengths),
            *(CASES[self.name].clump, self.steps),
        )

    @property
    def served(self) -> Traffic:
        return self.traffic(S_PER_WEEK - WARM_S, 2 * S_PER_WEEK)


class Brought(NamedTuple):
    """Holds what arrived in a round; one value for each of several weeks run in parallel."""

    round: int
    arrived: Floats
    started: Floats
    late: Floats


class ServedWeek(NamedTuple):
    """Holds the results of the week that counts; `arrivals` of each round from the warm-up on."""

    within: float
    device_h: float
    energy_kwh: float
    arrivals: Floats


class Rule(Protocol):
    """Decides after each round how many replicas there should be."""

    def order(self, brought: Brought, ordered: Ints) -> Ints: ...


def serve(weeks: Sequence[Week], ready: Sequence[int], rule: Rule | None) -> list[ServedWeek]:
    """Serve weeks in parallel: each begins with `ready` replicas, then the rule decides."""
    services = [
        Service(week.replica, week.served, count, week.seed)
        for week, count in zip(weeks, ready, strict=True)
    ]
    counts = [np.array([service.counts for service in services], float)]
    begin: list[Served] = []
    for index in range(round((WARM_S + S_PER_WEEK) / ROUND_S)):
        if index == WARM_ROUNDS:
            begin = [service.served() for service in services]
        for service in services:
            service.advance((index + 1) * ROUND_S)
        counts.append(np.array([service.counts for service in services], float))
        if rule is not None:
            brought = Brought(index, *(counts[-1] - counts[-2]).T)
            orders = rule.order(brought, np.array([service.fleet.ordered for service in services]))
            for service, order in zip(services, orders.tolist(), strict=True):
                service.order(order)
    table = np.array(counts)  # round, week, (arrived, started, late)
    return [
        _outcome(table[:, lane], before, service.served())
        for lane, (before, service) in enumerate(zip(begin, services, strict=True))
    ]


def _outcome(counts: Floats, before: Served, after: Served) -> ServedWeek:
    begin, end = counts[WARM_ROUNDS], counts[-1]
    missed = end[2] - begin[2] + (end[0] - end[1])  # those that still wait count as late
    return ServedWeek(
        1.0 - missed / (end[0] - begin[0]),
        after.device_h - before.device_h,
        after.energy_kwh - before.energy_kwh,
        np.diff(counts[:, 0]),
    )


# Rules ----------------------------------------------------------------------------


class Follow:
    """Applies the tuner's rule (`tune/replicas.py`) and keeps its memory from round to round."""

    def __init__(self, weeks: Sequence[Week], uppers: Floats, settings: Settings = DEFAULT) -> None:
        self._uppers, self._settings = uppers, settings
        self._carried = np.array([_carried(week.name) for week in weeks])
        self.memory = fresh(len(weeks), settings)

    def order(self, brought: Brought, ordered: Ints) -> Ints:
        now_us = to_us((brought.round + 1) * ROUND_S)
        outcome = records(len(ordered), OUTCOME)
        plain = outcome.view(np.ndarray)
        plain["now_us"], plain["span_us"] = now_us, to_us(ROUND_S)
        plain["arrived"], plain["started"] = brought.arrived, brought.started
        plain["late"] = brought.late
        self.memory = learn(self.memory, outcome, self._settings)
        upper = self._uppers[:, brought.round]
        return wanted(upper, self.memory, ordered, self._carried, now_us, self._settings)


@cache
def _carried(name: str) -> Floats:
    return Week(name, False, 0).queue.carried(MOST_REPLICAS, TARGET)


class Hpa:
    """Scales as Kubernetes' autoscaler does by default: it keeps the use at a target.

    Use is what arrived over what the replicas can answer. It does nothing within a tolerance and
    scales down to the highest number it computed in the last five minutes.
    """

    def __init__(self, weeks: Sequence[Week], use: float = HPA_USE) -> None:
        self._each_rps = use * np.array([week.queue.each_rps for week in weeks])
        self._recent: deque[Ints] = deque(maxlen=HPA_WINDOW)

    def order(self, brought: Brought, ordered: Ints) -> Ints:
        exact = brought.arrived / ROUND_S / self._each_rps
        near = np.abs(exact / np.maximum(ordered, 1) - 1.0) <= HPA_TOLERANCE
        self._recent.append(np.where(near, ordered, np.maximum(np.ceil(exact), 1)).astype(np.int64))
        highest: Ints = np.max(self._recent, axis=0)
        return highest


# Baselines and forecasts ---------------------------------------------------------------


def fluid_fleet(week: Week) -> int:
    """Return about the smallest fleet that keeps the target, with requests as a fluid.

    Excess requests first fill the batches; only then does a request wait.
    """
    flow = week.served.block_rates(week.seed)[round(WARM_S / BLOCK_S) :]
    each_rps, replica, lengths = week.queue.each_rps, week.replica, week.record.lengths
    low, high = 1, math.ceil(float(flow.max()) / each_rps) + 1
    while high - low > 1:
        middle = (low + high) // 2
        capacity = middle * each_rps
        total = np.cumsum((flow - capacity) * BLOCK_S)
        queue = total - np.minimum(np.minimum.accumulate(total), 0.0)
        usual = replica.batch_at(float(flow.mean()) / middle, *lengths.means)
        room = middle * (replica.largest_batch - usual)
        late = flow[queue > capacity * TARGET.wait_s + room].sum() / flow.sum()
        low, high = (middle, high) if late > 1.0 - TARGET.share else (low, middle)
    return high


def smallest_fleet(week: Week, guess: int, stride: int) -> tuple[int, ServedWeek]:
    """Return the smallest fleet that keeps the target without changing, request by request.

    The search goes from a guess in strides, then one by one.
    """
    tried: dict[int, ServedWeek] = {}

    def keeps(count: int) -> bool:
        if count not in tried:
            tried[count] = serve([week], [count], None)[0]
        return tried[count].within >= TARGET.share

    while not keeps(guess):
        guess += stride
    for step in (stride, 1):
        while guess > step and keeps(guess - step):
            guess -= step
    return guess, tried[guess]


def smallest_fleets(weeks: Sequence[Week]) -> list[tuple[int, ServedWeek]]:
    """Return the same for several draws of one service, which differ by little."""
    fleets = [smallest_fleet(weeks[0], fluid_fleet(weeks[0]), FAR)]
    for week in weeks[1:]:
        fleets.append(smallest_fleet(week, fleets[-1][0], 1))
    return fleets


def upper_rates(week: Week, arrivals: Floats) -> Floats:
    """Return for each round the upper quantile of the rate ahead, forecast from the past.

    The forecaster learns on the first week, with another draw of its bursts.
    """
    per_round = round(ROUND_S / BLOCK_S)
    blocks = week.traffic(0.0, S_PER_WEEK).block_rates(week.seed + 1000)
    history = blocks.reshape(-1, per_round).mean(axis=1)
    model = get_forecaster(FORECASTER)()
    model.fit([Series(week.name, 0.0, ROUND_S, history)], [LEAD])
    first = len(history) - WARM_ROUNDS
    seen = Series(week.name, 0.0, ROUND_S, np.append(history[:first], arrivals / ROUND_S))
    outlook = model.outlook(seen, np.arange(first, len(seen)), LEAD)
    upper: Floats = outlook.quantiles[:, LEVELS.index(DEFAULT.level)]
    return upper


# The table -----------------------------------------------------------------------------


def rows(
    progress: Note = lambda _text: None,
    cases: Sequence[str] = tuple(CASES),
    seeds: Sequence[int] = SEEDS,
) -> list[Row]:
    """Measure each service, with rates in straight lines between the ten-minute means and in steps.

    Args:
        progress: receives what is being measured.
        cases: names in `CASES`.
        seeds: of the requests' times and lengths.

    Raises:
        DataAbsent: the recorded rates are not on this machine.
    """
    rows: list[Row] = []
    for steps in (False, True):
        for name in cases:
            progress(f"replicas: {name}, rates in {'steps' if steps else 'lines'}")
            drawn = seeds[:STEPS_SEEDS] if steps else seeds
            rows += _case_rows(name, steps, [Week(name, steps, seed) for seed in drawn])
    return rows


def _case_rows(name: str, steps: bool, weeks: Sequence[Week]) -> list[Row]:
    static = smallest_fleets(weeks)
    ready = [count for count, _ in static]
    uppers = [
        upper_rates(week, result.arrivals) for week, (_, result) in zip(weeks, static, strict=True)
    ]
    ours = serve(weeks, ready, Follow(weeks, np.array(uppers)))
    at = f"replicas, {name}", f"week 2, {'steps' if steps else 'lines'}"
    fleet = f"static, {_span(ready)} replicas"
    compared = [result for _, result in static]
    rows = [
        _row(at, fleet, "device-hours, %", _changes(ours, compared, "device_h"), CASES[name].bar),
        _row(at, fleet, "energy, %", _changes(ours, compared, "energy_kwh")),
        _row(at, "", WITHIN, [100.0 * week.within for week in ours], 100.0 * TARGET.share),
    ]
    if steps:
        return rows
    hpa = serve(weeks, ready, Hpa(weeks))
    rival = f"HPA at {HPA_USE:.0%}"
    return [
        *rows,
        _row(at, rival, "device-hours, %", _changes(ours, hpa, "device_h")),
        _row(at, fleet, f"device-hours of {rival}, %", _changes(hpa, compared, "device_h")),
        _row(at, "", f"{WITHIN}, {rival}", [100.0 * week.within for week in hpa]),
    ]


def _row(
    at: tuple[str, str],
    baseline: str,
    metric: str,
    values: Sequence[float],
    bar: float | None = None,
) -> Row:
    """Return the row of a mean over draws, for a case and a load."""
    return tuning_row(*at, baseline, metric, mean_95(values), bar)


WITHIN = f"requests that wait at most {TARGET.wait_s:g} s, %"


def _changes(ours: Sequence[ServedWeek], others: Sequence[ServedWeek], what: str) -> list[float]:
    """Return the change in percent, draw by draw."""
    pairs = zip(ours, others, strict=True)
    return [100.0 * (getattr(one, what) / getattr(other, what) - 1.0) for one, other in pairs]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low}-{high}"
