"""There is no room: too few devices free, or scattered, unsuitable or down."""

from __future__ import annotations

from typing import Any

from flyball.core.knobs import Place, Span
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE
from flyball.schedule.explain.answer import (
    Explanation,
    made,
    request_text,
    smaller,
    types_text,
    wait,
)
from flyball.schedule.explain.host import host_full, host_text
from flyball.schedule.explain.queue_facts import Inquiry, Room
from flyball.schedule.explain.whatif import Probe, would_run
from flyball.schedule.explain.wording import are, counted, listed


def no_room(ask: Inquiry, job_id: int, probe: Probe) -> Explanation:
    """Why no pool that could run the job has room for it."""
    room, job = ask.room(job_id), ask.state.jobs[job_id]
    if room.down and (not room.could_hold or job_id in ask.starts_if_repaired):
        return _nodes_down(ask, job_id, probe, room)
    spot = probe.place(on_host=False)
    if spot is not None:
        return host_full(ask, job_id, probe, spot)
    if room.free >= job.devices:
        return _fragmented(ask, job_id, probe, room)
    idle = _unsuitable(ask, job_id, probe)
    if idle:
        return _no_suitable(ask, job_id, probe, room, idle)
    return no_free(ask, job_id, probe, room)


def _numbers(room: Room) -> dict[str, Any]:
    numbers: dict[str, Any] = {"free": room.free, "total": room.total}
    return numbers | ({"nodes_down": len(room.down)} if room.down else {})


def _of_total(ask: Inquiry, job_id: int, room: Room) -> str:
    """`needs 8 of the 64 devices it can run on (V100)`."""
    job, pools = ask.state.jobs[job_id], ask.pools_of(job_id)
    if job.devices == 0:
        shape = ask.state.shapes[job.shape_id]
        return f"needs {host_text(int(shape.cpu_milli), int(shape.host_mib))} of a host"
    if job.milli < MILLI_PER_DEVICE:
        text = f"needs {request_text(ask, job_id)}"
        if job.memory_mib:
            text += f" with {job.memory_mib / MIB_PER_GIB:.3g} GiB"
        return text
    units, every = ask.names.units, len(pools) == len(ask.state.pools)
    which = units if every else f"{units} it can run on ({types_text(ask, pools)})"
    return f"needs {job.devices} of the {room.total:,} {which}"


def _nodes_down(ask: Inquiry, job_id: int, probe: Probe, room: Room) -> Explanation:
    names = [ask.names.node(ask.state, each) for each in room.down]
    units = ask.names.units
    why = (
        f"{_of_total(ask, job_id, room)}; {len(room.down)} of the {room.nodes:,} nodes "
        f"{'is' if len(names) == 1 else 'are'} down ({listed(names)}), {room.free} {units} are free"
    )
    numbers = _numbers(room) | {"down": names}
    helps = job_id in ask.starts_if_repaired
    them = "it" if len(names) == 1 else "them"
    remedies = [f"bring {them} back" + (": it would then start at once" if helps else "")]
    remedies.append(smaller(ask, job_id, probe))
    return made(ask, job_id, "nodes-down", why, remedies, **numbers)


def _fragmented(ask: Inquiry, job_id: int, probe: Probe, room: Room) -> Explanation:
    job = ask.state.jobs[job_id]
    free = f"{room.free:,} are free"
    if room.most_in_pool < job.devices:
        free += f", but at most {room.most_in_pool} of one group, and a gang stays within a group"
    elif job.devices > max(int(ask.state.pools[each].capacity) for each in ask.pools_of(job_id)):
        only = f"{counted(room.empty, 'node')} {are(room.empty)}" if room.empty else "none is"
        free += f", but a gang larger than a node takes empty nodes and {only} empty"
    else:
        free += f", but at most {room.most_on_node} on one node"
    numbers = _numbers(room) | {
        "most_on_node": room.most_on_node,
        "most_in_pool": room.most_in_pool,
    }
    remedies = [wait(ask, job_id, numbers), smaller(ask, job_id, probe)]
    if ask.knobs.span == Span.WHOLE:
        gathered = probe.place(knobs={"span": Span.ANY})
        if gathered is not None:
            rate = ask.state.rates[int(job.profile) * len(ask.state.pools) + gathered.pool]
            speed = float(rate.spread / rate.packed)
            numbers["spread_speed"] = speed
            remedies.append(
                f"let gangs span nodes (span=any): it would start now at {speed:.0%} of the speed"
            )
    why = f"{_of_total(ask, job_id, room)}; {free}"
    return made(ask, job_id, "fragmented", why, remedies, **numbers)


