"""Chooses which jobs to preempt, and where, for a job that waited too long."""

from __future__ import annotations

from typing import NamedTuple

from flyball.tune.plan_draft import PlanDraft


class Victims(NamedTuple):
    """Holds the jobs that may be preempted, and what each is worth where it is."""

    jobs: list[int]
    values: list[float]


def make_room(draft: PlanDraft, victims: Victims, pool: int, count: int) -> list[int] | None:
    """Return the jobs of least value without which a gang would fit a pool, packed; None = no such.

    Args:
        draft: is not changed.
        victims: jobs that may be preempted.
        pool, count: where the gang would go, and its devices.
    """
    record = draft.state.pools[pool]
    first, capacity = int(record.first_node), int(record.capacity)
    full_nodes, rest = divmod(count, capacity)
    value = dict(zip(victims.jobs, victims.values, strict=True))
    on_node: dict[int, list[int]] = {}
    for job in victims.jobs:
        if draft.pool[job] == pool:
            for node in draft.nodes_of(job):
                on_node.setdefault(node, []).append(job)
    chosen: set[int] = set()
    used: set[int] = set()
    for need in (*([capacity] * full_nodes), *([rest] if rest else [])):
        best: tuple[float, int, list[int]] | None = None
        for node in range(first, first + int(record.nodes)):
            if node in used:
                continue
            evicted = _clear(draft, on_node.get(node, []), value, chosen, node, need)
            if evicted is None:
                continue
            lost = sum(value[job] for job in evicted)
            if best is None or lost < best[0]:
                best = lost, node, evicted
        if best is None:
            return None
        used.add(best[1])
        chosen.update(best[2])
    return sorted(chosen)


def _clear(
    draft: PlanDraft, jobs: list[int], value: dict[int, float], gone: set[int], node: int, need: int
) -> list[int] | None:
    """Return further jobs to preempt so that a node has `need` devices free; None = too few."""
    held = {job: draft.held_on(job, node) for job in jobs}
    free = int(draft.free[node]) + sum(held[job] for job in jobs if job in gone)
    evicted: list[int] = []
    rest = [job for job in jobs if job not in gone]
    for job in sorted(rest, key=lambda job: (value[job] / max(1, held[job]), job)):
        if free >= need:
            break
        evicted.append(job)
        free += held[job]
    return evicted if free >= need else None
