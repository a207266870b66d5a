"""Forecasts of start times: roll-outs of the twin from a live snapshot.

Each roll-out draws a run time for every job, adds jobs that may still arrive, and runs the twin
from now on with the same decisions as live. So it accounts for jobs that later submissions
overtake (shortest first, fair shares, a hole that only small jobs fit).

Nothing here predicts run times: they are passed in (`draws`, which `spread.run_times` makes
from quantiles). Future arrivals are drawn from past ones (`draw_arrivals`).
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
"""Submission time of the arrivals that a roll-out does not use."""
FIRST_STEP_US = to_us(S_PER_HOUR)
"""First step of a roll-out; steps double until all jobs asked about have started."""
BLOCK_US = to_us(4 * S_PER_HOUR)
"""Length of the blocks in which arrivals are drawn, so that bursts stay together."""
DAY_US = to_us(S_PER_DAY)
SAME_TIME_DAYS = 3
"""Minimum days of history for taking blocks from the same time of day."""
FADE = 0.6
"""Weight of a block relative to one a day later: busy days follow busy days."""
MOST_COMING = 4_000
"""Maximum number of arrivals in one roll-out."""
FARTHEST_US = 14 * DAY_US
"""Maximum horizon of arrivals."""
AHEAD, LEAST_AHEAD_US = 6, to_us(12 * S_PER_HOUR)
"""Horizon of arrivals: a multiple of the longest wait without arrivals, plus a minimum. A job that
is overtaken waits longer, and may be overtaken again meanwhile."""
EVEN = 4
"""Minimum number of draws to spread them evenly."""
ALIKE = 0.7
"""Correlation of the errors of predicted run times of two jobs of one owner."""


@dataclass(frozen=True)
class FutureArrivals:
    """Holds the future arrivals of one roll-out.

    Attributes:
        picks: indices of the past jobs that arrive again.
        submit_us: when they arrive, not decreasing.
        work_us: their run times.
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
    coming: Sequence[FutureArrivals] = (),
    asked: Ints | None = None,
) -> Floats:
    """Return the seconds until each job starts, a row per roll-out; NaN = it never did.

    Args:
        draws: run times in microseconds, a row per roll-out, a column per job of the view; of a
            running job that of its whole present attempt.
        recent: past jobs, in the units of the view's workload.
        coming: for each roll-out, which of them arrive again; empty = no arrivals.
        asked: the jobs whose start is needed; others may be left without one. None = all.
    """
    present = draws.shape[1]
    places = _places(coming, 0 if recent is None else len(recent))
    if recent is not None and len(places.copies):
        view = replace(
            view, workload=with_arrivals(view.workload, recent.take(places.copies), now_us)
        )
    snapshot = Snapshot(cluster, view, knobs, now_us)
    snapshot.state.clock["next_job"] = present
    packed = knobs.pack()
    starts = np.zeros(draws.shape)
    running = np.asarray(snapshot.state.runs.status[:present] == Status.RUNNING)
    awaited = np.arange(present) if asked is None else asked
    for at, work_us in enumerate(draws):
        state = _with_run_times(
            snapshot.state, work_us, running, coming[at] if coming else None, places
        )
        decide_snapshot(state, packed, False)
        live_kernel.schedule_ends(state)
        _run_until_started(state, packed, now_us, awaited)
        first = np.asarray(state.runs.first_start_us[:present])
        starts[at] = np.where(first >= 0, np.maximum(0, first - now_us) / 1e6, np.nan)
    starts[:, running] = 0.0
    return starts


def _with_run_times(
    start: State, work_us: Floats, running: Any, coming: FutureArrivals | None, places: _Places
) -> State:
    """Return a copy of the state in which every job has its run time of this roll-out."""
    state = clone(start)
    present = len(work_us)
    jobs: Any = state.jobs.copy()
    done_us = np.asarray(state.runs.done_us[:present])
    jobs.work_us[:present] = np.maximum(1.0, work_us + np.where(running, 0.0, done_us))
    state.runs.done_us[:present][running] = 0.0
    state.runs.attempt[:present][~running] = 0
    if coming is not None and len(jobs) > present:
        order = places.order(coming.picks)
        jobs[present:] = jobs[present:][order]
        if len(state.memos) >= len(jobs):
            state.memos[present : len(jobs)] = state.memos[present : len(jobs)][order]
        count = len(coming.picks)
        jobs.submit_us[present:] = NEVER_US
        jobs.submit_us[present : present + count] = coming.submit_us
        jobs.work_us[present : present + count] = np.maximum(1.0, coming.work_us)
        last_first = np.arange(len(jobs))[::-1]
        state.shapes["sample"][jobs.shape_id[last_first]] = last_first
    return state._replace(jobs=jobs)


