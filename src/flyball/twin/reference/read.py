"""Reads the parts of the reference from a `State`."""

from __future__ import annotations

from typing import Any

from flyball.core.records import CAP_LEVELS, Records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.twin.reference.parts import (
    Device,
    ElasticSizes,
    Job,
    Node,
    Pool,
    PoolRate,
    PoolShare,
    UsualKind,
)

POOL_FIELDS = (
    *("first_node", "nodes", "capacity", "memory_mib", "cpu_milli", "host_mib"),
    *("host_w", "idle_w", "sleep_w", "wake_us"),
)
JOB_FIELDS = (
    *("submit_us", "work_us", "estimate_us", "reference_us"),
    *("order_stretch", "backfill_stretch"),
    *("limit_us", "restart_us", "checkpoint_us", "priority"),
    *("devices", "milli", "memory_mib", "profile", "group", "tenant", "owner", "model"),
)
"""Fields of the state's records that are copied under the same names."""


def _rows(array: Records) -> list[dict[str, Any]]:
    """Return a structured array as plain Python numbers by field name."""
    names = array.dtype.names
    assert names is not None
    return [dict(zip(names, row, strict=True)) for row in array.tolist()]


def read_pools(state: State, level: int) -> list[Pool]:
    """Return the pools under the cap of this level."""
    caps = _rows(state.caps)
    pools = []
    for index, row in enumerate(_rows(state.pools)):
        levels = caps[index * CAP_LEVELS : (index + 1) * CAP_LEVELS]
        pools.append(
            Pool(
                index=index,
                slowdown=levels[level]["slowdown"],
                cap_power=levels[level]["power"],
                caps=[(cap["slowdown"], cap["power"]) for cap in levels],
                **{name: row[name] for name in POOL_FIELDS},
            )
        )
    return pools


def idle_nodes(pool: Pool, now_us: int, sleep_us: int) -> list[Node]:
    """Return the pool's nodes, up and idle since `now_us`."""
    return [
        Node(
            index=pool.first_node + offset,
            devices=[Device(MILLI_PER_DEVICE, pool.memory_mib) for _ in range(pool.capacity)],
            free_cpu_milli=pool.cpu_milli,
            free_host_mib=pool.host_mib,
            power_w=pool.idle_draw_w,
            since_us=now_us,
            idle_since_us=now_us,
            sleeps_us=now_us + sleep_us,
        )
        for offset in range(pool.nodes)
    ]


def read_jobs(state: State) -> list[Job]:
    """Return the jobs as described, none of them submitted."""
    pools = range(len(state.pools))
    rates = [PoolRate(row["packed"], row["spread"], row["watts"]) for row in _rows(state.rates)]
    links = state.links.tolist()
    shapes = _rows(state.shapes)
    sizes = _read_sizes(state)
    jobs = []
    defer_us = state.runs.defer_us.tolist()
    for index, row in enumerate(_rows(state.jobs)):
        first, profile, shape = row["successors"], row["profile"], shapes[row["shape_id"]]
        jobs.append(
            Job(
                index=index,
                successors=links[first : first + row["successor_count"]],
                waiting_on=row["predecessors"],
                defer_us=defer_us[index],
                pools=[pool for pool in pools if shape["pools"] >> pool & 1],
                cpu_milli=shape["cpu_milli"],
                host_mib=shape["host_mib"],
                rates=rates[profile * len(pools) : (profile + 1) * len(pools)],
                sizes=sizes[row["curve"]] if row["curve"] >= 0 else None,
                shares=[PoolShare() for _ in pools],
                first_us=int(row["restart_us"] * float(state.clock[0].first_part)),
                **{name: row[name] for name in JOB_FIELDS},
            )
        )
    return jobs


def _read_sizes(state: State) -> list[ElasticSizes]:
    """Return the curves of elastic jobs; the draw per device does not depend on the count."""
    if not len(state.ranges):
        return []
    points, pools = _rows(state.points), len(state.pools)
    curves = []
    for row in _rows(state.ranges):
        rates = {}
        for count in range(row["least"], row["most"] + 1):
            first = row["first"] + (count - row["least"]) * pools
            by_pool = points[first : first + pools]
            rates[count] = [PoolRate(point["packed"], point["spread"], 0.0) for point in by_pool]
        curves.append(ElasticSizes(row["least"], row["most"], rates))
    return curves


def read_usual(state: State) -> list[UsualKind]:
    """Return the kinds of usual jobs."""
    names = UsualKind.__slots__
    return [UsualKind(**{name: row[name] for name in names}) for row in _rows(state.usual)]
