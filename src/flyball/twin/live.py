"""A live cluster as a state of the twin, so that the same kernel decides for both.

    snap = Snapshot(cluster, view, knobs, now_us)
    plan = snap.decide(is_round)

The state is rebuilt for every decision from what is active, and from nothing else: the same
view and instant give the same plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order
from flyball.core.records import ACTION, Records, records
from flyball.core.workload import COLUMNS, Workload
from flyball.physics.compile import cache_folder
from flyball.schedule.kernel import decide_snapshot
from flyball.twin import live_kernel
from flyball.twin.build import build_state

PAST = np.dtype(
    [
        ("done_us", "f8"),  # work done in earlier attempts
        ("service_us", "f8"),  # device time received in them
        ("since_us", "i8"),  # start of the running attempt
        ("queued_us", "i8"),  # when it became pending
        ("attempt", "i4"),  # starts so far, the running one included
    ],
    align=True,
)
"""Record of a live job's past."""


@dataclass(frozen=True)
class View:
    """Holds what is active in a live cluster.

    Attributes:
        workload: the active jobs in order of submission; their durations are not known.
        past: a record of `PAST` for each.
        row_job, row_node, row_mask: the devices that running jobs hold, job by job in the order of
            their starts.
        down: nodes that are down.
        cap: the level of each job's power cap, 0 = none; empty = no job has one.
        price_per_kwh, carbon_g_per_kwh: at this instant; None = not given.
        limit_w: most that the cluster may draw, by its budgets; 0 = no limit.
        taken: rows (node, devices, cores, MiB of memory) of what jobs have which are not in it.
    """

    workload: Workload
    past: Records
    row_job: npt.NDArray[np.int64]
    row_node: npt.NDArray[np.int64]
    row_mask: npt.NDArray[np.uint64]
    down: npt.NDArray[np.int64]
    cap: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    price_per_kwh: float | None = None
    carbon_g_per_kwh: float | None = None
    limit_w: float = 0.0
    taken: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))

    def at_prices(self, values: Mapping[str, float]) -> View:
        """Return the view with the present price, carbon intensity and limit, as far as given."""
        price, carbon = (values.get(name) for name in ("price_per_kwh", "carbon_g_per_kwh"))
        limit_w = float(values.get("limit_w", 0.0))
        return replace(self, price_per_kwh=price, carbon_g_per_kwh=carbon, limit_w=limit_w)

    def digest(self, cluster: Cluster, knobs: Knobs, now_us: int) -> str:
        """Return a digest of everything that a decision depends on."""
        total = hashlib.blake2b(digest_size=16)
        total.update(f"({_fixed_text(cluster, knobs)}, {now_us!r})".encode())
        for name in COLUMNS:
            column = getattr(self.workload, name)
            if name in ("start_us", "end_us"):  # recorded times do not affect decisions
                continue
            # Left out when empty, so that digests of workloads without these stay the same.
            if name not in ("least", "most", "pools") or column.any():
                total.update(np.ascontiguousarray(column).tobytes())
        name_lists = (
            getattr(self.workload, listed.name)
            for listed in fields(self.workload)
            if listed.type == "tuple[str, ...]"
        )
        total.update(repr(list(name_lists)).encode())
        total.update(repr(self.workload.group_limits).encode())
        for array in (self.workload.after_job, self.workload.after_on):
            total.update(np.ascontiguousarray(array).tobytes())
        for name in PAST.names or ():
            total.update(np.ascontiguousarray(self.past[name]).tobytes())
        arrays = (self.row_job, self.row_node, self.row_mask, self.down)
        total.update(b"".join(array.tobytes() for array in arrays))
        if self.cap.any():
            total.update(self.cap.tobytes())
        if knobs.reads_spread and self.workload.quantiles_us is not None:
            total.update(np.ascontiguousarray(self.workload.quantiles_us).tobytes())
        signals = (self.price_per_kwh, self.carbon_g_per_kwh)
        if signals != (None, None):
            total.update(repr(signals).encode())
        if self.limit_w:
            total.update(repr(self.limit_w).encode())
        if len(self.taken):
            total.update(b"taken" + self.taken.tobytes())
        return total.hexdigest()


LATER_KNOBS = (
    *("order_quantile", "backfill_quantile", "evict", "move_s", "move_starts", "move_cost"),
    *("index_size", "index_slope", "index_floor", "index_running", "preempt_starts"),
    *("types", "shuffle_seed", "starts", "leftover", "turns", "optimum"),
)
"""Knobs that are in a digest only if set: digests of decisions before them stay the same."""


@lru_cache(maxsize=8)
def _fixed_text(cluster: Cluster, knobs: Knobs) -> str:
    """Return the digest's text of what stays the same from one decision to the next."""
    defaults = Knobs().as_dict()
    values = {
        name: value
        for name, value in knobs.as_dict().items()
        if name not in LATER_KNOBS or value != defaults[name]
    }
    return f"{cluster.digest_text()}, {sorted(values.items())!r}"


class Snapshot:
    """Holds the state of a live cluster at an instant.

    Attributes:
        state: its arrays; `decide` carries the plan out in them.
    """

    def __init__(self, cluster: Cluster, view: View, knobs: Knobs, now_us: int) -> None:
        """
        Raises:
            BadInput: a job that no node could ever hold, or a policy that needs target shares.
        """
        if knobs.order == Order.SHARES:
            raise BadInput("target shares are for replays only", "use another policy")
        self.knobs = knobs
        self._packed = knobs.pack()
        self.state = build_state(cluster, view.workload, knobs, Effects())
        self._put_rows(view)
        clock = self.state.clock[0]
        present = ((clock.price, view.price_per_kwh), (clock.carbon, view.carbon_g_per_kwh))
        for signal, value in present:
            if value is not None:
                signal.value, signal.given = value, True
        if view.limit_w > 0.0:
            clock.budget_w = clock.power_budget_w = view.limit_w
        live_kernel.adopt(self.state, self._packed, view.past, view.down, view.taken, now_us)

    def _put_rows(self, view: View) -> None:
        count = len(view.row_job)
        rows = self.state.plan[:count]
        rows["kind"] = int(ActionKind.START)
        rows["job"], rows["node"], rows["mask"] = view.row_job, view.row_node, view.row_mask
        rows["milli"] = view.workload.milli[view.row_job]
        if len(view.cap):
            rows["level"] = view.cap[view.row_job]
        self.state.clock["actions"] = count

    def decide(self, is_round: bool) -> Records:
        """Decide, carry the plan out in the state, and return it."""
        decide_snapshot(self.state, self._packed, is_round)
        plan = records(int(self.state.clock[0].actions), ACTION)
        plan[:] = self.state.plan[: len(plan)]
        return plan


def fits(cluster: Cluster, workload: Workload, knobs: Knobs) -> None:
    """Raise BadInput if one of these jobs could never run on the cluster."""
    build_state(cluster, workload, knobs, Effects())


def warm(note: Callable[[str], None] | None = None) -> None:
    """Compile the kernels of live decisions, or load them from the cache."""
    folder = cache_folder()
    if note is not None and not any(folder.rglob("*decide_snapshot*.nbi")):
        note("compiling the decision kernel (first run only, about half a minute)")
    cluster = Cluster("tiny", (NodeGroup("a", 1, "V100", 1),))
    workload = Workload.of("tiny", [0.0, 1.0], [1.0, 1.0])
    none = np.zeros(0, np.int64)
    past = records(2, PAST)
    view = View(workload, past, none, none, none.astype(np.uint64), none)
    Snapshot(cluster, view, Knobs(), 2_000_000).decide(False)
