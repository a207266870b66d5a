"""Builds the state the kernel runs on from a cluster and a workload."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core import records as r
from flyball.core.accounts import own_rows
from flyball.core.cluster import MAX_DEVICES_PER_NODE, MAX_POOLS, Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.records import Records, records
from flyball.core.signals import DAY_US
from flyball.core.state import BLOCK_BITS, STALE, State, assemble
from flyball.core.units import FOREVER_US, MIB_PER_GIB, MILLI_PER_CORE, MILLI_PER_DEVICE, to_us
from flyball.core.workload import Workload
from flyball.physics import catalogue
from flyball.physics.power import host_w
from flyball.schedule.index import index_size
from flyball.twin.round_length import refuse_short_rounds
from flyball.twin.tables.costs import largest_set_up_s, set_up_us, slowdowns
from flyball.twin.tables.curves import MAX_DEVICES
from flyball.twin.tables.outages import draw_outages
from flyball.twin.tables.peers import blank_memos, owners
from flyball.twin.tables.rates import Profiles, cap_table, find_profiles, rate_table
from flyball.twin.tables.shapes import ClusterOffer, find_unfit, group_shapes
from flyball.twin.tables.signals import set_signals
from flyball.twin.tables.speeds import speed_tables
from flyball.twin.tables.spread import set_stretches, spreads_of
from flyball.twin.tables.tenants import refuse_beyond_limit, tenant_table
from flyball.twin.tables.usual import score_cache, usual_jobs

RUN_STRETCH = 1.25
"""Part of its estimated run time that a deferrable job's deadline allows for the run itself."""


def build_state(cluster: Cluster, workload: Workload, knobs: Knobs, effects: Effects) -> State:
    """Return the state before the first event.

    Raises:
        BadInput: a job that no node of the cluster can ever hold, or an empty workload.
    """
    _refuse_incompatible(workload, knobs, effects)
    catalogue.define(cluster.types)
    profiles = find_profiles(workload)
    rates = rate_table(profiles, cluster, effects.network, effects.step_slice_s, effects.costs)
    pools = _pools(cluster)
    jobs = _jobs(workload, profiles, effects)
    speeds = speed_tables(workload, profiles, cluster, effects)
    jobs.curve = speeds.of_job
    spreads = spreads_of(workload, effects)
    set_stretches(jobs, spreads, knobs)
    links = _links(workload, jobs)
    outages = draw_outages(cluster, workload, effects)
    start_us = int(workload.submit_us[0])
    nodes = _nodes(pools, start_us)
    runs = _runs(jobs)
    set_slack(runs, jobs, effects.slack_s)
    nodes.sleeps_us = start_us + int(knobs.pack()[0].sleep_us)
    caps = cap_table(cluster)
    clock = _clock(cluster, effects, nodes, start_us)
    clock.day_end_us = start_us + DAY_US - (start_us + (workload.origin_us or 0)) % DAY_US
    unit = catalogue.unit_of(cluster.groups)
    shapes = group_shapes(workload, jobs, ClusterOffer(pools, rates, caps, knobs, clock, unit))
    tenants = tenant_table(cluster, workload, start_us)
    if knobs.order == Order.FAIR:
        refuse_beyond_limit(own_rows(tenants, len(pools)), jobs, workload, unit)
    clock.hosts = bool(shapes.cpu_milli.any() or shapes.host_mib.any())
    clock.checkpoint_us = max(int(clock.checkpoint_us[0]), int(jobs.checkpoint_us.max()))
    clock.restart_us = max(int(clock.restart_us[0]), int(jobs.restart_us.max()))
    refuse_short_rounds(clock, pools, knobs)
    set_visit_order(pools, rates, shapes, jobs)
    groups = records(len(workload.group_limits), r.GROUP)
    groups.limit, groups.head, groups.tail = workload.group_limits, -1, -1
    tables = {
        "jobs": jobs,
        "pools": pools,
        "rates": rates,
        "caps": caps,
        "ranges": speeds.ranges,
        "points": speeds.points,
        "guesses": speeds.guesses,
        "pairs": speeds.pairs,
        "links": links,
        "outages": outages,
        "steps": set_signals(clock, cluster.price, cluster.carbon, workload.origin_us),
        "usual": usual_jobs(workload, jobs, shapes),
        "spreads": spreads,
        "runs": runs,
        "nodes": nodes,
        "shapes": shapes,
        "groups": groups,
        "clock": clock,
        "tenants": tenants,
        "memos": blank_memos(jobs, knobs),
        "learned": np.ones(len(jobs) * len(pools) if len(speeds.points) else 0),
        "pair_guesses": speeds.pair_guesses,
        "scores": score_cache(knobs, len(shapes), len(nodes)),
    }
    working = _working_arrays(workload, knobs, effects, pools, nodes, shapes)
    return assemble({**tables, **working})


