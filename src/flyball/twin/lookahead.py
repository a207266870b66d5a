"""When will each pending job start? Roll-outs of the twin from a live snapshot.

Each roll-out gives every job one possible run time, lets jobs come that are not there yet, and
lets the twin go on from now, by the same decisions as live. Whoever is overtaken by later
submissions (shortest first, fair shares, a hole that only small jobs fit) is thus foreseen to be.

Nothing here predicts: run times arrive as numbers (`draws`, made by `run_times` of quantiles),
and what may come is drawn from what came (`draw_arrivals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.knobs import Knobs
from flyball.core.state import State, clone
from flyball.core.units import FOREVER_US, S_PER_DAY, S_PER_HOUR, to_us
from flyball.core.workload import COLUMNS, NOT_STATED, Workload
from flyball.schedule.kernel import decide_snapshot
from flyball.twin import kernel, live_kernel
from flyball.twin.live import Snapshot, View

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NEVER_US = FOREVER_US // 4
"""When those come that a roll-out has no use for."""
PIECE_US = to_us(S_PER_HOUR)
"""Roll-outs go on in pieces, each twice as long as the one before, until the asked have started."""
BLOCK_US = to_us(4 * S_PER_HOUR)
"""What may come is drawn a block at a time: bursts, and what comes with what, stay whole."""
DAY_US = to_us(S_PER_DAY)
SAME_TIME_DAYS = 3
"""Days of history from which blocks are taken from the same time of the day."""
FADE = 0.6
"""A day further back, a block is so much less likely to be taken: busy days follow busy days."""
MOST_COMING = 4_000
"""Jobs that may come in one roll-out."""
FARTHEST_US = 14 * DAY_US
AHEAD, LEAST_AHEAD_US = 6, to_us(12 * S_PER_HOUR)
"""Jobs may come for so many times as long as it would take without them: who is overtaken waits
longer, and is overtaken again meanwhile."""
EVEN = 4
"""Draws from which they are spread evenly."""
ALIKE = 0.7
"""Correlation of the errors of predicted run times of two jobs of one owner."""


@dataclass(frozen=True)
class Coming:
    """Jobs that are not there yet, as one roll-out has them.

    Attributes:
        picks: which jobs of those that came before come again.
        submit_us: when, not decreasing.
        work_us: how long they run.
    """

    picks: Ints
    submit_us: Ints
    work_us: Floats


def start_times(
    cluster: Cluster,
    view: View,
    knobs: Knobs,
    now_us: int,
    draws: Floats,
    recent: Workload | None = None,
    coming: Sequence[Coming] = (),
    asked: Ints | None = None,
) -> Floats:
    """Seconds from now until each job starts, a row per roll-out; NaN = it never did.

    Args:
        draws: run times in microseconds, a row per roll-out, a column per job of the view; of a
            running job the whole of its present attempt.
        recent: jobs that came before, in the units of the view's workload.
        coming: for each roll-out, which of them come again; none = nobody comes.
        asked: the jobs whose start matters; the others may be left without one. None = all.
    """
    known = draws.shape[1]
    places = _places(coming, 0 if recent is None else len(recent))
    if recent is not None and len(places.copies):
        view = replace(view, workload=joined(view.workload, recent.take(places.copies), now_us))
    snapshot = Snapshot(cluster, view, knobs, now_us)
    snapshot.state.clock["next_job"] = known
    packed = knobs.pack()
    starts = np.zeros(draws.shape)
    running = np.asarray(snapshot.state.runs.status[:known] == Status.RUNNING)
    matter = np.arange(known) if asked is None else asked
    for at, work_us in enumerate(draws):
        state = _rolled(snapshot.state, work_us, running, coming[at] if coming else None, places)
        decide_snapshot(state, packed, False)
        live_kernel.foresee(state)
        _run(state, packed, now_us, matter)
        first = np.asarray(state.runs.first_start_us[:known])
        starts[at] = np.where(first >= 0, np.maximum(0, first - now_us) / 1e6, np.nan)
    starts[:, running] = 0.0
    return starts


def _rolled(
    start: State, work_us: Floats, running: Any, coming: Coming | None, places: _Places
) -> State:
    """A copy of the state in which every job has its run time of this roll-out."""
    state = clone(start)
    known = len(work_us)
    jobs: Any = state.jobs.copy()
    done_us = np.asarray(state.runs.done_us[:known])
    jobs.work_us[:known] = np.maximum(1.0, work_us + np.where(running, 0.0, done_us))
    state.runs.done_us[:known][running] = 0.0
    state.runs.attempt[:known][~running] = 0
    if coming is not None and len(jobs) > known:
        order = places.order(coming.picks)
        jobs[known:] = jobs[known:][order]
        if len(state.memos) >= len(jobs):
            state.memos[known : len(jobs)] = state.memos[known : len(jobs)][order]
        count = len(coming.picks)
        jobs.submit_us[known:] = NEVER_US
        jobs.submit_us[known : known + count] = coming.submit_us
        jobs.work_us[known : known + count] = np.maximum(1.0, coming.work_us)
        last_first = np.arange(len(jobs))[::-1]
        state.shapes["sample"][jobs.shape_id[last_first]] = last_first
    return state._replace(jobs=jobs)


def _run(state: State, packed: Any, now_us: int, matter: Ints) -> None:
    """Go on until those that matter have started, or nothing happens any more."""
    piece = PIECE_US
    while now_us + piece < NEVER_US:
        kernel.run(state, packed, now_us + piece, False)
        if (state.runs.first_start_us[matter] >= 0).all():
            return
        if kernel.next_us(state, packed) >= NEVER_US:
            return
        piece *= 2


# What may come --------------------------------------------------------------------------


class _Places:
    """Where the jobs that may come stand in the workload: as often as any roll-out needs them."""

    def __init__(self, copies: Ints, first: Ints) -> None:
        self.copies, self._first = copies, first

    def order(self, picks: Ints) -> Ints:
        """The places of these picks, then all others."""
        order = np.argsort(picks, kind="stable")
        in_order = picks[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=-1))
        sizes = np.diff(np.append(begins, len(in_order)))
        turn = np.empty(len(picks), np.int64)
        turn[order] = np.arange(len(picks)) - np.repeat(begins, sizes)
        taken = self._first[picks] + turn
        rest = np.ones(len(self.copies), bool)
        rest[taken] = False
        return np.concatenate([taken, np.flatnonzero(rest)])


def _places(coming: Sequence[Coming], kinds: int) -> _Places:
    most = np.zeros(kinds, np.int64)
    for each in coming:
        most = np.maximum(most, np.bincount(each.picks, minlength=kinds))
    return _Places(np.repeat(np.arange(kinds), most), np.cumsum(most) - most)


def joined(known: Workload, more: Workload, now_us: int) -> Workload:
    """One workload of what is there and what may come; the latter belongs to no array."""
    size = len(more)
    columns = {name: [getattr(known, name), getattr(more, name)] for name in COLUMNS}
    columns["ids"][1] = np.broadcast_to(np.array("", np.str_), size)
    columns["group"][1] = np.full(size, NOT_STATED, np.int64)
    last_us = int(known.submit_us[-1]) if len(known) else now_us
    columns["submit_us"][1] = np.full(size, max(now_us, last_us), np.int64)
    names: dict[str, Any] = {}
    for column, listed in (
        *(("tenant", "tenants"), ("user", "users"), ("model", "models")),
        ("device", "device_names"),
    ):
        first, second = getattr(known, listed), getattr(more, listed)
        names[listed] = (*first, *(each for each in second if each not in first))
        recode = np.array([names[listed].index(each) for each in second] + [NOT_STATED])
        columns[column][1] = recode[columns[column][1]]
    made: dict[str, Any] = {name: np.concatenate(pair) for name, pair in columns.items()}
    return replace(known, **made, **names)


def horizon_us(alone_s: Floats) -> int:
    """How far ahead jobs may come, if the asked would start so soon if nobody came."""
    longest_s = float(np.nanmax(alone_s, initial=0.0))
    return min(FARTHEST_US, AHEAD * to_us(longest_s) + LEAST_AHEAD_US)


def draw_arrivals(
    submit_us: Ints, now_us: int, horizon_us: int, rng: np.random.Generator, since_us: int = -1
) -> tuple[Ints, Ints]:
    """Which of the jobs that came at these times come again, and when: one draw.

    The time ahead is filled with blocks of the past, from the same time of another day once there
    are some days, else from any time; so the rate follows the hour of the day, and bursts stay
    bursts.

    Args:
        submit_us: when they came, not decreasing, none after now.
        horizon_us: how far ahead.
        since_us: from when on all that came is known; -1 = the first of them.

    Returns:
        Indices of jobs and the times at which they come again, in order of time.
    """
    if not len(submit_us):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begin_us = int(submit_us[0]) if since_us < 0 else since_us
    span_us = now_us - begin_us
    if span_us <= 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    block_us = min(BLOCK_US, span_us)
    picks, times = [], []
    count = 0
    at_us = now_us
    while at_us < now_us + min(horizon_us, FARTHEST_US) and count < MOST_COMING:
        from_us = _donor(at_us, begin_us, now_us, block_us, rng)
        low, high = np.searchsorted(submit_us, [from_us, from_us + block_us], side="right")
        picks.append(np.arange(low, high))
        times.append(submit_us[low:high] - from_us + at_us)
        count += int(high - low)
        at_us += block_us
    return np.concatenate(picks)[:MOST_COMING], np.concatenate(times)[:MOST_COMING]


def _donor(at_us: int, begin_us: int, now_us: int, block_us: int, rng: np.random.Generator) -> int:
    """Where in the past the block that begins at `at_us` is taken from: sooner the later it was."""
    latest = now_us - block_us
    days = np.arange(-(-(at_us - latest) // DAY_US), (at_us - begin_us) // DAY_US + 1)
    if len(days) >= SAME_TIME_DAYS:
        weights = FADE ** (days - days[0])
        return at_us - int(rng.choice(days, p=weights / weights.sum())) * DAY_US
    back = (latest - begin_us) / DAY_US
    part = 1.0 - rng.random() * (1.0 - FADE**back)
    return latest - min(latest - begin_us, int(np.log(part) / np.log(FADE) * DAY_US))


# Run times ------------------------------------------------------------------------------


def even_scores(draws: int, columns: int, rng: np.random.Generator) -> Floats:
    """Standard normal numbers, a row per draw, each column spread evenly: a few draws suffice."""
    if draws < EVEN:
        return rng.standard_normal((draws, columns))
    even = ndtri((np.arange(draws) + 0.5) / draws)
    return rng.permuted(np.repeat(even[:, None], columns, axis=1), axis=0)


def draw_scores(
    owners: Ints, of_owner: Floats, rng: np.random.Generator, alike: float = ALIKE
) -> Floats:
    """Normal scores of jobs' run times, a row per draw; those of one owner are alike.

    Jobs of a sweep take about as long as each other, however long that is. Drawn each for itself,
    their errors would cancel out and the queue would seem far more certain than it is.

    Args:
        owners: of each job, a column of `of_owner`.
        of_owner: a standard normal number for each draw (row) and owner.
        alike: correlation of two jobs of one owner.
    """
    own = even_scores(len(of_owner), len(owners), rng)
    return np.asarray(alike**0.5 * of_owner[:, owners] + (1.0 - alike) ** 0.5 * own, np.float64)


def run_times(quantiles: Floats, levels: Sequence[float], scores: Floats) -> Floats:
    """Run times of jobs at these normal scores, a row per draw.

    Between quantiles the logarithm is taken as normal, beyond the outermost ones as between the
    last two.

    Args:
        quantiles: a row per job, a column per level; above 0, not falling.
        levels: rising, at least two.
        scores: a row per draw, a column per job.
    """
    marks = ndtri(np.asarray(levels))
    logs = np.log(np.maximum(quantiles, 1e-3))
    at = np.clip(np.searchsorted(marks, scores) - 1, 0, len(marks) - 2)
    column = np.arange(len(quantiles))
    low, high = logs[column, at], logs[column, at + 1]
    part = (scores - marks[at]) / (marks[at + 1] - marks[at])
    return np.asarray(np.exp(low + part * (high - low)), np.float64)