def _run_until_started(state: State, packed: Any, now_us: int, awaited: Ints) -> None:
    """Run until the awaited jobs have started, or nothing is left to happen."""
    step_us = FIRST_STEP_US
    while now_us + step_us < NEVER_US:
        kernel.run(state, packed, now_us + step_us, False)
        if (state.runs.first_start_us[awaited] >= 0).all():
            return
        if kernel.next_us(state, packed) >= NEVER_US:
            return
        step_us *= 2


# Future arrivals -------------------------------------------------------------------------


class _Places:
    """Holds where possible arrivals stand in the workload, as often as any roll-out needs them."""

    def __init__(self, copies: Ints, first: Ints) -> None:
        self.copies, self._first = copies, first

    def order(self, picks: Ints) -> Ints:
        """Return the places of these picks, then all others."""
        order = np.argsort(picks, kind="stable")
        in_order = picks[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=-1))
        sizes = np.diff(np.append(begins, len(in_order)))
        repeat = np.empty(len(picks), np.int64)
        repeat[order] = np.arange(len(picks)) - np.repeat(begins, sizes)
        taken = self._first[picks] + repeat
        rest = np.ones(len(self.copies), bool)
        rest[taken] = False
        return np.concatenate([taken, np.flatnonzero(rest)])


def _places(coming: Sequence[FutureArrivals], kinds: int) -> _Places:
    most = np.zeros(kinds, np.int64)
    for arrivals in coming:
        most = np.maximum(most, np.bincount(arrivals.picks, minlength=kinds))
    return _Places(np.repeat(np.arange(kinds), most), np.cumsum(most) - most)


def with_arrivals(present: Workload, more: Workload, now_us: int) -> Workload:
    """Return one workload of present jobs and possible arrivals, which belong to no array."""
    size = len(more)
    columns = {name: [getattr(present, name), getattr(more, name)] for name in COLUMNS}
    columns["ids"][1] = np.broadcast_to(np.array("", np.str_), size)
    columns["group"][1] = np.full(size, NOT_STATED, np.int64)
    last_us = int(present.submit_us[-1]) if len(present) else now_us
    columns["submit_us"][1] = np.full(size, max(now_us, last_us), np.int64)
    names: dict[str, Any] = {}
    for column, listed in (
        *(("tenant", "tenants"), ("user", "users"), ("model", "models")),
        ("device", "device_names"),
    ):
        first, second = getattr(present, listed), getattr(more, listed)
        names[listed] = (*first, *(name for name in second if name not in first))
        recode = np.array([names[listed].index(name) for name in second] + [NOT_STATED])
        columns[column][1] = recode[columns[column][1]]
    joined: dict[str, Any] = {name: np.concatenate(pair) for name, pair in columns.items()}
    if present.quantiles_us is not None:
        of_more = more.quantiles_us
        unknown = np.full((size, present.quantiles_us.shape[1]), np.nan)
        rows = (present.quantiles_us, unknown if of_more is None else of_more)
        joined["quantiles_us"] = np.concatenate(rows)
    return replace(present, **joined, **names)


def horizon_us(alone_s: Floats) -> int:
    """Return the horizon of arrivals, given the waits in seconds without arrivals."""
    longest_s = float(np.nanmax(alone_s, initial=0.0))
    return min(FARTHEST_US, AHEAD * to_us(longest_s) + LEAST_AHEAD_US)


def draw_arrivals(
    submit_us: Ints, now_us: int, horizon_us: int, rng: np.random.Generator, since_us: int = -1
) -> tuple[Ints, Ints]:
    """Draw which of the jobs submitted at these times arrive again, and when.

    The horizon is filled with blocks of the past: from the same time of another day once there
    are some days of history, else from any time. So the rate follows the hour of the day, and
    bursts stay bursts.

    Args:
        submit_us: when the past jobs arrived, not decreasing, none after now.
        horizon_us: how far ahead.
        since_us: start of the complete history of arrivals; -1 = the first of them.

    Returns:
        Indices of jobs and the times at which they arrive again, in order of time.
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
    """Draw the past time that the block at `at_us` is taken from; recent times are likelier."""
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
    """Return standard normal numbers, a row per draw; each column is spread evenly."""
    if draws < EVEN:
        return rng.standard_normal((draws, columns))
    even = ndtri((np.arange(draws) + 0.5) / draws)
    return rng.permuted(np.repeat(even[:, None], columns, axis=1), axis=0)


def draw_scores(
    owners: Ints, of_owner: Floats, rng: np.random.Generator, alike: float = ALIKE
) -> Floats:
    """Return normal scores of jobs' run times, a row per draw; those of one owner correlate.

    Jobs of a sweep take about equally long, however long that is. If they were drawn
    independently, their errors would cancel out and the queue would seem far more certain than
    it is.

    Args:
        owners: the column of `of_owner` of each job.
        of_owner: a standard normal number for each draw (row) and owner.
        alike: correlation of two jobs of one owner.
    """
    of_job = even_scores(len(of_owner), len(owners), rng)
    return np.asarray(alike**0.5 * of_owner[:, owners] + (1.0 - alike) ** 0.5 * of_job, np.float64)