def _working_arrays(
    workload: Workload,
    knobs: Knobs,
    effects: Effects,
    pools: Records,
    nodes: Records,
    shapes: Records,
) -> dict[str, Any]:
    """Return the queue, the plan and the scratch arrays of a run, empty."""
    jobs = len(workload)
    devices = int((pools.nodes.astype(np.int64) * pools.capacity).sum())
    fractions = (workload.milli < MILLI_PER_DEVICE).any()
    max_running, max_rows = _upper_bounds(workload, devices, effects)
    sharing_jobs = jobs if knobs.order == Order.SHARES else 0
    rows = records(max_rows, r.ROW)
    rows.next = np.append(np.arange(1, max_rows), -1)
    return {
        "devices": records(devices if fractions else 1, r.DEVICE),
        "rows": rows,
        "queue": records(int(shapes.begin[-1]) + jobs, r.ENTRY),
        "window": records(window_size(knobs, jobs), r.WINDOW),
        "events": records(
            max_running + max_running // 4 + len(nodes) + 64 + (jobs if effects.slack_s else 0),
            r.EVENT,
        ),
        "shares": records(sharing_jobs * len(pools), r.SHARE),
        "claims": records(sharing_jobs, r.CLAIM),
        "bitmaps": _bitmaps(pools),
        "avail": _blank_avail(int(pools.capacity.max()), len(nodes)),
        "node_scratch": records(len(nodes), r.SCRATCH),
        "device_scratch": records(devices, r.SCRATCH),
        "shortlist": records(len(nodes), r.EVENT),
        "victims": blank_victims(max_running, len(pools), int(pools.capacity.max())),
        "ranking": records(2 * sharing_jobs, r.RANK),
        "assigned": np.full(sharing_jobs, -1, np.int32),
        "plan": records(
            max_rows + 2 * max_running + 2 * len(nodes) + 1 + (jobs if effects.slack_s else 0),
            r.ACTION,
        ),
    }


def _blank_avail(capacity: int, nodes: int) -> npt.NDArray[np.int64]:
    """Return the cache of expected instants: a column for each node and each block of nodes."""
    blocks = -(-nodes >> BLOCK_BITS)
    return np.full((capacity + 1, nodes + blocks), STALE, np.int64)


def blank_victims(most_running: int, pools: int, capacity: int) -> Records:
    """Return room for the jobs that may be preempted in a round, and for the round's bounds."""
    return records(max(most_running, (pools + 1) * (capacity + 1)), r.VICTIM)


def unfit_jobs(
    cluster: Cluster, workload: Workload, knobs: Knobs, effects: Effects
) -> dict[str, npt.NDArray[np.intp]]:
    """Return the indices of jobs that no node of the cluster can ever hold, by reason."""
    catalogue.define(cluster.types)
    profiles = find_profiles(workload)
    pools, jobs = _pools(cluster), _jobs(workload, profiles, effects)
    rates = rate_table(profiles, cluster, effects.network, costs=effects.costs)
    offer = ClusterOffer(
        pools, rates, cap_table(cluster), knobs,
        _clock(cluster, effects, _nodes(pools, 0), 0), catalogue.unit_of(cluster.groups),
    )  # fmt: skip
    return find_unfit(workload, jobs, offer)


def _refuse_incompatible(workload: Workload, knobs: Knobs, effects: Effects) -> None:
    """Refuse an empty workload, and knobs and effects that do not go together."""
    if len(workload) == 0:
        raise BadInput(f"{workload.name} has no jobs", "nothing can be replayed")
    if effects.share_limit > 1 and knobs.preempt != Preempt.NEVER:
        raise BadInput("sharing of devices does not go with preempt=rounds", "use one of them")


def set_visit_order(pools: Records, rates: Records, shapes: Records, jobs: Records) -> None:
    """Set the order in which rounds visit pools: the fastest for the workload first."""
    bits = np.uint64(1) << np.arange(len(pools), dtype=np.uint64)
    could = (shapes.pools[:, None] & bits) > 0
    packed = rates.packed.reshape(-1, len(pools))[shapes.profile] * could
    relative = packed / packed.max(axis=1, keepdims=True)
    counts = np.bincount(jobs.shape_id, minlength=len(shapes))
    pools.visit = np.argsort(-(counts @ relative), kind="stable")


def window_size(knobs: Knobs, jobs: int) -> int:
    """Return the number of queued jobs that a scan may consider."""
    return min(knobs.depth, jobs)