def _unsuitable(ask: Inquiry, job_id: int, probe: Probe) -> dict[int, str]:
    """Pools with room for the job that cannot run it, and why."""
    job, found = ask.state.jobs[job_id], {}
    for pool_id in sorted(set(range(len(ask.state.pools))) - set(ask.pools_of(job_id))):
        pool = ask.state.pools[pool_id]
        rate = ask.state.rates[int(job.profile) * len(ask.state.pools) + pool_id]
        if rate.packed <= 0:
            why = "does not run it"
        elif job.memory_mib > pool.memory_mib:
            why = f"has {pool.memory_mib / MIB_PER_GIB:g} GiB"
        elif would_run(ask.state, job_id, int(job.memory_mib)) >> pool_id & 1:
            why = "would break the power budget even alone"
        else:
            continue
        plain = {"place": Place.BEST_FIT}
        if probe.place(pools=1 << pool_id, knobs=plain, respect_head=False, within_budget=False):
            found[pool_id] = why
    return found


def _no_suitable(
    ask: Inquiry, job_id: int, probe: Probe, room: Room, idle: dict[int, str]
) -> Explanation:
    memory_mib = int(ask.state.jobs[job_id].memory_mib)
    said = listed(f"{ask.names.type(each)} {why}" for each, why in idle.items())
    needs = f" with {memory_mib / MIB_PER_GIB:.3g} GiB each" if memory_mib else ""
    where = listed((ask.names.type(each) for each in idle), "and")
    why = (
        f"{_of_total(ask, job_id, room)}{needs}, and {room.free} of these are free; there is room "
        f"on {where}, but {said}"
    )
    numbers = _numbers(room) | {"unsuitable": [ask.names.type(each) for each in idle]}
    remedies = [wait(ask, job_id, numbers)]
    sizes = sorted({int(ask.state.pools[each].memory_mib) for each in idle}, reverse=True)
    for size in sizes:
        pools = would_run(ask.state, job_id, size)
        spot = probe.place(pools=pools, memory_mib=size) if size < memory_mib else None
        if spot is not None:
            numbers["memory_at_most_gib"] = size / MIB_PER_GIB
            remedies.append(
                f"if {size / MIB_PER_GIB:g} GiB are enough, say so: it would start now "
                f"{spot.text(ask.state, ask.names)}"
            )
            break
    remedies.append(smaller(ask, job_id, probe))
    return made(ask, job_id, "no-suitable-devices", why, remedies, **numbers)


def no_free(ask: Inquiry, job_id: int, probe: Probe, room: Room, more: str = "") -> Explanation:
    """Too few devices are free; `more` is what else there is to say."""
    numbers = _numbers(room)
    none = "none is free" if room.free == 0 else f"{room.free} {are(room.free)} free"
    if ask.state.jobs[job_id].milli < MILLI_PER_DEVICE:
        some = counted(room.free, ask.names.unit) if room.free else "none"
        none = f"{some} of {room.total:,} {'have' if room.free > 1 else 'has'} that much free"
    parts = [_of_total(ask, job_id, room), none]
    if room.short_of_memory:
        numbers["short_of_memory"] = room.short_of_memory
        parts.append(f"{room.short_of_memory} more would, but for the memory")
    if room.down:
        parts.append(f"{counted(len(room.down), 'node')} {are(len(room.down))} down")
    remedies = [wait(ask, job_id, numbers), smaller(ask, job_id, probe)]
    why = "; ".join([*parts, more] if more else parts)
    return made(ask, job_id, "no-free-devices", why, remedies, **numbers)
