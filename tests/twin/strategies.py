"""Random small problems for the twin, every effect drawn: what Hypothesis feeds to both twins.

Numbers are small and often equal on purpose: two implementations differ most easily on ties.
Every job could run in the group it was drawn for, and under the power budget, so every run
comes to its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from flyball.core.cluster import OTHERS, Cluster, NodeGroup, Tenant
from flyball.core.codes import Status
from flyball.core.costs import AppCosts, Costs
from flyball.core.effects import Effects
from flyball.core.knobs import (
    Backfill,
    Evict,
    Knobs,
    Leftover,
    Order,
    Place,
    Preempt,
    Span,
    Starts,
    Turns,
    Types,
)
from flyball.core.results import Floats
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.core.units import MIB_PER_GIB, US_PER_S
from flyball.core.workload import JobClass, Mix, Workload
from flyball.physics import catalogue
from flyball.physics.power import draw_w, host_w

DEVICES = ("V100", "P100", "K80", "A100", "T4")
"""Device types to draw from: measured and unmeasured, of different memory."""

MODELS = ("ResNet-18:32", "LM:20", "Recommendation:2048")
TENANTS = ("red", "green", "blue")
USERS = ("ann", "bob")

SECONDS = st.integers(0, 60) | st.floats(0.1, 300.0, allow_nan=False).map(lambda s: round(s, 3))
LONGER = st.sampled_from((30, 60, 90, 100, 200, 400)) | SECONDS


BACKFILLS = (Backfill.EASY, Backfill.STRICT, Backfill.SKIP, Backfill.EASY)
"""Backfill rules to draw from; easy twice, as it is the most complex."""


@dataclass(frozen=True)
class Problem:
    """Holds the arguments of `build_state`."""

    cluster: Cluster
    workload: Workload
    knobs: Knobs
    effects: Effects

    @property
    def allocator(self) -> DrawnTargets | None:
        """What sets the shares, if the knobs go by shares."""
        if self.knobs.order != Order.SHARES:
            return None
        return DrawnTargets(len(self.workload), len(self.cluster.groups))


def node_groups() -> st.SearchStrategy[NodeGroup]:
    return st.builds(
        NodeGroup,
        name=st.just("n"),
        count=st.sampled_from((2, 3, 1, 4)),
        device=st.sampled_from(DEVICES),
        devices=st.sampled_from((4, 2, 3, 1, 8)),
        cpus=st.sampled_from((64, 8, 3)),
        memory_gib=st.sampled_from((512.0, 10.5)),
    )


@st.composite
def workloads(draw: st.DrawFn, groups: tuple[NodeGroup, ...], most: int = 20) -> Workload:
    """A workload of which every job could run in one of the groups, when empty."""
    size = draw(st.integers(1, most) | st.integers((most + 1) // 2, most))
    jobs = [draw(_jobs(groups)) for _ in range(size)]
    columns = {name: np.array([job[name] for job in jobs]) for name in jobs[0]}
    limits = draw(st.just([]) | st.lists(st.integers(1, 3), max_size=2))
    columns["group"] = np.array(
        draw(st.lists(st.integers(-1, len(limits) - 1), min_size=size, max_size=size))
    )
    # A job waits only for jobs drawn before it: no circles, but anyone may be submitted first.
    pairs = [(late, early) for late in range(size) for early in range(late)]
    dependent = bool(pairs) and draw(st.booleans())
    waits = draw(st.lists(st.sampled_from(pairs), max_size=5, unique=True)) if dependent else []
    workload = Workload.of(
        "drawn",
        columns.pop("submit_s"),
        columns.pop("duration_s"),
        columns.pop("devices"),
        **columns,
        models=MODELS,
        device_names=DEVICES,
        tenants=TENANTS,
        users=USERS,
        group_limits=tuple(limits),
        after_job=np.array([late for late, _ in waits], np.int64),
        after_on=np.array([early for _, early in waits], np.int64),
    )
    if draw(st.booleans()):
        workload = replace(workload, quantiles_us=draw(_quantiles(size)))
    mix_size = draw(st.sampled_from((None, None, 1, 3)))
    if mix_size is None:
        return workload
    return replace(workload, mix=Mix.of(workload.take(np.arange(min(mix_size, size)))))


@st.composite
def _quantiles(draw: st.DrawFn, size: int) -> Floats:
    """Predicted quantiles of some jobs, from certain to very uncertain."""
    widths = st.sampled_from((math.nan, 1.0, 1.5, 4.0, 100.0))
    factors = [draw(st.tuples(widths, widths)) for _ in range(size)]
    rows = [(1.0 / low, 1.0 / low**0.4, 1.0, high**0.4, high) for low, high in factors]
    return np.array(rows) * 60.0 * US_PER_S


@st.composite
def _jobs(draw: st.DrawFn, groups: tuple[NodeGroup, ...]) -> dict[str, Any]:
    """One job, made to fit its home: a group of nodes of the type its duration is for."""
    home = draw(st.sampled_from(groups))
    whole_devices = draw(st.booleans() | st.just(True))
    largest = home.devices * (home.count if whole_devices else 1)
    devices = draw(st.integers(1, min(largest, home.devices)) | st.integers(1, largest))
    bare = whole_devices and draw(st.sampled_from((False,) * 7 + (True,)))
    devices = 0 if bare else devices
    asks_host = bare or draw(st.booleans())
    memory_mib = int(catalogue.get(home.device).memory_gib * MIB_PER_GIB)
    duration_s = float(draw(LONGER))
    error = draw(st.sampled_from((None, 1.0, 0.1, 0.5, 0.9, 1.5, 10.0)))
    limit_s = draw(st.sampled_from((0.0,) * 9 + (0.5, 1.0, 2.0))) * duration_s
    return {
        "submit_s": draw(st.sampled_from((0, 1, 0, 2, 10, 30, 60, 120)) | SECONDS),
        "duration_s": duration_s,
        "devices": devices,
        "cpu_milli": draw(_demands(home, devices, home.cpus * 1000)) + bare if asks_host else 0,
        "host_mib": draw(_demands(home, devices, int(home.memory_gib * 1024))) if asks_host else 0,
        "milli": 1000 if whole_devices else draw(st.sampled_from((100, 250, 300, 500, 999))),
        "memory_mib": draw(st.sampled_from((0, memory_mib // 4, memory_mib // 2, memory_mib))),
        "device": DEVICES.index(home.device),
        "model": draw(st.integers(-1, len(MODELS) - 1)),
        "kind": draw(st.integers(0, 4)),
        "priority": float(draw(st.sampled_from((0, 0, 0, 1, 2)))),
        "estimate_us": math.nan if error is None else duration_s * error * US_PER_S,
        "limit_us": round(limit_s * US_PER_S),
        "tenant": draw(st.integers(-1, len(TENANTS) - 1)),
        "user": draw(st.sampled_from((-1, -1, 0, 1))),
    }


ORDERS = tuple(order for order in Order if order != Order.SHARES)
"""Orders with a key; target shares are drawn by `share_knobs`."""


@st.composite
def share_knobs(draw: st.DrawFn) -> Knobs:
    """Settings of target shares; nodes do not sleep, as a wake may be longer than a round."""
    return Knobs(
        order=Order.SHARES,
        preempt=Preempt.ROUNDS,
        backfill=draw(st.sampled_from((Backfill.SKIP, Backfill.STRICT))),
        place=draw(st.sampled_from([place for place in Place if place != Place.HOLD])),
        span=draw(st.sampled_from(Span)),
        priority_s=draw(st.sampled_from((0.0, 1e12))),
        round_s=draw(st.sampled_from((10.0, 30.0, 60.0))),
        solve_s=draw(st.sampled_from((0.0, 0.0, 45.0, 120.0))),
        cap=draw(st.sampled_from((1.0, 0.7))),
        types=draw(st.sampled_from(Types)),
        shuffle_seed=draw(st.sampled_from((0, 1, 2**31 - 1))),
        starts=draw(st.sampled_from(Starts)),
        leftover=draw(st.sampled_from(Leftover)),
        turns=draw(st.sampled_from(Turns)),
    )


@st.composite
def move_knobs(draw: st.DrawFn) -> Knobs:
    """Settings under which jobs often move: short rounds, and any gain will do."""
    order = draw(st.sampled_from([order for order in ORDERS if order != Order.FAIR]))
    places = [Place.SPREAD, Place.BEST_FIT, Place.FASTEST, Place.EFFICIENT, Place.FGD, Place.RANDOM]
    return replace(
        draw(knobs()),
        order=order,
        backfill=Backfill.SKIP,
        preempt=Preempt.ROUNDS,
        place=draw(st.sampled_from(places)),
        round_s=draw(st.sampled_from((10.0, 30.0))),
        move_s=draw(st.sampled_from((1e-6, 5.0, 40.0))),
    )


@st.composite
def tenants(draw: st.DrawFn, devices: int, workload: Workload) -> tuple[Tenant, ...]:
    """None, or some with quotas the devices allow and limits that admit each of their jobs."""
    names = draw(st.just([]) | st.lists(st.sampled_from((*TENANTS, OTHERS)), unique=True))
    left, listed = devices, []
    for name in names:
        quota = draw(st.integers(0, left))
        left -= quota
        code = TENANTS.index(name) if name in TENANTS else -1
        of_tenant = workload.tenant == code
        largest = math.ceil((workload.devices * workload.milli)[of_tenant].max(initial=0) / 1000)
        least = max(0, largest - quota)
        borrow = draw(st.none() | st.integers(least, least + devices))
        listed.append(Tenant(name, quota, borrow, draw(st.sampled_from((1.0, 1.0, 2.0, 0.5)))))
    return tuple(listed)


def _demands(home: NodeGroup, devices: int, has: int) -> st.SearchStrategy[int]:
    """Draw what a gang may ask of its hosts, each of which `has` this much."""
    most = has * max(home.devices, devices) // home.devices - 1
    return st.sampled_from((0, most // 4, most // 2 + 1, most // 3, most))


@st.composite
def knobs(draw: st.DrawFn) -> Knobs:
    """Any setting that `Knobs` accepts; rounds are longer than a restart and its checkpoint."""
    preempt = draw(st.sampled_from((Preempt.NEVER, Preempt.ROUNDS, Preempt.NEVER)))
    order = draw(st.sampled_from(ORDERS))
    plain = preempt == Preempt.ROUNDS or order == Order.FAIR
    places = [place for place in Place if not (plain and place == Place.HOLD)]
    attained_s = draw(st.sampled_from((0.0, 30.0, 200.0)))
    return Knobs(
        order=order,
        backfill=Backfill.SKIP if plain else draw(st.sampled_from(BACKFILLS)),
        place=draw(st.sampled_from(places)),
        preempt=preempt,
        span=draw(st.sampled_from(Span)),
        depth=draw(st.sampled_from((1000, 1, 2, 4, 100, 1000))),
        hold_s=draw(st.sampled_from((0.0, 10.0, 100.0))),
        ageing=draw(st.sampled_from((0.0, 0.0, 0.5))),
        priority_s=draw(st.sampled_from((0.0, 100.0, 1e12))),
        round_s=draw(st.sampled_from((10.0, 30.0, 60.0))),
        margin_s=draw(st.sampled_from((0.0, 20.0))),
        attained_s=attained_s,
        attained2_s=draw(st.sampled_from((0.0, attained_s + 30.0, 1e12))),
        promote=draw(st.sampled_from((0.0, 0.5, 2.0))),
        half_life_s=draw(st.sampled_from((10.0, 100.0, 86_400.0))),
        order_quantile=draw(st.sampled_from((0.5, 0.5, 0.3, 0.9))),
        backfill_quantile=draw(st.sampled_from((0.5, 0.5, 0.2, 0.75, 0.99))),
        evict=draw(st.sampled_from(Evict)),
        move_s=0.0 if order == Order.FAIR else draw(st.sampled_from((0.0, 1e-6, 10.0, 40.0))),
        move_starts=draw(st.sampled_from((16, 1, 2))),
        preempt_starts=draw(st.sampled_from((0, 0, 1, 2, 3))),
        move_cost=draw(st.sampled_from((1e6, 0.05, 0.25))),
        index_size=draw(st.sampled_from((0.45, 0.0, 1.0))),
        index_slope=draw(st.sampled_from((1.0, 0.3))),
        index_floor=draw(st.sampled_from((0.1, 1e-6, 2.0))),
        index_running=draw(st.sampled_from((0.75, 1.0, 2.0))),
        cap=draw(st.sampled_from((1.0, 1.0, 0.9, 0.7, 0.5))),
        sleep_s=draw(st.sampled_from((-1.0, -1.0, 0.0, 5.0, 60.0))),
    )


def effects() -> st.SearchStrategy[Effects]:
    return st.builds(
        Effects,
        restart_s=st.sampled_from(((0.0, 0.0, 0.0), (1.0, 2.5, 4.0))),
        checkpoint_s=st.sampled_from((0.0, 1.5)),
        checkpoint_every_s=st.sampled_from((0.0, 7.0)),
        mtbf_h=st.sampled_from((0.0, 0.0, 0.02, 0.1)),
        repair_h=st.sampled_from((0.001, 0.02)),
        estimate_sigma=st.sampled_from((0.0, 1.0)),
        network=st.booleans(),
        seed=st.integers(0, 3),
        costs=st.none() | costs(),
    )


def costs() -> st.SearchStrategy[Costs]:
    """Draw costs of two models; the third has those of all others."""
    of_app = st.builds(
        AppCosts,
        restart_s=st.sampled_from((0.0, 1.0, 2.5)),
        slowdown=st.sampled_from((1.0, 1.8, 0.9)),
    )
    return st.builds(
        Costs,
        name=st.just("drawn"),
        applications=st.fixed_dictionaries({"resnet-18": of_app, "cifar10": of_app, "lm": of_app}),
        others=of_app,
        first_part=st.sampled_from((0.0, 1.0, 0.37)),
        free_moves=st.booleans(),
    )


@dataclass(frozen=True)
class DrawnTargets:
    """Draws target shares, the same for the same instant and active jobs."""

    jobs: int
    pools: int

    def targets(self, state: State) -> Floats:
        active = np.flatnonzero(np.isin(state.runs.status, (Status.PENDING, Status.RUNNING)))
        return self.at(int(state.clock[0].now_us), tuple(int(job) for job in active))

    def at(self, now_us: int, active: tuple[int, ...]) -> Floats:
        rng = np.random.default_rng((now_us, *active))
        table = rng.choice((0.0, 0.0, 0.25, 0.5, 1.0), (self.jobs, self.pools))
        table[[job for job in range(self.jobs) if job not in active]] = 0.0
        return table


def varied_signals() -> st.SearchStrategy[Signal]:
    """Steps of seconds and minutes that begin before, in or after a run; some repeat."""
    return st.builds(
        _stepped,
        st.integers(-100, 200),
        st.lists(st.sampled_from((7, 30, 30, 60, 45.5)), min_size=1, max_size=6),
        st.lists(st.floats(-5.0, 500.0), min_size=7, max_size=7),
        st.sampled_from((0.0, 1.0, 0.4)),
    )


def _stepped(begin_s: int, lengths_s: list[float], values: list[float], repeats: float) -> Signal:
    """Return a signal on the clock of a run, of which the given part repeats."""
    bounds = np.rint((begin_s + np.cumsum([0.0, *lengths_s])) * US_PER_S).astype(np.int64)
    times = np.append(bounds, bounds[-1] + 20 * US_PER_S)
    period_us = int(repeats * (times[-1] - times[0]))
    values_of = np.array(values[: len(times) - 1])
    return Signal("drawn", times[:-1], values_of, int(times[-1]), period_us, origin_us=0)


def signals() -> st.SearchStrategy[Signal | None]:
    flat = st.floats(0.0, 900.0).map(lambda value: replace(Signal.flat(value), origin_us=0))
    return st.none() | flat | varied_signals()


@st.composite
def problems(
    draw: st.DrawFn,
    most: int = 20,
    rules: st.SearchStrategy[Knobs] | None = None,
    least_groups: int = 1,
) -> Problem:
    """A cluster, a workload, knobs and effects."""
    groups = tuple(draw(st.lists(node_groups(), min_size=least_groups, max_size=3)))
    workload = draw(workloads(groups, most))
    slack = draw(st.sampled_from((None, None, None, 1.001, 1.1, 1.5)))
    budget_w = 0.0 if slack is None else _idle_w(groups) + slack * _most_added_w(groups, workload)
    cluster = Cluster("drawn", groups, budget_w)
    cluster = replace(cluster, tenants=draw(tenants(cluster.device_count, workload)))
    if draw(st.booleans()):
        cluster = replace(cluster, price=draw(varied_signals()), carbon=draw(signals()))
    return Problem(cluster, workload, draw(knobs() if rules is None else rules), draw(effects()))


def _idle_w(groups: tuple[NodeGroup, ...]) -> float:
    total = 0.0
    for group in groups:
        device = catalogue.get(group.device)
        total += group.count * (host_w(device, group.devices) + group.devices * device.idle_w)
    return total


def _most_added_w(groups: tuple[NodeGroup, ...], workload: Workload) -> float:
    """The most that any one job adds to the draw of a group that is large enough for it."""
    most_w = 0.0
    for group in groups:
        device = catalogue.get(group.device)
        for job in np.flatnonzero(workload.devices <= group.count * group.devices):
            share = float(workload.devices[job] * workload.milli[job]) / 1000
            each_w = draw_w(device, JobClass(int(workload.kind[job]))) - device.idle_w
            most_w = max(most_w, share * each_w)
    return most_w