def _pools(cluster: Cluster) -> Records:
    if len(cluster.groups) > MAX_POOLS:
        raise BadInput(
            f"{cluster.name} has {len(cluster.groups)} groups of nodes",
            f"use at most {MAX_POOLS}",
        )
    pools = records(len(cluster.groups), r.POOL)
    first, index = 0, 0
    for pool, group in zip(pools, cluster.groups, strict=True):
        if not 1 <= group.devices <= MAX_DEVICES_PER_NODE or group.count < 1:
            raise BadInput(
                f"group {group.name} has {group.count} nodes of {group.devices} devices",
                f"use 1 to {MAX_DEVICES_PER_NODE} devices a node and at least one node",
            )
        device = catalogue.get(group.device)
        pool.first_node, pool.nodes, pool.capacity = first, group.count, group.devices
        pool.memory_mib = round(device.memory_gib * MIB_PER_GIB)
        pool.device_type = catalogue.names().index(device.name)
        pool.words, pool.index = (group.count + 63) // 64, index
        pool.host_w, pool.idle_w = host_w(device, group.devices), device.idle_w
        pool.sleep_w, pool.wake_us = device.sleep_w, to_us(device.wake_s)
        pool.cpu_milli, pool.host_mib = host_size(group)
        first += group.count
        index += index_size(int(pool.words), group.devices)
    return pools


def host_size(group: NodeGroup) -> tuple[int, int]:
    """Return the host cores (thousandths) and host memory (MiB) of a node.

    Raises:
        BadInput: a host that is too large to count.
    """
    if not 0 <= group.cpus <= MAX_CPUS or not 0 <= group.memory_gib <= MAX_HOST_GIB:
        raise BadInput(
            f"group {group.name} has {group.cpus} cores and {group.memory_gib:g} GiB a node",
            f"use at most {MAX_CPUS} cores and {MAX_HOST_GIB:g} GiB",
        )
    return group.cpus * MILLI_PER_CORE, math.floor(group.memory_gib * MIB_PER_GIB)


def _jobs(workload: Workload, profiles: Profiles, effects: Effects) -> Records:
    share = workload.devices * workload.milli / MILLI_PER_DEVICE
    restart_us, slowdown = set_up_us(workload, effects), slowdowns(workload, effects)
    columns = {
        "reference_us": workload.duration_us * profiles.to_reference[profiles.of_job] * share,
        "restart_us": restart_us,
        "work_us": workload.duration_us * slowdown,
        "estimate_us": _estimates(workload, effects, slowdown),
        "profile": profiles.of_job,
        "kind": profiles.kinds,
        "owner": owners(workload),
    }
    for name in (
        *("submit_us", "limit_us", "priority", "devices", "milli", "memory_mib"),
        *("tenant", "group", "outcome", "model"),
    ):
        columns[name] = getattr(workload, name)
    columns["milli"] = np.where(workload.devices > 0, workload.milli, MILLI_PER_DEVICE)
    jobs = records(len(workload), r.JOB)
    _fill(jobs, columns)
    if effects.checkpoint_s:
        jobs.checkpoint_us = to_us(effects.checkpoint_s)
    return jobs


MAX_CPUS = 200_000
"""Maximum cores of a host."""
MAX_HOST_GIB = 1e6
"""Maximum memory of a host."""
CHUNK = 8192
"""Number of records written at a time."""


def _fill(table: Records, columns: dict[str, Any]) -> None:
    """Write columns into records, a chunk at a time so that it stays in the cache."""
    plain = table.view(np.ndarray)
    fields = [(plain[name], values) for name, values in columns.items()]
    for begin in range(0, len(table), CHUNK):
        for field, values in fields:
            field[begin : begin + CHUNK] = values[begin : begin + CHUNK]


