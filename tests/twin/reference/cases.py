"""Small states built by hand, and runs of the reference on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core import records as dtypes
from flyball.core.codes import ActionKind
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt
from flyball.core.records import CAP_LEVELS, records
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.twin.build import set_visit_order
from flyball.twin.reference.run import Reference
from flyball.twin.tables.usual import EVERYWHERE, USUAL

MANY = 1e4
"""Duration in seconds that no case outlasts."""


def pool(nodes: int = 1, capacity: int = 1, **fields: float) -> dict[str, float]:
    usual = {"memory_mib": 1000, "host_w": 80.0, "idle_w": 20.0, "sleep_w": 5.0}
    return {"nodes": nodes, "capacity": capacity, **usual, **fields}


def job(submit_s: float, work_s: float, devices: int = 1, **fields: Any) -> dict[str, Any]:
    """A job; `rates` is (packed, spread, watts) pool by pool, the estimate is exact if not given.

    `after` lists jobs to wait for; a pool with rate 0 is one it could not run on.
    """
    return {"submit_s": submit_s, "work_s": work_s, "devices": devices, **fields}


def make_state(
    pools: list[dict[str, float]],
    jobs: list[dict[str, Any]],
    outages: list[tuple[float, float, int]] | None = None,
    limits: tuple[int, ...] = (),
    budget_w: float = 0.0,
    checkpoint_every_s: float = 0.0,
    usual: list[dict[str, int]] | None = None,
) -> State:
    """The parts of an initial state that describe the problem; every job has its own profile.

    `usual` are the usual jobs of place = fgd: count, devices, milli, cpu_milli, host_mib.
    """
    arrays: dict[str, Any] = {
        "pools": records(len(pools), dtypes.POOL),
        "caps": records(len(pools) * CAP_LEVELS, dtypes.CAP),
        "jobs": records(len(jobs), dtypes.JOB),
        "runs": records(len(jobs), dtypes.RUN),
        "rates": records(len(jobs) * len(pools), dtypes.RATE),
        "shapes": records(len(jobs), dtypes.SHAPE),
        "groups": records(len(limits), dtypes.GROUP),
        "outages": records(len(outages or ()), dtypes.OUTAGE),
        "clock": records(1, dtypes.CLOCK),
        "usual": records(len(usual or ()), USUAL),
    }
    for row, kind in zip(arrays["usual"], usual or (), strict=True):
        row.pools = EVERYWHERE
        for name, value in kind.items():
            row[name] = value
    arrays["caps"].slowdown = arrays["caps"].power = 1.0
    arrays["caps"][CAP_LEVELS - 1 :: CAP_LEVELS] = (1.25, 0.5)  # the cap at half the draw
    first = 0
    for index, spec in enumerate(pools):
        row = arrays["pools"][index]
        row.first_node = first
        first += int(spec["nodes"])
        row.wake_us = to_us(spec.get("wake_s", 0))
        for name in spec.keys() - {"wake_s"}:
            row[name] = spec[name]
    for index, spec in enumerate(jobs):
        _fill_job(arrays, index, spec, len(pools))
    set_visit_order(arrays["pools"], arrays["rates"], arrays["shapes"], arrays["jobs"])
    links: list[int] = []
    for index in range(len(jobs)):
        after = [j for j, spec in enumerate(jobs) if index in spec.get("after", ())]
        arrays["jobs"][index].successors, arrays["jobs"][index].successor_count = (
            len(links),
            len(after),
        )
        links += after
    for row, (down_s, up_s, node) in zip(arrays["outages"], outages or (), strict=True):
        row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
    arrays["groups"].limit = limits
    clock = arrays["clock"][0]
    clock.start_us, clock.budget_w = arrays["jobs"].submit_us.min(), budget_w
    clock.checkpoint_every_us = to_us(checkpoint_every_s)
    empty = {name: np.zeros(0) for name in State._fields if name not in arrays}
    return State(**{**empty, **arrays, "links": np.array(links, np.int32)})


def _fill_job(arrays: dict[str, Any], index: int, spec: dict[str, Any], pools: int) -> None:
    row = arrays["jobs"][index]
    row.submit_us, row.work_us = to_us(spec["submit_s"]), spec["work_s"] * 1e6
    row.estimate_us = spec.get("estimate_s", spec["work_s"]) * 1e6
    row.order_stretch = row.backfill_stretch = 1.0
    row.devices, row.milli = spec["devices"], spec.get("milli", 1000)
    row.reference_us = row.work_us * row.devices
    row.memory_mib, row.group = spec.get("memory_mib", 0), spec.get("group", -1)
    row.curve = -1
    row.priority, row.predecessors = spec.get("priority", 0.0), len(spec.get("after", ()))
    for name in ("limit", "restart", "checkpoint"):
        row[f"{name}_us"] = to_us(spec.get(f"{name}_s", 0))
    row.profile = row.shape_id = index
    for name in ("cpu_milli", "host_mib"):
        arrays["shapes"][index][name] = spec.get(name, 0)
    for at, rate in enumerate(spec.get("rates", [(1.0, 0.5, 300.0)] * pools)):
        arrays["rates"][index * pools + at] = (*rate, 1.0, 0)
        arrays["shapes"][index].pools |= np.uint64((rate[0] > 0) << at)
    arrays["shapes"][index].profile = index


def run(pools: list[dict[str, float]], jobs: list[dict[str, Any]], **rest: Any) -> Reference:
    """A whole run, or one until `until_s`; `knobs` are its settings, `targets` its policy."""
    knobs, until_s = rest.pop("knobs", {}), rest.pop("until_s", None)
    targets = rest.pop("targets", None)
    twin = Reference(make_state(pools, jobs, **rest), Knobs(**knobs), targets)
    twin.run(None if until_s is None else to_us(until_s))
    return twin


def starts(twin: Reference) -> dict[int, float]:
    """The first start of every job that started, in seconds."""
    return {j.index: j.first_start_us / 1e6 for j in twin.jobs if j.attempt}


def places(twin: Reference) -> dict[int, list[tuple[int, int]]]:
    """(node, mask) of every job's last start."""
    return {
        index: [(row.node, row.mask) for row in rows]
        for _, kind, index, rows in twin.schedule()
        if kind == ActionKind.START
    }


def actions(twin: Reference) -> list[tuple[float, str, int]]:
    return [(time_us / 1e6, kind.name, index) for time_us, kind, index, _ in twin.schedule()]


# Shares ----------------------------------------------------------------------

SHARES: dict[str, Any] = {"order": Order.SHARES, "preempt": Preempt.ROUNDS, "round_s": 10.0}
STRICT = {**SHARES, "backfill": Backfill.STRICT}
SPREAD = {**SHARES, "place": Place.SPREAD}


class Policy:
    """Gives active jobs these targets, one answer per call; the last one repeats."""

    def __init__(self, *answers: list[list[float]]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[float, tuple[int, ...]]] = []  # (seconds, active jobs) of each call

    def __call__(self, now_us: int, active: tuple[int, ...]) -> npt.NDArray[np.float64]:
        self.asked.append((now_us / 1e6, active))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        targets = np.zeros_like(np.array(answer))
        for index in active:
            targets[index] = answer[index]
        return targets


def equal(jobs: int, pools: int = 1) -> Policy:
    return Policy([[1.0] * pools] * jobs)


def deficits_s(twin: Reference) -> list[float]:
    """What the jobs were owed in pool 0 when the policy was last asked."""
    return [job.shares[0].deficit_us / 1e6 for job in twin.jobs]
