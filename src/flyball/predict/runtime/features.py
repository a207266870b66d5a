"""Features of a job at its submission, from the history as it is then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from flyball.core.units import S_PER_DAY, S_PER_HOUR
from flyball.predict.runtime.history import (
    BURST_S,
    EMPTY,
    LEVELS,
    MEMORY,
    PHASES,
    SPANS_S,
    Group,
    History,
    Seen,
    SubmitBurst,
    phases_of,
)
from flyball.predict.runtime.rows import Asked

FULL = ("tenant_size", "user_size", "name", "name_size")
"""Groups with features of single jobs; the others have a mean and how busy they are."""
NEAR = (1, 2, 3)
"""Positions, from the latest submission back, of the jobs that have their own features."""


def _label(level: str, what: str) -> str:
    return f"{level}.{what}"


BRIEF_NAMES = (
    *(f"mean_{memory:g}" for memory in MEMORY),
    "spread",
    "since_submit",
    "since_end",
    *(f"rate_{span_s:g}" for span_s in SPANS_S),
    "running",
)
FULL_NAMES = (
    *("last", "last_two", "median_5", "median_all", "low_5", "high_5"),
    *("sub_last", "sub_two", "sub_median_5"),
    *(f"{what}_{place}" for place in NEAR for what in ("done", "value")),
    *("done_part", "bound_mean", "bound_high", "old_mean"),
    *(f"faded_{span_s:g}" for span_s in SPANS_S),
    *("burst_jobs", "burst_age", "burst_done", "burst_median", "burst_bound"),
    *("before_jobs", "before_age", "before_done", "before_median", "before_bound"),
    *(f"{what}_{period:g}" for period, _ in PHASES for what in ("phase_age", "phase_median")),
)
NEAREST = ("base", "recent", "last", "sub_last", "low", "high", "median_5", "slow")
"""Features of the nearest group that has finished jobs: see `_nearest`."""
NAMES = (
    *(_label("nearest", what) for what in NEAREST),
    *("devices", "hour", "weekday", "limit"),
    *(_label(level, what) for level in LEVELS for what in BRIEF_NAMES),
    *(_label(level, what) for level in FULL for what in FULL_NAMES),
)
"""Names of all features, in order."""
BASE, RECENT = 0, 1
"""Columns of the two guesses that need no trees."""
NO_BRIEF = [math.nan] * len(BRIEF_NAMES)
NO_FULL = [math.nan] * len(FULL_NAMES)


def features(asked: Asked, history: History) -> list[float]:
    """Return one row for the trees; NaN where nothing is known."""
    groups = history.groups(asked)
    now_s = asked.submit_s
    row = [
        math.log2(1 + asked.devices),
        now_s % S_PER_DAY / S_PER_HOUR,
        float(now_s // S_PER_DAY % 7),
        math.log(asked.limit_s) if asked.limit_s else math.nan,
    ]
    means = [math.nan] * len(MEMORY)
    for level in LEVELS:
        group = groups[level]
        if group is None:
            row += NO_BRIEF
        else:
            means = [group.mean(index, means[index]) for index in range(len(MEMORY))]
            row += [*means, *_brief(group, now_s)]
    for level in FULL:
        group = groups[level]
        row += NO_FULL if group is None else _full(group, now_s)
    return _nearest(groups, means) + row


def _nearest(groups: dict[str, Group | None], means: list[float]) -> list[float]:
    """Return the starting guess (`base`), and how the latest jobs lie around it.

    `base` is the quick mean of the nearest group, shrunk to the wider ones; `recent` the
    median of the latest jobs that ended in the nearest group that has any. The others are
    differences from `base`, which is what the trees predict too.
    """
    base = means[0]
    group = next((g for level in reversed(LEVELS) if (g := groups[level]) and g.finished), EMPTY)
    ends = [job.log_s for job in group.finished]
    latest = [job.log_s for job in group.submitted if job.ended]
    return [
        base,
        _or_nan(median, ends),
        _or_nan(max, ends[-1:]) - base,
        _or_nan(max, latest[-1:]) - base,
        _or_nan(min, ends[-5:]) - base,
        _or_nan(max, ends[-5:]) - base,
        _or_nan(median, ends[-5:]) - base,
        means[1] - base,
    ]


def _brief(group: Group, now_s: float) -> list[float]:
    """Return how spread and how busy a group is."""
    gap_s = now_s - group.last_submit_s
    return [
        group.spread(1),
        _log_gap(gap_s),
        _log_gap(now_s - group.last_end_s),
        *(
            math.log1p(count * math.exp(-gap_s / span_s))
            for count, span_s in zip(group.recent, SPANS_S, strict=True)
        ),
        math.log1p(group.running),
    ]


def _full(group: Group, now_s: float) -> list[float]:
    """Return features of a group's latest jobs: by end, by submission, and still running."""
    ends = [job.log_s for job in group.finished]
    latest = list(group.submitted)
    done = [job.log_s for job in latest if job.ended]
    bounds = [job.bound(now_s) for job in latest]
    running = [job.bound(now_s) for job in latest if not job.ended]
    return [
        _or_nan(max, ends[-1:]),
        _or_nan(_mean, ends[-2:]),
        _or_nan(median, ends[-5:]),
        _or_nan(median, ends),
        _or_nan(min, ends[-5:]),
        _or_nan(max, ends[-5:]),
        _or_nan(max, done[-1:]),
        _or_nan(_mean, done[-2:]),
        _or_nan(median, done[-5:]),
        *(value for place in NEAR for value in _single(latest, place, now_s)),
        len(done) / len(latest) if latest else math.nan,
        _or_nan(_mean, bounds),
        _or_nan(max, running),
        _or_nan(_mean, running),
        *(total / weight if weight else math.nan for weight, total in group.faded),
        *_bursts(group, now_s),
        *(value for phase in phases_of(now_s) for value in _phase(group, phase, now_s)),
    ]