def _estimates(
    workload: Workload, effects: Effects, slowdown: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return stated estimates, or else the duration with a log-normal error (see `Effects`)."""
    rng = np.random.default_rng([effects.seed, 1])
    guessed = workload.duration_us * slowdown
    if effects.estimate_sigma:
        guessed = guessed * np.exp(effects.estimate_sigma * rng.standard_normal(len(workload)))
    stated = workload.estimate_us
    return np.maximum(1.0, np.where(np.isnan(stated), guessed, stated))


def _links(workload: Workload, jobs: Records) -> npt.NDArray[np.int32]:
    """Return the successors of all jobs, concatenated; set the counts in `jobs`."""
    order = np.lexsort((workload.after_job, workload.after_on))
    if not len(order):
        return np.zeros(0, np.int32)
    counts = np.bincount(workload.after_on, minlength=len(jobs))
    jobs.successor_count = counts
    jobs.successors = np.cumsum(counts) - counts
    jobs.predecessors = np.bincount(workload.after_job, minlength=len(jobs))
    return workload.after_job[order].astype(np.int32)


def _runs(jobs: Records) -> Records:
    runs = records(len(jobs), r.RUN)
    none = np.broadcast_to(np.int64(-1), len(jobs))
    columns = dict.fromkeys(("first_start_us", "end_us", "first_row", "pool", "link"), none)
    _fill(runs, {**columns, "waiting_on": jobs.predecessors})
    return runs


def set_slack(runs: Records, jobs: Records, slack_s: float) -> None:
    """Let every job be deferred by up to `slack_s`; tasks of an array are not deferred.

    The deadline allows for the slack and for a run that takes `RUN_STRETCH` of its estimate.
    """
    if not slack_s:
        return
    runs.defer_us = np.where(jobs.group < 0, jobs.submit_us + to_us(slack_s), 0)
    run_us = np.ceil(RUN_STRETCH * jobs.estimate_us).astype(np.int64)
    runs.deadline_us = np.where(jobs.group < 0, jobs.submit_us + to_us(slack_s) + run_us, 0)


def _nodes(pools: Records, start_us: int) -> Records:
    nodes = records(int(pools.nodes.sum()), r.NODE)
    first_device = 0
    for pool_id, pool in enumerate(pools):
        capacity = int(pool.capacity)
        members: Any = nodes[pool.first_node : pool.first_node + pool.nodes]
        members.pool, members.free = pool_id, capacity
        members.free_mask = np.uint64((1 << capacity) - 1)
        members.free_cpu_milli, members.free_host_mib = pool.cpu_milli, pool.host_mib
        members.power_w = pool.host_w + pool.capacity * pool.idle_w
        members.first_device = first_device + capacity * np.arange(pool.nodes)
        first_device += capacity * int(pool.nodes)
    nodes.since_us = nodes.idle_since_us = start_us
    nodes.first_row = -1
    return nodes


def _bitmaps(pools: Records) -> npt.NDArray[np.uint64]:
    """Return bitmaps in which every node has all its devices free."""
    total = sum(index_size(int(pool.words), int(pool.capacity)) for pool in pools)
    bitmaps = np.zeros(total, np.uint64)
    for pool in pools:
        words = int(pool.words)
        summaries = (words + 63) // 64
        base = int(pool.index) + 1 + int(pool.capacity) * (1 + summaries + words)
        bitmaps[pool.index] = 1 << (int(pool.capacity) - 1)
        bitmaps[base] = pool.nodes
        bitmaps[base + 1 : base + 1 + summaries] = _ones(words)
        bitmaps[base + 1 + summaries : base + 1 + summaries + words] = _ones(int(pool.nodes))
    return bitmaps


def _ones(count: int) -> npt.NDArray[np.uint64]:
    """Return words whose first `count` bits are set."""
    words = np.full((count + 63) // 64, np.iinfo(np.uint64).max, np.uint64)
    if count % 64:
        words[-1] = (1 << (count % 64)) - 1
    return words


def _upper_bounds(workload: Workload, devices: int, effects: Effects) -> tuple[int, int]:
    """Return the largest possible numbers of running jobs and of rows in use."""
    per_device = max(MILLI_PER_DEVICE // int(workload.milli.min()), effects.share_limit)
    bare = int((workload.devices == 0).sum())  # host-only jobs: each has one row
    running = min(len(workload), devices * per_device + bare)
    held = int(np.where(workload.most == 0, workload.devices, MAX_DEVICES).sum())
    rows = min(held, devices * per_device) + bare
    return running, max(rows, 1)


def _clock(cluster: Cluster, effects: Effects, nodes: Records, start_us: int) -> Records:
    out = records(1, r.CLOCK)
    clock: Any = out[0]
    clock.now_us = clock.start_us = start_us
    power_w = 0.0
    for node_w in nodes.power_w:
        power_w += float(node_w)
    clock.power_w = clock.peak_power_w = power_w
    clock.budget_w = clock.power_budget_w = cluster.power_budget_w
    clock.money_per_day = cluster.money_per_day
    clock.carbon_g_per_day = cluster.carbon_kg_per_day * 1000.0
    if effects.costs is not None:
        clock.first_part, clock.free_moves = effects.costs.first_part, effects.costs.free_moves
    clock.checkpoint_every_us = to_us(effects.checkpoint_every_s)
    clock.checkpoint_us = to_us(effects.checkpoint_s)
    clock.restart_us = to_us(largest_set_up_s(effects))
    clock.reserved_job = clock.reserved_pool = -1
    clock.reserved_us = FOREVER_US
    clock.reserved_stamp = 1
    clock.asked_us = -1
    return out
