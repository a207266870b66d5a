"""Explains that there is no room: too few devices free, or scattered, unsuitable or down."""

from __future__ import annotations

from typing import Any

from flyball.core.knobs import Place, Span
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE
from flyball.schedule.explain.answer import (
    Explanation,
    explanation,
    request_text,
    smaller,
    types_text,
    wait_text,
)
from flyball.schedule.explain.host import host_full, host_text
from flyball.schedule.explain.queue_facts import QueueFacts, Room
from flyball.schedule.explain.whatif import PlacementProbe, would_run
from flyball.schedule.explain.wording import are, counted, listed


def no_room(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> Explanation:
    """Explain why no pool that could run the job has room for it."""
    room, job = facts.room(job_id), facts.state.jobs[job_id]
    if room.down and (not room.could_hold or job_id in facts.starts_if_repaired):
        return _nodes_down(facts, job_id, probe, room)
    spot = probe.place(on_host=False)
    if spot is not None:
        return host_full(facts, job_id, probe, spot)
    if room.free >= job.devices:
        return _fragmented(facts, job_id, probe, room)
    idle = _unsuitable(facts, job_id, probe)
    if idle:
        return _no_suitable(facts, job_id, probe, room, idle)
    return no_free(facts, job_id, probe, room)


def _numbers(room: Room) -> dict[str, Any]:
    numbers: dict[str, Any] = {"free": room.free, "total": room.total}
    numbers |= {"others": room.outside} if room.outside else {}
    return numbers | ({"nodes_down": len(room.down)} if room.down else {})


def _of_total(facts: QueueFacts, job_id: int, room: Room) -> str:
    """Return `needs 8 of the 64 devices it can run on (V100)`."""
    job, pools = facts.state.jobs[job_id], facts.pools_of(job_id)
    if job.devices == 0:
        shape = facts.state.shapes[job.shape_id]
        return f"needs {host_text(int(shape.cpu_milli), int(shape.host_mib))} of a host"
    if job.milli < MILLI_PER_DEVICE:
        text = f"needs {request_text(facts, job_id)}"
        if job.memory_mib:
            text += f" with {job.memory_mib / MIB_PER_GIB:.3g} GiB"
        return text
    units, every = facts.names.units, len(pools) == len(facts.state.pools)
    which = units if every else f"{units} it can run on ({types_text(facts, pools)})"
    return f"needs {job.devices} of the {room.total:,} {which}"


def _nodes_down(facts: QueueFacts, job_id: int, probe: PlacementProbe, room: Room) -> Explanation:
    names = [facts.names.node(facts.state, node_id) for node_id in room.down]
    units = facts.names.units
    why = (
        f"{_of_total(facts, job_id, room)}; {len(room.down)} of the {room.nodes:,} nodes "
        f"{'is' if len(names) == 1 else 'are'} down ({listed(names)}), {room.free} {units} are free"
    )
    numbers = _numbers(room) | {"down": names}
    helps = job_id in facts.starts_if_repaired
    them = "it" if len(names) == 1 else "them"
    remedies = [f"bring {them} back" + (": it would then start at once" if helps else "")]
    remedies.append(smaller(facts, job_id, probe))
    return explanation(facts, job_id, "nodes-down", why, remedies, **numbers)


def _fragmented(facts: QueueFacts, job_id: int, probe: PlacementProbe, room: Room) -> Explanation:
    job = facts.state.jobs[job_id]
    free = f"{room.free:,} are free"
    if room.most_in_pool < job.devices:
        free += f", but at most {room.most_in_pool} of one group, and a gang stays within a group"
    elif job.devices > max(
        int(facts.state.pools[pool_id].capacity) for pool_id in facts.pools_of(job_id)
    ):
        only = f"{counted(room.empty, 'node')} {are(room.empty)}" if room.empty else "none is"
        free += f", but a gang larger than a node takes empty nodes and {only} empty"
    else:
        free += f", but at most {room.most_on_node} on one node"
    if room.outside:
        free += f"; jobs outside this queue have {room.outside:,}"
    numbers = _numbers(room) | {
        "most_on_node": room.most_on_node,
        "most_in_pool": room.most_in_pool,
    }
    remedies = [wait_text(facts, job_id, numbers), smaller(facts, job_id, probe)]
    if facts.knobs.span == Span.WHOLE:
        gathered = probe.place(knobs={"span": Span.ANY})
        if gathered is not None:
            rate = facts.state.rates[int(job.profile) * len(facts.state.pools) + gathered.pool]
            speed = float(rate.spread / rate.packed)
            numbers["spread_speed"] = speed
            remedies.append(
                f"let gangs span nodes (span=any): it would start now at {speed:.0%} of the speed"
            )
    why = f"{_of_total(facts, job_id, room)}; {free}"
    return explanation(facts, job_id, "fragmented", why, remedies, **numbers)


def _unsuitable(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> dict[int, str]:
    """Return the pools that have room for the job but cannot run it, and why."""
    job, reasons = facts.state.jobs[job_id], {}
    for pool_id in sorted(set(range(len(facts.state.pools))) - set(facts.pools_of(job_id))):
        pool = facts.state.pools[pool_id]
        rate = facts.state.rates[int(job.profile) * len(facts.state.pools) + pool_id]
        if rate.packed <= 0:
            why = "does not run it"
        elif job.memory_mib > pool.memory_mib:
            why = f"has {pool.memory_mib / MIB_PER_GIB:g} GiB"
        elif would_run(facts.state, job_id, int(job.memory_mib)) >> pool_id & 1:
            why = "would break the power budget even alone"
        else:
            continue
        plain = {"place": Place.BEST_FIT}
        if probe.place(pools=1 << pool_id, knobs=plain, respect_head=False, within_budget=False):
            reasons[pool_id] = why
    return reasons


def _no_suitable(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, room: Room, idle: dict[int, str]
) -> Explanation:
    memory_mib = int(facts.state.jobs[job_id].memory_mib)
    reasons = listed(f"{facts.names.type(pool_id)} {why}" for pool_id, why in idle.items())
    needs = f" with {memory_mib / MIB_PER_GIB:.3g} GiB each" if memory_mib else ""
    where = listed((facts.names.type(pool_id) for pool_id in idle), "and")
    why = (
        f"{_of_total(facts, job_id, room)}{needs}, and {room.free} of these are free; there is "
        f"room on {where}, but {reasons}"
    )
    numbers = _numbers(room) | {"unsuitable": [facts.names.type(pool_id) for pool_id in idle]}
    remedies = [wait_text(facts, job_id, numbers)]
    sizes = sorted({int(facts.state.pools[pool_id].memory_mib) for pool_id in idle}, reverse=True)
    for size in sizes:
        pools = would_run(facts.state, job_id, size)
        spot = probe.place(pools=pools, memory_mib=size) if size < memory_mib else None
        if spot is not None:
            numbers["memory_at_most_gib"] = size / MIB_PER_GIB
            remedies.append(
                f"if {size / MIB_PER_GIB:g} GiB are enough, say so: it would start now "
                f"{spot.text(facts.state, facts.names)}"
            )
            break
    remedies.append(smaller(facts, job_id, probe))
    return explanation(facts, job_id, "no-suitable-devices", why, remedies, **numbers)


def no_free(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, room: Room, more: str = ""
) -> Explanation:
    """Explain that too few devices are free; `more` is a further clause."""
    numbers = _numbers(room)
    none = "none is free" if room.free == 0 else f"{room.free} {are(room.free)} free"
    if facts.state.jobs[job_id].milli < MILLI_PER_DEVICE:
        some = counted(room.free, facts.names.unit) if room.free else "none"
        none = f"{some} of {room.total:,} {'have' if room.free > 1 else 'has'} that much free"
    parts = [_of_total(facts, job_id, room), none]
    if room.short_of_memory:
        numbers["short_of_memory"] = room.short_of_memory
        have = "has" if room.short_of_memory == 1 else "have"
        parts.append(f"{room.short_of_memory} more {have} the share free, but not the memory")
    if room.outside:
        parts.append(f"jobs outside this queue have {room.outside:,}")
    if room.down:
        parts.append(f"{counted(len(room.down), 'node')} {are(len(room.down))} down")
    remedies = [wait_text(facts, job_id, numbers), smaller(facts, job_id, probe)]
    why = "; ".join([*parts, more] if more else parts)
    return explanation(facts, job_id, "no-free-devices", why, remedies, **numbers)
