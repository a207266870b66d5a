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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.knobs import KNOBS, Knobs
from flyball.core.records import records
from flyball.physics.compile import entry
from flyball.twin import kernel
from flyball.twin.stepping.desk import open_desk, rows_of
from flyball.twin.stepping.fields import GAINS_SIZE, OBSERVATION_SIZE
from flyball.twin.stepping.knobs import change
from flyball.twin.stepping.observe import survey, take_gains
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


LARGE_NODES = 256
"""From this many nodes on, a twin's events are handled by `Twin.run`: on 1,000 nodes they take a
sixth longer within a block, which is more than the calls cost."""


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
    rows: Any, block: Any, knobs: Any, changes: Any, until_us: Any, seen: Any, added: Any, done: Any
) -> None:
    """Step the twins of a block.

    Args:
        rows: of the twins' desks.
        block: first and last row, the last excluded.
        knobs: a packed setting per twin.
        changes: whether to change over to it.
        until_us: the instant to go to.
        seen, added: become observations and gains; `added` has room for totals behind the gains.
        done: becomes what became of the twin, and whether it is finished.
    """
    for at in range(block[0], block[1]):
        state, packed, ledger = open_desk(rows, at)
        clock = state.clock[0]
        if changes[at]:
            if not change(state, packed[0], knobs[at]):
                done[at, 0] = NEEDS_REBUILD
                continue
            packed[0] = knobs[at]
        kernel.run(state, packed, until_us[at], False)
        sums = added[at, GAINS_SIZE:]
        survey(state, ledger, until_us[at], seen[at], sums)
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
    if len({id(twin) for twin in twins}) < len(twins):
        raise BadInput("a twin was given twice", "clone() or fork() it")
    desks = rows_of([twin.desk for twin in twins])
    early = first_past(desks, until) if len(twins) else -1
    if early >= 0:
        raise BadInput(
            f"twin {early} is past {until[early]} us: its last step was to "
            f"{int(twins[early].ledger[0])} us, its last event at {twins[early].now_us} us",
            "step to a later instant",
        )
    for twin, end_us in zip(twins, until.tolist(), strict=True):
        if twin.part is not None:
            twin.refuse_beyond(end_us)
    packed, changes = _settings(twins, knobs)

    def run_alone(at: int) -> None:
        if changes[at]:
            twins[at].set_knobs(_setting(knobs, at))
            changes[at] = False
        twins[at].run(int(until[at]))

    python = [at for at, twin in enumerate(twins) if twin.decides_in_python]
    large = [at for at, twin in enumerate(twins) if len(twin.state.nodes) >= LARGE_NODES]
    _each(run_alone, python, 1)
    _each(run_alone, [at for at in large if at not in python], threads)
    if python or large:
        desks = None  # new knobs may bring new arrays
    batch = _Batch(twins, packed, changes, until)
    batch.step(range(len(twins)), threads, desks)
    again = np.flatnonzero(batch.done[:, 0] == NEEDS_REBUILD).tolist()
    for at in np.flatnonzero(changes).tolist():
        if batch.done[at, 0] == NEEDS_REBUILD:
            twins[at].set_knobs(_setting(knobs, at))
            changes[at] = False
        elif isinstance(knobs, KnobRows):
            twins[at].note_knobs(partial(knobs.__getitem__, at))
        else:
            twins[at].note_knobs(_setting(knobs, at))
    batch.step(again, threads)
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
        return knobs.packed, np.ones(len(twins), np.bool_)
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


def _each(call: Callable[[int], None], items: Sequence[int], threads: int) -> None:
    """Call for each of the items, in this thread and some others."""
    if min(threads, len(items)) <= 1:
        for item in items:
            call(item)
        return
    for done in [_pool(threads).submit(call, item) for item in items]:
        done.result()


class _Batch:
    """Holds the arguments of `step_block` for all twins."""

    def __init__(self, twins: Sequence[Twin], packed: Any, changes: Any, until_us: Ints) -> None:
        count = len(twins)
        self._twins, self._packed, self._changes, self._until = twins, packed, changes, until_us
        self.seen = np.zeros((count, OBSERVATION_SIZE))
        self.added = np.zeros((count, 2 * GAINS_SIZE))
        self.done = np.zeros((count, 2), np.int64)

    def step(self, chosen: Sequence[int], threads: int, rows: Any = None) -> None:
        """Step some of the twins; `rows` of their desks if at hand.

        Those that need a rebuild are left as they were.
        """
        if not len(chosen):
            return
        if len(chosen) == len(self._twins):
            self._run_blocks(self._arguments(slice(None), rows), len(chosen), threads)
            return
        which = list(chosen)  # fancy indexing copies, so results are written back
        arguments = self._arguments(which, rows)
        self._run_blocks(arguments, len(which), threads)
        self.seen[which], self.added[which], self.done[which] = arguments[4:]

    def _arguments(self, which: Any, rows: Any) -> tuple[Any, ...]:
        if rows is None:
            twins = self._twins if isinstance(which, slice) else [self._twins[at] for at in which]
            rows = rows_of([twin.desk for twin in twins])
        settings = (self._packed[which], self._changes[which], self._until[which])
        return rows, *settings, self.seen[which], self.added[which], self.done[which]

    @staticmethod
    def _run_blocks(arguments: tuple[Any, ...], count: int, threads: int) -> None:
        threads = max(1, min(threads, count))
        size = count if threads == 1 else -(-count // (threads * BLOCKS_PER_THREAD))
        firsts = itertools.count(0, size)

        def work(firsts: Iterator[int]) -> None:
            for first in firsts:
                if first >= count:
                    return
                block = np.array([first, min(first + size, count)])
                step_block(arguments[0], block, *arguments[1:])

        helpers = [_pool(threads - 1).submit(work, firsts) for _ in range(threads - 1)]
        work(firsts)
        for helper in helpers:
            helper.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, threads), thread_name_prefix="step")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
