"""The roster: the nodes of a cluster under stable names and places, whoever is there at present.

Jobs hold (place, mask) pairs, so a place is never given to another node while a job is active. A
node that is absent keeps its place: its jobs wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from flyball.control.jobs.node_choice import CORE, pools_of
from flyball.control.jobs.request import nodes_of
from flyball.control.journal.history import History
from flyball.core.cluster import MAX_POOLS
from flyball.core.errors import BadInput, NotFound
from flyball.core.events import NodeChanged, OthersChanged
from flyball.core.jobs import Job
from flyball.core.live import NOBODY, LiveNode, Report

DOWN, ABSENT, DRAINED = "down", "absent", "drained"
PAGE = 1000
NOT_THERE = "the engine does not know of it at present"

logger = logging.getLogger("flyball.control")


def merged(
    before: Sequence[LiveNode],
    present: Sequence[LiveNode],
    jobs: Iterable[Job],
    starting: bool = False,
) -> tuple[LiveNode, ...]:
    """Return the roster after nodes have come, gone or changed.

    Args:
        before: the roster so far.
        present: the nodes that the engine knows of.
        jobs: the active jobs; those that hold devices suffice unless `starting`.
        starting: whether absent nodes are forgotten if there is no active job.
    """
    active = list(jobs)
    rows = [row for job in active for row in job.rows]
    present = [_plain(node) for node in present]
    if not before or (starting and not active) or not (rows or _misses(before, present)):
        return tuple(present)
    if len(before) == len(present) == 1:  # this machine, which may have another name by now
        before = [before[0]._replace(name=present[0].name)]
    by_name = {node.name: node for node in present}
    held: dict[int, int] = {}
    for row in rows:
        held[row.node] = held.get(row.node, 0) | row.mask
    roster = [
        _updated(node, by_name.pop(node.name, node), at in held) for at, node in enumerate(before)
    ]
    cores_only = all(node.device == CORE for node in before)
    for node in _by_kind(list(by_name.values())):
        if cores_only and node.device != CORE:
            why = "devices are cores until no job is active"
        elif len(pools_of([*roster, node])) > MAX_POOLS:
            why = f"at most {MAX_POOLS} groups of like nodes can be told apart"
        else:
            roster.append(node)
            continue
        logger.warning("node %s is left out for now: %s", node.name, why)
    return tuple(roster)


def holds(roster: Sequence[LiveNode], present: Sequence[LiveNode]) -> bool:
    """Whether a roster has every node as the engine describes it; else some have to wait."""
    return {_plain(node) for node in present} <= set(roster)


def on_record(
    journal: History,
) -> tuple[tuple[LiveNode, ...], tuple[tuple[LiveNode, ...], list[NodeChanged]]]:
    """Return the last roster in the journal; and again, with the events of its nodes."""
    try:
        seq, opened = journal.last_opened()
    except BadInput:  # there was none
        return (), ((), [])
    notes: dict[int, NodeChanged] = {}
    while page := journal.events(seq, PAGE, (NodeChanged.kind,)):
        seq = page[-1][0]
        notes |= {event.node: event for _seq, event in page if isinstance(event, NodeChanged)}
    nodes = tuple(_plain(node) for node in nodes_of(opened))
    return nodes, (nodes, list(notes.values()))


def place_of(roster: Sequence[LiveNode], name: str) -> int:
    """Return the place of a node.

    Raises:
        NotFound: there is none of this name.
    """
    for at, node in enumerate(roster):
        if node.name == name:
            return at
    raise NotFound(f"no node {name!r}", "`flyball nodes` lists them")


def placed(reports: Sequence[Report], roster: Sequence[LiveNode]) -> list[Report]:
    """Return reports with the places of nodes instead of their names; unknown ones lose them."""
    if not any("rows" in report.values for report in reports):
        return list(reports)
    places = {node.name: at for at, node in enumerate(roster)}
    named = []
    for report in reports:
        values = dict(report.values)
        rows = values.pop("rows", ())
        if rows and all(name in places for name, _mask in rows):
            values["rows"] = [[places[name], mask] for name, mask in rows]
        named.append(report._replace(values=values))
    return named


def _plain(node: LiveNode) -> LiveNode:
    """Return a node without its state, which is an event of its own."""
    return node._replace(up=True, reason="", others=NOBODY)


def _misses(before: Sequence[LiveNode], present: Sequence[LiveNode]) -> bool:
    """Whether a node is absent that may come back; a single one was renamed."""
    names = {node.name for node in present}
    return len(before) > 1 and any(node.name not in names for node in before)


def _by_kind(nodes: Sequence[LiveNode]) -> list[LiveNode]:
    """Return nodes with like ones next to each other, otherwise in their order."""
    kinds: dict[tuple[object, ...], list[LiveNode]] = {}
    for node in nodes:
        kind = (node.device, node.devices, node.cpus, node.memory_mib, node.features)
        kinds.setdefault(kind, []).append(node)
    return [node for like in kinds.values() for node in like]


def _updated(before: LiveNode, now: LiveNode, in_use: bool) -> LiveNode:
    """Return a node as described now; while jobs hold it, only if it has not become smaller."""
    sizes = zip(before[2:5], now[2:5], strict=True)
    shrunk = any(there < here for here, there in sizes) or before.device != now.device
    return before if in_use and (shrunk or not {*before.features} <= {*now.features}) else now


def node_events(
    roster: Sequence[LiveNode],
    present: Sequence[LiveNode],
    notes: Mapping[int, NodeChanged],
    now_us: int,
) -> list[NodeChanged]:
    """Return what has changed about nodes since the live state was told.

    Args:
        notes: the last event of each node that is not up. A drained node stays so until resumed.
    """
    by_name = {node.name: node for node in present}
    if len(roster) == len(present) == 1:
        by_name = {roster[0].name: present[0]}
    events = []
    for at, node in enumerate(roster):
        there, note = by_name.get(node.name), notes.get(at)
        if note is not None and note.state == DRAINED:
            continue
        if there is not None and there.up:
            if note is not None:
                events.append(NodeChanged(now_us, at, True, node.name))
            continue
        state, reason = (ABSENT, NOT_THERE) if there is None else (DOWN, there.reason or None)
        if note is None or (note.state, note.reason) != (state, reason):
            events.append(NodeChanged(now_us, at, False, node.name, state, reason))
    return events


def others_events(
    roster: Sequence[LiveNode],
    present: Sequence[LiveNode],
    before: Mapping[int, tuple[int, int, int]],
    now_us: int,
) -> list[OthersChanged]:
    """Return the event of nodes of which others have another part than before, if there are any."""
    parts = {node.name: node.others for node in present}
    rows = [
        [at, *parts[node.name]]
        for at, node in enumerate(roster)
        if parts.get(node.name, before.get(at, NOBODY)) != before.get(at, NOBODY)
    ]
    return [OthersChanged(now_us, rows)] if rows else []


def carried_over(
    before: Sequence[LiveNode], notes: Iterable[NodeChanged], now: Sequence[LiveNode], now_us: int
) -> list[NodeChanged]:
    """Return the events that keep drained nodes drained in a new roster."""
    drained = {before[note.node].name: note for note in notes if note.state == DRAINED}
    return [
        NodeChanged(now_us, at, False, node.name, DRAINED, note.reason, note.who)
        for at, node in enumerate(now)
        if (note := drained.get(node.name)) is not None
    ]
