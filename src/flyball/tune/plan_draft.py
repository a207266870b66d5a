"""A draft of a plan that tuners change further; all tuners use it.

    draft = PlanDraft(state, plan)
    draft.stop(job, Reason.GREW, gain)
    draft.start(job, pool, 4, Reason.GREW, gain)
    return draft.plan()

The draft tracks which job holds which devices once the plan is carried out. At the end it is
compared with the state: a job that ends up where it was causes no action.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.records import ACTION, Records, records
from flyball.core.results import Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.tune.budgets import HostCapacity, Placement, PowerBudget

GUEST = 0
"""Thousandths in the row of a job that shares a device which another job holds."""
EXTENT = ("first_node", "nodes", "capacity")
FULL = 1 << 30
"""Key of a node without room, larger than any other."""


class Rationale(NamedTuple):
    """Holds the reason and the predicted gain that the record of an action has."""

    reason: int
    gain: float


class PlannedRow(NamedTuple):
    """Holds a row of a plan as plain numbers; reading records takes ten times as long."""

    job: int
    node: int
    mask: int
    milli: int
    level: int
    reason: int
    gain: float


PREEMPT, START, CAP = int(ActionKind.PREEMPT), int(ActionKind.START), int(ActionKind.CAP)
ActionRow = tuple[int, int, int, int, int, int, Rationale]
"""An action: kind, job, node, mask, milli, level and rationale."""


class PlanDraft:
    """Holds the cluster as it would be after a plan.

    Attributes:
        now_us: the instant of the decision.
        active: jobs pending or running after the plan, by index.
        pool, count, cap: by job: its pool and devices (-1 / 0 = not running) and its cap level.
        free: whole free devices by node after the plan.
    """

    def __init__(self, state: State, plan: Records) -> None:
        self.state = state
        self.now_us = int(state.clock[0].now_us)
        runs, nodes = state.runs.view(np.ndarray), state.nodes.view(np.ndarray)
        self._runs, self._jobs = runs, state.jobs.view(np.ndarray)
        status = runs["status"]
        self.active: Ints = np.flatnonzero((status == Status.PENDING) | (status == Status.RUNNING))
        running = (status == Status.RUNNING) & (runs["first_row"] >= 0)
        self.pool: Ints = np.where(running, runs["pool"], -1).astype(np.int64)
        self.count: Ints = np.where(running, runs["devices"], 0).astype(np.int64)
        self.cap: Ints = np.where(running, runs["cap"], 0).astype(np.int64)
        self._up = nodes["down"] == 0
        self._node_pool = nodes["pool"].tolist()
        self.free: Ints = np.where(self._up, nodes["free"], 0).astype(np.int64)
        pools = state.pools.view(np.ndarray)
        self._extent = list(zip(*(pools[name].tolist() for name in EXTENT), strict=True))
        whole = np.bincount(nodes["pool"], self.free, len(pools))
        self._free_in: list[int] = whole.astype(int).tolist()
        self._masks: list[int] = np.where(self._up, nodes["free_mask"], np.uint64(0)).tolist()
        self._asleep = (nodes["idle_since_us"] >= 0) & (nodes["sleeps_us"] <= self.now_us)
        self._places, self._is_guest = _places(state, np.flatnonzero(running).tolist())
        self._before = dict(self._places)
        self._on: dict[tuple[int, int], list[int]] = {}  # one-device jobs by device
        single = set(np.flatnonzero(running & (self.count == 1)).tolist())
        for job, place in self._places.items():
            if len(place) == 1 and job in single:
                self._on.setdefault(place[0], []).append(job)
        self._joined: set[int] = set()  # guests of this plan, even on the device they were on
        self._stops: dict[int, Rationale] = {}
        self._starts: dict[int, Rationale] = {}
        self._caps: dict[int, Rationale] = {}
        self._others: list[ActionRow] = []
        self._kept: list[Any] = []  # rows of the plan that pass as they are
        self._power = PowerBudget(state)
        self._hosts = HostCapacity(state) if state.clock[0].hosts else None
        self._take_over(plan)

    # The plan so far ---------------------------------------------------------------

    def _take_over(self, plan: Records) -> None:
        """Apply the plan to the draft."""
        starts: dict[int, list[PlannedRow]] = {}
        kinds = plan.view(np.ndarray)["kind"].tolist()
        columns = (plan.view(np.ndarray)[name].tolist() for name in PlannedRow._fields)
        for at, (kind, line) in enumerate(zip(kinds, map(PlannedRow, *columns), strict=True)):
            if kind == PREEMPT:
                self.stop(line.job, line.reason, line.gain)
            elif kind == START:
                starts.setdefault(line.job, []).append(line)
            elif kind == CAP:
                self.set_cap(line.job, line.level, line.reason, line.gain)
            else:
                self._kept.append(plan[at])
        for job, lines in starts.items():
            first = lines[0]
            place = tuple((line.node, line.mask) for line in lines)
            self._put(job, place, first.milli, first.level, Rationale(first.reason, first.gain))

    # Changes ----------------------------------------------------------------------

    def stop(self, job: int, reason: int, gain: float) -> None:
        """Preempt a job, or undo its planned start."""
        place = self._places.pop(job)
        self._account(job, place, -1)
        alone = self._leave(job, place)
        if alone and job not in self._is_guest:
            self._give_back(job, place)
        self._is_guest.discard(job)
        self._joined.discard(job)
        self.pool[job], self.count[job], self.cap[job] = -1, 0, 0
        self._starts.pop(job, None)
        if job in self._before:
            self._stops[job] = Rationale(reason, gain)

    def start(
        self, job: int, pool: int, count: int, reason: int, gain: float, cap: int = 0
    ) -> bool:
        """Start a job on the fewest nodes of a pool, fullest first; False = no room.

        It goes where it was before the plan if that is still free and of this size.
        """
        assert job not in self._places, "a job is stopped before it starts elsewhere"
        place = self._back(job, pool, count)
        if place is None or cap != self._runs["cap"][job]:
            if not self._power.allows(job, pool, count, cap):
                return False
            place = place or self._find(job, pool, count)
        if place is None:
            return False
        milli = int(self._jobs["milli"][job])
        self._put(job, place, milli, cap, Rationale(reason, gain))
        return True

    def join(self, job: int, holder: int, reason: int, gain: float) -> bool:
        """Start a job as a guest on the one device of another; False = not possible."""
        place = self._places.get(holder)
        if place is None or self.count[holder] != 1:
            return False
        if self._jobs["milli"][holder] != MILLI_PER_DEVICE:
            return False
        if not self._power.allows(job, int(self.pool[holder]), 1, 0):
            return False
        self._put(job, place, GUEST, 0, Rationale(reason, gain))
        self._joined.add(job)
        return True

    def set_cap(self, job: int, level: int, reason: int, gain: float) -> None:
        """Change the power cap of a job."""
        self._account(job, self._places[job], -1)
        self.cap[job] = level
        self._account(job, self._places[job], 1)
        self._caps[job] = Rationale(reason, gain)

    def sleep(self, node: int, gain: float) -> None:
        """Send an idle node to sleep."""
        self._note(ActionKind.SLEEP, -1, node, 0, Rationale(Reason.SENT_TO_SLEEP, gain))

    def wake(self, node: int, gain: float) -> None:
        """Wake a node, or keep it awake."""
        self._note(ActionKind.WAKE, -1, node, 0, Rationale(Reason.WOKEN, gain))

    def replicas(self, group: int, count: int, gain: float) -> None:
        """Set how many replicas a service has; -1 = it ends."""
        self._note(ActionKind.REPLICAS, group, -1, count, Rationale(Reason.SCALED, gain))

    def room(self, pool: int, count: int) -> bool:
        """Return whether a gang of whole devices would fit a pool, packed, ignoring hosts."""
        return self._nodes_for(-1, pool, count) is not None

    def nodes_of(self, job: int) -> list[int]:
        """Return the nodes a job is on."""
        return [node for node, _ in self._places.get(job, ())]

    def free_in(self, pool: int) -> int:
        """Return the whole free devices of a pool."""
        return self._free_in[pool]

    def guests(self, job: int) -> list[int]:
        """Return the other jobs on the device of `job`, by index."""
        place = self._places.get(job)
        if place is None or len(place) > 1 or self.count[job] != 1:
            return []
        return sorted(other for other in self._on[place[0]] if other != job)

    def asleep(self, node: int) -> bool:
        """Return whether a node sleeps now."""
        return bool(self._asleep[node])

    # The plan -----------------------------------------------------------------------

    def plan(self) -> Records:
        """Return the actions: preempt, start, cap, sleep, wake, replicas, then unchanged rows."""
        rows: list[ActionRow] = [
            (ActionKind.PREEMPT, job, -1, 0, 0, 0, why)
            for job, why in self._stops.items()
            if self._moved(job)
        ]
        for job, why in sorted(self._starts.items(), key=lambda item: item[0] in self._is_guest):
            if job in self._before and not self._moved(job):
                continue
            milli = GUEST if job in self._is_guest else int(self._jobs["milli"][job])
            for node, mask in self._places[job]:
                rows.append((ActionKind.START, job, node, mask, milli, int(self.cap[job]), why))
        rows += self._cap_rows()
        for kind in (ActionKind.SLEEP, ActionKind.WAKE, ActionKind.REPLICAS):
            rows += [line for line in self._others if line[0] == kind]
        return self._records(rows)

    def _cap_rows(self) -> list[ActionRow]:
        """Return the changed caps of jobs that stay where they are."""
        rows: list[ActionRow] = []
        for job in sorted({*self._caps, *self._stops}):
            stays = job in self._before and job in self._places and not self._moved(job)
            if stays and self.cap[job] != self._runs["cap"][job]:
                why = self._caps.get(job) or self._starts.get(job) or self._stops[job]
                rows.append((ActionKind.CAP, job, -1, 0, 0, int(self.cap[job]), why))
        return rows

    def _records(self, rows: list[ActionRow]) -> Records:
        out = records(len(rows) + len(self._kept), ACTION)
        plain = out.view(np.ndarray)
        names = ("kind", "job", "node", "mask", "milli", "level")
        for at, name in enumerate(names):
            plain[name][: len(rows)] = [row[at] for row in rows]
        plain["reason"][: len(rows)] = [row[-1].reason for row in rows]
        plain["gain"][: len(rows)] = [row[-1].gain for row in rows]
        for at, row in enumerate(self._kept, len(rows)):
            plain[at] = row
        return out

    def _moved(self, job: int) -> bool:
        """Return whether a job that was running is not where it was."""
        return job in self._joined or self._places.get(job) != self._before[job]

    def _note(self, kind: int, job: int, node: int, level: int, why: Rationale) -> None:
        self._others.append((int(kind), job, node, 0, 0, level, why))

    # Bookkeeping ---------------------------------------------------------------------

    def _put(self, job: int, place: Placement, milli: int, cap: int, why: Rationale) -> None:
        """Record a start at a place."""
        self._places[job] = place
        self._starts[job] = why
        self.pool[job] = self._node_pool[place[0][0]]
        self.count[job] = sum(mask.bit_count() for _, mask in place)
        self.cap[job] = cap
        if len(place) == 1 and self.count[job] == 1:
            self._on.setdefault(place[0], []).append(job)
        if milli == GUEST:
            self._is_guest.add(job)
        else:
            self._set_free(place, False)
        self._account(job, place, 1)

    def _leave(self, job: int, place: Placement) -> bool:
        """Take a job off its device; a guest may inherit it. Returns whether none was there."""
        others = self._on.get(place[0]) if self.count[job] == 1 else None
        if not others:
            return True
        others.remove(job)
        if not others:
            del self._on[place[0]]
            return True
        if job not in self._is_guest and self._jobs["milli"][job] == MILLI_PER_DEVICE:
            # A job that is there already holds it next; the twin does the same.
            self._is_guest.discard(min(others, key=lambda other: (other in self._joined, other)))
        return False

    def _give_back(self, job: int, place: Placement) -> None:
        """Free the devices of a job, unless it uses a fraction: others may be on them."""
        if self._jobs["milli"][job] == MILLI_PER_DEVICE:
            self._set_free(tuple((node, mask) for node, mask in place if self._up[node]), True)

    def _set_free(self, place: Placement, free: bool) -> None:
        for node, mask in place:
            kept = self._masks[node] & ~mask
            self._masks[node] = kept | mask if free else kept
            left = self._masks[node].bit_count()
            self._free_in[self._node_pool[node]] += left - int(self.free[node])
            self.free[node] = left

    def _account(self, job: int, place: Placement, sign: int) -> None:
        """Add the power and host capacity of a job (sign 1), or subtract them (-1)."""
        count = sum(mask.bit_count() for _, mask in place)
        self._power.add(job, int(self.pool[job]), count, int(self.cap[job]), sign)
        if self._hosts is not None:
            self._hosts.add(job, place, sign)

    # Places ---------------------------------------------------------------------------

    def _back(self, job: int, pool: int, count: int) -> Placement | None:
        """Return where the job was before the plan, if that is as requested and free."""
        place = self._before.get(job)
        if place is None or (self._runs["pool"][job], self._runs["devices"][job]) != (pool, count):
            return None
        if any(self._masks[node] & mask != mask for node, mask in place):
            return None
        return place if self._hosts is None or self._hosts.fits(job, place) else None

    def _find(self, job: int, pool: int, count: int) -> Placement | None:
        nodes = self._nodes_for(job, pool, count)
        if nodes is None:
            return None
        return tuple((node, _lowest(self._masks[node], take)) for node, take in nodes)

    def _nodes_for(self, job: int, pool: int, count: int) -> list[tuple[int, int]] | None:
        """Return the fewest nodes that hold a gang, and the devices of each; None = no room."""
        if self._free_in[pool] < count:
            return None
        first, nodes, capacity = self._extent[pool]
        free = self.free[first : first + nodes]
        full_nodes, rest = divmod(count, capacity)
        shares: list[tuple[int, int]] = []
        if full_nodes:
            full = np.flatnonzero((free == capacity) & self._hosting(job, pool, capacity))
            if len(full) < full_nodes:
                return None
            asleep = self._asleep[first + full]
            chosen = full[np.argsort(asleep, kind="stable")[:full_nodes]]
            shares = [(first + int(node), capacity) for node in np.sort(chosen)]
        if rest:
            able = (free >= rest) & self._hosting(job, pool, rest)
            able[[node - first for node, _ in shares]] = False
            keys = np.where(able, 2 * free + self._asleep[first : first + len(free)], FULL)
            best = int(keys.argmin())
            if keys[best] == FULL:
                return None
            shares.append((first + best, rest))
        return shares

    def _hosting(self, job: int, pool: int, devices: int) -> Any:
        """Return which nodes of a pool have a host with room for a part of a job."""
        if self._hosts is None or job < 0:
            return True
        return self._hosts.room(job, pool, devices)


def _places(state: State, running: list[int]) -> tuple[dict[int, Placement], set[int]]:
    """Return where the running jobs are, and which of them are guests."""
    plain = state.rows.view(np.ndarray)
    first = state.runs.view(np.ndarray)["first_row"][running]
    heads = plain[first]
    columns = (heads[name].tolist() for name in ("node", "mask", "milli", "next"))
    places: dict[int, Placement] = {}
    guests: set[int] = set()
    for job, node, mask, milli, after in zip(running, *columns, strict=True):
        if milli == GUEST and mask:
            guests.add(job)
        place = [(node, mask)]
        while after >= 0:
            row = plain[after]
            place.append((int(row["node"]), int(row["mask"])))
            after = int(row["next"])
        places[job] = tuple(place)
    return places, guests


def _lowest(mask: int, count: int) -> int:
    """Return a mask of the `count` lowest bits of a mask."""
    chosen = 0
    for _ in range(count):
        bit = mask & -mask
        chosen |= bit
        mask ^= bit
    return chosen
