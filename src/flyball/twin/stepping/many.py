"""Steps many twins at once: other knobs, on to an instant, an observation and the gains.

    steps = step_many(twins, knobs, until_us)
    steps.observations  # a row per twin, a column per field of `OBSERVATION`
    steps.gains  # a row per twin, a column per field of `GAINS`

The twins are independent, so the result does not depend on the number of threads. Compiled code
runs without Python's global lock.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.knobs import KNOBS, Knobs
from flyball.core.records import records
from flyball.physics.compile import entry
from flyball.twin.stepping.desk import (
    address_of_run,
    knobs_of,
    open_desk,
    open_knobs,
    rows_of,
    run_at,
)
from flyball.twin.stepping.fetch import fetch_jobs, fetch_tables
from flyball.twin.stepping.fields import GAINS_SIZE, OBSERVATION_SIZE
from flyball.twin.stepping.knobs import change
from flyball.twin.stepping.observe import COUNTS, survey, take_gains
from flyball.twin.stepping.rows import KnobRows

if TYPE_CHECKING:
    from flyball.twin.twin import Twin

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Settings = Sequence[Knobs | None] | KnobRows | None

STEPPED, NEEDS_REBUILD = 0, 1
"""What became of a twin in a block."""
BLOCKS_PER_THREAD = 4
"""Blocks of twins for each thread; more than one, as some twins take longer than others."""


class Steps(NamedTuple):
    """Holds the outcome of a step, a row per twin.

    Attributes:
        observations: at the end of the step; columns are `OBSERVATION`.
        gains: what the step added; columns are `GAINS`.
        finished: whether every job of the twin is final.
    """

    observations: Floats
    gains: Floats
    finished: npt.NDArray[np.bool_]


@entry
def step_block(
    run: int, rows: Any, block: Any, knobs: Any, changes: Any, until_us: Any, seen: Any,
    added: Any, counts: Any, done: Any,
) -> None:  # fmt: skip
    """Step the twins of a block.

    Args:
        run: the address of the event loop.
        rows: of the twins' desks.
        block: first and last row, the last excluded.
        knobs: a packed setting per twin.
        changes: whether to change over to it.
        until_us: the instant to go to.
        seen, added: become observations and gains; `added` has room for totals behind the gains.
        counts: room for the whole numbers of an observation, per twin.
        done: becomes what became of the twin, and whether it is finished.
    """
    for at in range(block[0], min(block[0] + 1, block[1])):
        fetch_tables(open_desk(rows, at)[0])
    for at in range(block[0], block[1]):
        if at + 2 < block[1]:
            fetch_tables(open_desk(rows, at + 2)[0])
        if at + 1 < block[1]:
            fetch_jobs(open_desk(rows, at + 1)[0])
        state, packed, ledger = open_desk(rows, at)
        clock = state.clock[0]
        if changes[at]:
            requested = open_knobs(knobs, at)[0]
            if not change(state, packed[0], requested[0]):
                done[at, 0] = NEEDS_REBUILD
                continue
            packed[0] = requested[0]
        run_at(run, state, packed, until_us[at])
        sums = added[at, GAINS_SIZE:]
        survey(state, ledger, until_us[at], seen[at], sums, counts[at])
        take_gains(ledger, sums, added[at])
        done[at, 0], done[at, 1] = STEPPED, clock.finished == len(state.jobs)


@entry
def first_past(rows: Any, until_us: Any) -> int:
    """Return the first twin whose last event or step is after its instant, -1 = none."""
    for at in range(len(until_us)):
        state, _packed, ledger = open_desk(rows, at)
        if until_us[at] < state.clock[0].now_us or until_us[at] < ledger[0]:
            return at
    return -1


def step_many(
    twins: Sequence[Twin],
    knobs: Settings = None,
    until_us: npt.ArrayLike | None = None,
    for_us: npt.ArrayLike | None = None,
    threads: int = 2,
) -> Steps:
    """Step every twin: change its knobs, handle all that happens up to an instant, observe it.

    A step equals `twin.set_knobs(...)`, `twin.run(until_us)` and `twin.observe(until_us)`.

    Args:
        twins: all different.
        knobs: a setting per twin; None, for one or for all = keep the present one. Setting equal
            knobs is not the same as keeping them: it drops the reservation of the head.
        until_us: the instant to go to, one for all or one per twin.
        for_us: instead of it, how much further than the last step, likewise.
        threads: at most this many work at the same time.

    Raises:
        BadInput: an instant in the past or beyond the window of a fork, a twin given twice, or
            knobs that cannot be set during a run.
    """
    until = _instants(twins, until_us, for_us)
    if len(set(map(id, twins))) < len(twins):
        raise BadInput("a twin was given twice", "clone() or fork() it")
    rows = rows_of([twin.desk for twin in twins])
    early = first_past(rows, until) if len(twins) else -1
    if early >= 0:
        raise BadInput(
            f"twin {early} is past {until[early]} us: its last step was to "
            f"{int(twins[early].ledger[0])} us, its last event at {twins[early].now_us} us",
            "step to a later instant",
        )
    for at, twin in enumerate(twins):
        if twin.part is not None:
            twin.refuse_beyond(int(until[at]))
    packed, changes = _settings(twins, knobs)
    # 1. Twins that call Python on their way run on their own; what is left to do is to look.
    alone = [at for at, twin in enumerate(twins) if twin.decides_in_python]
    for at in alone:
        if changes[at]:
            twins[at].set_knobs(_setting(knobs, at))
            changes[at] = False
        twins[at].run(int(until[at]))
    if alone:
        rows = rows_of([twin.desk for twin in twins])  # new knobs may bring new arrays
    # 2. All others, and every observation.
    batch = _Batch(rows, packed, changes, until)
    batch.run_blocks(threads)
    # 3. Those whose new knobs need other arrays.
    again = np.flatnonzero(batch.done[:, 0] == NEEDS_REBUILD).tolist()
    for at in again:
        twins[at].set_knobs(_setting(knobs, at))
        changes[at] = False
    for at in np.flatnonzero(changes).tolist():
        if isinstance(knobs, KnobRows):
            twins[at].note_knobs(partial(knobs.__getitem__, at))
        else:
            twins[at].note_knobs(_setting(knobs, at))
    if again:
        batch.run_again(again, rows_of([twins[at].desk for at in again]), threads)
    return Steps(batch.seen, batch.added[:, :GAINS_SIZE].copy(), batch.done[:, 1] > 0)


def _instants(
    twins: Sequence[Twin], until_us: npt.ArrayLike | None, for_us: npt.ArrayLike | None
) -> Ints:
    """Return the instant that each twin is to go to."""
    if (until_us is None) == (for_us is None):
        raise BadInput("a step needs either until_us or for_us", "give one of them")
    if until_us is not None:
        return np.broadcast_to(np.asarray(until_us, np.int64), len(twins)).copy()
    last = np.array([twin.ledger[0] for twin in twins], np.int64)
    return last + np.asarray(for_us, np.int64)


def _settings(twins: Sequence[Twin], knobs: Settings) -> tuple[Any, Any]:
    """Return a packed setting per twin, and which of them are to be changed over to."""
    if knobs is None:
        return records(len(twins), KNOBS), np.zeros(len(twins), np.bool_)
    if len(knobs) != len(twins):
        raise BadInput(f"{len(knobs)} settings for {len(twins)} twins", "give one for each")
    if isinstance(knobs, KnobRows):
        return knobs.packed, knobs.changes.copy()
    packed, changes = records(len(twins), KNOBS), np.zeros(len(twins), np.bool_)
    for at, setting in enumerate(knobs):
        if setting is not None:
            setting.pack_into(packed, at)
            changes[at] = True
    return packed, changes


def _setting(knobs: Settings, at: int) -> Knobs:
    setting = None if knobs is None else knobs[at]
    assert setting is not None
    return setting


class _Batch:
    """Holds the arguments of `step_block` for some twins."""

    def __init__(self, rows: Any, packed: Any, changes: Any, until_us: Ints) -> None:
        count = len(until_us)
        self._rows, self._packed, self._changes, self._until = rows, packed, changes, until_us
        self.seen = np.zeros((count, OBSERVATION_SIZE))
        self.added = np.zeros((count, 2 * GAINS_SIZE))
        self.done = np.zeros((count, 2), np.int64)

    def run_again(self, which: list[int], rows: Any, threads: int) -> None:
        """Step some of the twins once more; `rows` of their desks."""
        part = _Batch(rows, self._packed[which], self._changes[which], self._until[which])
        part.run_blocks(threads)
        self.seen[which], self.added[which], self.done[which] = part.seen, part.added, part.done

    def run_blocks(self, threads: int) -> None:
        """Step all twins, block by block; those that need a rebuild are left as they were."""
        count = len(self._until)
        threads = max(1, min(threads, count))
        size = max(1, count if threads == 1 else -(-count // (threads * BLOCKS_PER_THREAD)))
        firsts = itertools.count(0, size)
        run, knobs = address_of_run(), knobs_of(self._packed)
        counts = np.empty((count, COUNTS), np.int64)

        def work() -> None:
            for first in firsts:
                if first >= count:
                    return
                block = np.array([first, min(first + size, count)])
                step_block(
                    run, self._rows, block, knobs, self._changes, self._until, self.seen,
                    self.added, counts, self.done,
                )  # fmt: skip

        helpers = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
        work()
        for helper in helpers:
            helper.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, threads), thread_name_prefix="step")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