def _bursts(group: Group, now_s: float) -> list[float]:
    """Return features of the burst this job would belong to, and of the one before it."""
    if now_s - group.last_submit_s <= BURST_S:
        return [*_burst(group.burst, now_s), *_burst(group.before, now_s)]
    return [*_burst(SubmitBurst(), now_s), *_burst(group.burst, now_s)]


def _burst(burst: SubmitBurst, now_s: float) -> list[float]:
    done = [job.log_s for job in burst.latest if job.ended]
    return [
        math.log1p(burst.jobs),
        _log_gap(now_s - burst.start_s),
        len(done) / len(burst.latest) if burst.latest else math.nan,
        _or_nan(median, done),
        _or_nan(median, [job.bound(now_s) for job in burst.latest]),
    ]


def _phase(group: Group, phase: tuple[float, int], now_s: float) -> tuple[float, float]:
    """Return the time since a job at the same time of the hour (day, ...), and their median."""
    jobs = group.phases.get(phase)
    if not jobs:
        return math.nan, math.nan
    done = [job.log_s for job in jobs if job.ended]
    return _log_gap(now_s - jobs[-1].submit_s), _or_nan(median, done)


def _single(latest: list[Seen], place: int, now_s: float) -> tuple[float, float]:
    """Return whether the job submitted `place` jobs ago has ended, and its run time or age."""
    if len(latest) < place:
        return math.nan, math.nan
    job = latest[-place]
    return float(job.ended), job.bound(now_s)


def _log_gap(gap_s: float) -> float:
    """Return the log of a time gap; a negative one, from a lagging clock, counts as 0."""
    return math.log1p(max(0.0, gap_s)) if gap_s < math.inf else math.nan


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _or_nan(function: Callable[[Sequence[float]], float], values: Sequence[float]) -> float:
    return function(values) if values else math.nan
