"""The nodes of a control plane: they come, go, drain and fail, and everything follows.

The roster (`control.roster`) is on record in `opened`; a change of it is another `opened`, after
which columns, decisions and admission are those of a control plane that began with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flyball.control import roster
from flyball.control.jobs.request import cluster_of
from flyball.control.jobs.slow_nodes import SlowNodes
from flyball.core.errors import FlyballError, Unavailable
from flyball.core.events import Event, NodeChanged, Opened
from flyball.core.jobs import Job, Row
from flyball.core.live import Report

if TYPE_CHECKING:
    from flyball.control.plane import Plane

SHOWN_UNFIT = 10
"""Number of jobs that no node could hold and that the log names."""

logger = logging.getLogger("flyball.control")


class ClusterNodes:
    """Follows the nodes of one control plane.

    Attributes:
        roster: every node in its place; it changes in place.
        slow: notices nodes whose jobs run far slower than their kind.
    """

    def __init__(self, plane: Plane, active: Sequence[Job]) -> None:
        """
        Args:
            active: the active jobs.

        Raises:
            Unavailable: no node is known.
        """
        self._plane = plane
        self._present = tuple(plane.engine.nodes())
        before, self._before = roster.on_record(plane.journal)
        self.roster = list(roster.merged(before, self._present, active, starting=True))
        if not self.roster:
            raise Unavailable("no node is known yet", "try again when the engine's nodes answer")
        self._all_taken = roster.holds(self.roster, self._present)
        self.slow = SlowNodes(self.roster)

    def open(self, opened: Callable[[], Opened]) -> None:
        """Record the roster with which a control plane begins, and how its nodes are."""
        journal, now_us = self._plane.journal, self._plane.now_us()
        drained = roster.carried_over(*self._before, self.roster, now_us)
        journal.append([opened(), *drained]).wait()
        self._note_unfit()
        if changes := self.changes(now_us):
            journal.append(changes).wait()

    def follow(self, opened: Callable[[], Opened]) -> None:
        """Take nodes that have come, or that are described otherwise than before."""
        plane, present = self._plane, tuple(self._plane.engine.nodes())
        if present == self._present and self._all_taken:
            return
        self._present = present
        live_state = plane.live_state
        with live_state.lock:
            changed = roster.merged(self.roster, present, list(live_state.busy.values()))
            self._all_taken = roster.holds(changed, present)
            if changed == tuple(self.roster):
                return
            notes = live_state.node_notes.values()
            drained = roster.carried_over(self.roster, notes, changed, plane.now_us())
        before, self.roster[:] = list(self.roster), changed
        try:
            plane.journal.append([opened(), *drained]).wait()
        except FlyballError:
            self.roster[:], self._present = before, ()
            raise
        with live_state.lock:
            plane.cluster = cluster_of(self.roster, "live")
            plane.demand.adopt(self.roster)
            plane.fit.adopt(plane.cluster)
            plane.columns.rebuild(live_state.jobs)
            plane.decider.adopt(plane.cluster)
            plane.deferrals.adopt(plane.cluster.device_count)
            self._note_unfit()

    def _note_unfit(self) -> None:
        """Note the jobs that no node could hold: they wait for one that can."""
        plane = self._plane
        plane.columns.unfit = plane.fit.unfit(plane.live_state.jobs.values())
        for job, why in list(plane.columns.unfit.items())[:SHOWN_UNFIT]:
            logger.warning("job %d waits: %s", job, why)

    def changes(self, now_us: int) -> list[Event]:
        """Return the changes of nodes that the live state does not hold yet."""
        live_state, present = self._plane.live_state, self._plane.engine.nodes()
        notes = live_state.node_notes
        events = roster.node_events(self.roster, present, notes, now_us)
        others = roster.others_events(self.roster, present, live_state.others, now_us)
        return [*events, *others, *self.slow.due(notes.keys(), now_us)]

    def understood(
        self, reports: Sequence[Report], jobs: dict[int, Job], now_us: int
    ) -> Sequence[Event]:
        """Turn reports into events, with places of the roster for the names of nodes."""
        return self._plane.progress.understood(roster.placed(reports, self.roster), jobs, now_us)

    def names(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """Return the names of the rows' nodes."""
        return tuple(self.roster[row.node].name for row in rows)

    def order(self, node: str, up: bool, reason: str, who: str) -> None:
        """Record that a node is drained or resumed.

        Raises:
            NotFound: no such node.
        """
        at, now_us = roster.place_of(self.roster, node), self._plane.now_us()
        state = None if up else roster.DRAINED
        event = NodeChanged(now_us, at, up, node, state, reason or None, who)
        self._plane.journal.append([event]).wait()
        self._plane.wake()
