"""Sessions: a person sits down, or a script starts, and submits a few or many jobs.

Arrivals are bursty because of sessions, seasonal because sessions follow the day and the
week, and uneven over days because some days are busy for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from flyball.core.units import S_PER_DAY, S_PER_HOUR
from flyball.twin.generate.settings import DAYS_A_WEEK, HOURS_A_DAY, GeneratorSettings

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DAILY_JITTER_S = 1_200.0
"""Standard deviation of the time at which a daily sweep repeats."""
SWEEP_PART = 10
"""Divisor of all jobs that limits a sweep: a short trace must not be one sweep."""


@dataclass(frozen=True)
class Sessions:
    """Holds sessions as columns.

    Attributes:
        size: index in `sizes` of the gang size of its jobs.
        jobs: number of jobs it submits.
        sweep: whether a script submits them.
        start_s: when it begins.
        tenant, user: codes of its owner.
    """

    size: Ints
    jobs: Ints
    sweep: npt.NDArray[np.bool_]
    start_s: Floats
    tenant: Ints
    user: Ints


def draw_sessions(
    settings: GeneratorSettings, total_jobs: int, rng: np.random.Generator
) -> Sessions:
    """Draw sessions that have exactly `total_jobs` jobs in total."""
    size, jobs, sweep = _draw_jobs(settings, total_jobs, rng)
    count = len(size)
    tenant = _draw_tenants(settings, size, rng)
    users = settings.users_per_tenant
    user = tenant * users + rng.choice(users, count, p=_zipf(users, 1.0))
    start_s = _draw_starts(settings, count, rng)
    _repeat_daily(settings, np.flatnonzero(sweep), start_s, rng)
    return Sessions(size, jobs, sweep, start_s, tenant, user)


def _repeat_daily(
    settings: GeneratorSettings, sweeps: Ints, start_s: Floats, rng: np.random.Generator
) -> None:
    """Move some sweeps to a day after the previous one, at about the same time: habits."""
    again = rng.random(len(sweeps)) < settings.sweep_daily_share
    late_s = rng.normal(0.0, DAILY_JITTER_S, len(sweeps))
    span_s = settings.days * S_PER_DAY
    for i in np.flatnonzero(again[1:]) + 1:  # in order: a habit may last for days
        start_s[sweeps[i]] = (start_s[sweeps[i - 1]] + S_PER_DAY + late_s[i]) % span_s


def _draw_jobs(
    settings: GeneratorSettings, total_jobs: int, rng: np.random.Generator
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Draw size, number of jobs and kind of each session; the last is cut to fit the total."""
    sweep_limit = min(settings.sweep_max_jobs, max(1, total_jobs // SWEEP_PART))
    sweep_share = np.array(settings.sweep_share)
    ordinary = np.maximum(1.0, settings.session_jobs)
    mean_jobs = (1 - sweep_share) * ordinary + sweep_share * _mean_sweep(settings, sweep_limit)
    weights = np.array(settings.size_share) / mean_jobs
    weights /= weights.sum()
    batch = int(total_jobs / (weights @ mean_jobs)) + 10
    parts: list[tuple[Ints, Ints, npt.NDArray[np.bool_]]] = []
    drawn = 0
    while drawn < total_jobs:
        size = rng.choice(len(weights), batch, p=weights)
        sweep = rng.random(batch) < sweep_share[size]
        jobs = np.where(
            sweep, _sweep_jobs(settings, rng.standard_normal(batch), sweep_limit),
            rng.geometric(1 / ordinary[size]),
        )  # fmt: skip
        drawn += int(jobs.sum())
        parts.append((size, jobs, sweep))
    size, jobs, sweep = (np.concatenate(column) for column in zip(*parts, strict=True))
    ends = np.cumsum(jobs)
    kept = int(np.searchsorted(ends, total_jobs)) + 1
    jobs = jobs[:kept].copy()
    jobs[-1] -= int(ends[kept - 1]) - total_jobs
    return size[:kept], jobs, sweep[:kept]


def _sweep_jobs(settings: GeneratorSettings, normal: Floats, limit: int) -> Ints:
    jobs = settings.sweep_median_jobs * np.exp(settings.sweep_sigma * normal)
    return np.clip(np.rint(jobs), 1, limit).astype(np.int64)


def _mean_sweep(settings: GeneratorSettings, limit: int) -> float:
    middles = (np.arange(10_000) + 0.5) / 10_000
    return float(_sweep_jobs(settings, ndtri(middles), limit).mean())


def _draw_tenants(settings: GeneratorSettings, size: Ints, rng: np.random.Generator) -> Ints:
    """Draw tenants by a power law; those with the most single jobs have the fewest gangs."""
    count, tenants = len(size), settings.tenants
    single = rng.choice(tenants, count, p=_zipf(tenants, settings.tenant_exponent))
    gang = rng.choice(tenants, count, p=_zipf(tenants, settings.gang_tenant_exponent)[::-1])
    return np.where(np.array(settings.sizes)[size] == 1, single, gang)


def _zipf(count: int, exponent: float) -> Floats:
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    shares: Floats = weights / weights.sum()
    return shares


def _draw_starts(settings: GeneratorSettings, count: int, rng: np.random.Generator) -> Floats:
    """Draw start times that follow the hour, the weekday and each day's weight."""
    days = int(np.ceil(settings.days))
    weekday = (np.arange(days) + settings.start_weekday) % DAYS_A_WEEK
    day_weight = np.array(settings.weekday_profile)[weekday] * _day_levels(settings, days, rng)
    weights = np.outer(day_weight, settings.hour_profile).ravel()
    left_h = settings.days * HOURS_A_DAY - np.arange(len(weights))
    weights *= np.clip(left_h, 0.0, 1.0)
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    places = rng.random(count) * cumulative[-1]
    hours = np.interp(places, cumulative, np.arange(len(cumulative), dtype=np.float64))
    starts_s: Floats = np.minimum(hours * S_PER_HOUR, settings.days * S_PER_DAY)
    return starts_s


def _day_levels(settings: GeneratorSettings, days: int, rng: np.random.Generator) -> Floats:
    """Draw a log-normal factor for each day, correlated with the day before."""
    shocks = rng.standard_normal(days)
    memory = settings.day_memory
    levels = np.empty(days)
    level = shocks[0] if days else 0.0
    for day in range(days):
        if day:
            level = memory * level + np.sqrt(1 - memory**2) * shocks[day]
        levels[day] = level
    factors: Floats = np.exp(settings.day_sigma * levels)
    return factors


def submit_times(
    settings: GeneratorSettings, sessions: Sessions, rng: np.random.Generator
) -> Floats:
    """Draw the submission of each job, session by session; times past the end wrap around."""
    median = np.where(sessions.sweep, settings.sweep_gap_median_s, settings.gap_median_s)
    sigma = np.where(sessions.sweep, settings.sweep_gap_sigma, settings.gap_sigma)
    mean_gap_s = median * np.exp(sigma * rng.standard_normal(len(median)))
    gaps = rng.standard_exponential(int(sessions.jobs.sum())) * np.repeat(mean_gap_s, sessions.jobs)
    first = np.cumsum(sessions.jobs) - sessions.jobs
    gaps[first] = 0.0
    since_all = np.cumsum(gaps)
    since = since_all - np.repeat(since_all[first], sessions.jobs)
    span_s = settings.days * S_PER_DAY
    times_s: Floats = np.floor((np.repeat(sessions.start_s, sessions.jobs) + since) % span_s)
    return times_s


def timer_times(settings: GeneratorSettings, count: int, rng: np.random.Generator) -> Floats:
    """Draw submissions of a script that runs at a fixed period, with about a second of jitter."""
    if not count:
        return np.zeros(0)
    period_s = settings.days * S_PER_DAY / count
    times = (np.arange(count) + rng.random()) * period_s + rng.normal(0.0, 1.0, count)
    return np.floor(np.clip(times, 0.0, settings.days * S_PER_DAY - 1))
