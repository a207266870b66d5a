"""The state of a cluster: arrays of the records in `core/records.py`.

Arrays named in `SHARED` describe the problem and never change during a run, so clones share
them; a clone copies those in `CHANGED`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.records import ALIGNMENT, Records, aligned
from flyball.core.units import US_PER_S, duration_text


class State(NamedTuple):
    """Everything the kernel reads and writes.

    All arrays that a run changes are views of one block of memory, `arena`, so that a clone needs
    only one copy.
    """

    # Fixed for a run; clones share these.
    jobs: Records
    pools: Records
    rates: Records
    caps: Records
    ranges: Records  # of devices that elastic jobs may hold
    points: Records  # how fast they then are
    guesses: Records  # `points` as tuners estimate them
    pairs: npt.NDArray[np.float64]  # speed of one profile while another shares its device
    links: npt.NDArray[np.int32]  # successors of every job, end to end
    outages: Records
    steps: Records  # of price and carbon, end to end; none while both are constant
    usual: Records  # kinds of jobs the cluster usually runs (`twin/usual.py`)
    spreads: npt.NDArray[np.float64]  # predicted quantiles over medians, by job; or no rows
    # Changed by a run; clones copy these.
    runs: Records
    nodes: Records
    devices: Records
    rows: Records
    shapes: Records
    queue: Records  # a heap per shape
    window: Records  # the first pending jobs in order, for scans that go past a head
    events: Records  # a heap
    groups: Records
    shares: Records
    claims: Records
    bitmaps: npt.NDArray[np.uint64]  # of nodes by pool and whole free devices
    clock: Records  # one row
    tenants: Records
    memos: Records
    learned: npt.NDArray[np.float64]  # measured over guessed speed, by job and pool
    pair_guesses: npt.NDArray[np.float64]  # `pairs` as tuners estimate them
    # Scratch: meaningless between decisions; every clone gets new ones.
    avail: npt.NDArray[np.int64]  # when k devices of a node are expected free (`reserve.py`)
    node_scratch: Records
    device_scratch: Records
    shortlist: Records  # a heap: the nodes that are completely free earliest
    victims: Records  # running jobs that may be preempted in this round
    ranking: Records  # active jobs of a round
    assigned: npt.NDArray[np.int32]  # the pool each job has this round, -1 = none
    scores: npt.NDArray[np.int64]  # scores[shape, node] of place = fgd; none for other rules
    plan: Records
    arena: npt.NDArray[np.uint8]

    def __repr__(self) -> str:
        clock = self.clock[0]
        since = duration_text((int(clock.now_us) - int(clock.start_us)) / US_PER_S)
        jobs = f"{int(clock.pending):,} pending, {int(clock.running):,} running"
        ended = f"{int(clock.finished):,} of {len(self.jobs):,} jobs ended"
        return f"State(at {since}: {jobs}, {ended}; {len(self.nodes):,} nodes)"


_FIRST_CHANGED = State._fields.index("runs")
_FIRST_SCRATCH = State._fields.index("avail")
SHARED = State._fields[:_FIRST_CHANGED]
CHANGED = State._fields[_FIRST_CHANGED:_FIRST_SCRATCH]
SCRATCH_ARRAYS = State._fields[_FIRST_SCRATCH:-1]
STAMPED = ("node_scratch", "device_scratch")
"""Scratch arrays whose entries are valid only with the current stamp."""
STALE = -1
"""In the first row of `avail`: recompute this column; in `scores`: recompute this score."""
BLOCK_BITS = 4
"""A block of nodes in `avail` has 2**4 of them."""


def assemble(arrays: Mapping[str, Any], blank: Collection[str] = ()) -> State:
    """Return a state of these arrays, with those that change moved into one arena.

    Args:
        arrays: every field of `State` but the arena.
        blank: arrays that the caller fills, of which only the size matters.
    """
    places: list[int] = []
    end = 0
    for name in CHANGED:
        places.append(end)
        end += -(-arrays[name].nbytes // ALIGNMENT) * ALIGNMENT
    arena = aligned(end, zeroed=not blank)
    moved = {
        name: _window(arena, place, arrays[name])
        for name, place in zip(CHANGED, places, strict=True)
    }
    for name, place in zip(CHANGED, places, strict=True):
        if name in blank:
            continue
        source = arrays[name].view(np.ndarray)
        arena[place : place + source.nbytes] = source.view(np.uint8)
    return State(**{**arrays, **moved}, arena=arena)


def _window(arena: npt.NDArray[np.uint8], offset: int, like: Any) -> Any:
    """Return a view of the arena at an offset, with the shape and type of `like`."""
    return np.ndarray.__new__(type(like), like.shape, like.dtype, arena, offset)


def _blank(like: Any, zeroed: bool) -> Any:
    """Return an uninitialised array like this one; with `zeroed`, its stamps are 0."""
    blank = np.ndarray.__new__(type(like), like.shape, like.dtype)
    if zeroed:
        blank["stamp"].fill(0)
    return blank


def clone(state: State, into: State | None = None) -> State:
    """Return an independent copy; arrays that never change are shared.

    Args:
        state: the state to copy.
        into: an earlier clone of the same state, overwritten without allocating.
    """
    if into is not None:
        newest = max(into.clock["stamp"][0], state.clock["stamp"][0])
        np.copyto(into.arena, state.arena)
        into.clock["stamp"] = newest  # so that nothing in its scratch arrays is valid
        into.clock["actions"] = 0
        into.avail[0].fill(STALE)
        into.scores.fill(STALE)
        return into
    arena = aligned(state.arena.nbytes, zeroed=False)
    np.copyto(arena, state.arena)
    begin = state.arena.ctypes.data
    moved = {
        name: _window(arena, array.ctypes.data - begin, array)
        for name, array in zip(CHANGED, state[_FIRST_CHANGED:_FIRST_SCRATCH], strict=True)
    }
    moved["clock"]["actions"] = 0
    return state._replace(**moved, **blank_scratch(state), arena=arena)


def blank_scratch(state: State) -> dict[str, Any]:
    """Return new scratch arrays of the same sizes, in which nothing is valid."""
    fresh = {
        name: _blank(array, name in STAMPED)
        for name, array in zip(SCRATCH_ARRAYS, state[_FIRST_SCRATCH:-1], strict=True)
    }
    fresh["avail"][0].fill(STALE)
    fresh["scores"].fill(STALE)
    return fresh
