"""Making room for a job that waited too long: whom to set aside, and where."""

from __future__ import annotations

from typing import NamedTuple

from flyball.tune.plan_draft import Board


class Victims(NamedTuple):
    """Jobs that may be set aside, and what each is worth where it is."""

    jobs: list[int]
    values: list[float]


def make_room(board: Board, victims: Victims, pool: int, count: int) -> list[int] | None:
    """The jobs of least value without which a gang would fit a pool, packed; None = none would do.

    Args:
        board: left as it is.
        victims: who may be set aside.
        pool, count: where the gang would go, and its devices.
    """
    record = board.state.pools[pool]
    first, capacity = int(record.first_node), int(record.capacity)
    whole, rest = divmod(count, capacity)
    value = dict(zip(victims.jobs, victims.values, strict=True))
    on_node: dict[int, list[int]] = {}
    for job in victims.jobs:
        if board.pool[job] == pool:
            for node in board.nodes_of(job):
                on_node.setdefault(node, []).append(job)
    chosen: set[int] = set()
    used: set[int] = set()
    for need in (*([capacity] * whole), *([rest] if rest else [])):
        best: tuple[float, int, list[int]] | None = None
        for node in range(first, first + int(record.nodes)):
            if node in used:
                continue
            evicted = _clear(board, on_node.get(node, []), value, chosen, node, need)
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
    board: Board, jobs: list[int], value: dict[int, float], gone: set[int], node: int, need: int
) -> list[int] | None:
    """Further jobs to set aside so that `need` devices of a node are free; None = not enough."""
    held = {job: board.held_on(job, node) for job in jobs}
    free = int(board.free[node]) + sum(held[job] for job in jobs if job in gone)
    evicted: list[int] = []
    rest = [job for job in jobs if job not in gone]
    for job in sorted(rest, key=lambda each: (value[each] / max(1, held[each]), each)):
        if free >= need:
            break
        evicted.append(job)
        free += held[job]
    return evicted if free >= need else None
