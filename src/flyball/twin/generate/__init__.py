"""Generates synthetic workloads that resemble real ones: bursts, seasons, heavy tails, tenants.

`docs/concept/generator.md` explains the model and compares it with measured traces;
`data/generator.toml` gives the source of every number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import NOT_STATED, Workload
from flyball.physics.catalogue import REFERENCE
from flyball.twin.generate.jobs import durations, kinds, outcomes, whole_seconds
from flyball.twin.generate.load import draw_at_load, rescale
from flyball.twin.generate.sessions import draw_sessions, submit_times, timer_times
from flyball.twin.generate.settings import (
    GeneratorSettings,
    model_choices,
    preset,
    preset_names,
    sources,
)

__all__ = ["GeneratorSettings", "generate", "preset", "preset_names", "rescale", "sources"]

MAX_JOBS = 20_000_000
"""Maximum number of jobs of a generated workload."""


def generate(
    settings: str | GeneratorSettings,
    seed: int = 0,
    *,
    days: float | None = None,
    jobs: int | None = None,
    jobs_per_day: float | None = None,
    load: float | None = None,
    devices: int | None = None,
    start_weekday: int | None = None,
) -> Workload:
    """Generate a workload. The same settings and seed give the same workload.

    Args:
        settings: the name of a preset, or custom settings.
        seed: seed of all draws, 0 or more.
        days: span of the arrivals.
        jobs: total number of jobs (default: days x jobs per day).
        jobs_per_day: the mean rate.
        load: load offered to `devices`. The number of jobs follows from it and the span stays as
            set; with `jobs` the arrivals are stretched or compressed instead, see `rescale`.
        devices: number of devices of the cluster, for `load`.
        start_weekday: weekday of time 0, Monday = 0.

    Returns:
        Jobs j0, j1, ... in order of submission, with tenants, users and outcomes. Durations
        are those on the reference device, which every job names.
    """
    base = preset(settings) if isinstance(settings, str) else settings
    if jobs is not None:
        _check_count(jobs)
    chosen = _chosen(base, days, jobs, jobs_per_day, start_weekday)
    if (load is None) != (devices is None):
        raise BadInput("load and devices go together", "give both or neither")
    if seed < 0:
        raise BadInput(f"seed = {seed} is negative", "use 0 or more")

    def draw(total: int) -> Workload:
        _check_count(total)
        return _draw(chosen, total, np.random.Generator(np.random.PCG64(seed)), seed)

    if load is None or devices is None:
        return draw(jobs if jobs is not None else round(chosen.days * chosen.jobs_per_day))
    if jobs is not None:
        if days is not None:
            raise BadInput("days, jobs and load are too much", "give two of them")
        return rescale(draw(jobs), load, devices)
    if jobs_per_day is not None:
        raise BadInput("jobs per day and load are too much", "give one: the load sets the rate")
    return draw_at_load(draw, chosen, load, devices)


def _check_count(jobs: int) -> None:
    if not 1 <= jobs <= MAX_JOBS:
        raise BadInput(
            f"{jobs:,} jobs cannot be generated",
            f"ask for 1 to {MAX_JOBS:,} jobs: of a load, fewer days or devices",
        )


def _chosen(
    base: GeneratorSettings,
    days: float | None,
    jobs: int | None,
    jobs_per_day: float | None,
    start_weekday: int | None,
) -> GeneratorSettings:
    """Return the settings with the caller's changes; two of days, jobs and rate set the third."""
    if jobs is not None and jobs_per_day is not None:
        if days is not None:
            raise BadInput("days, jobs and jobs per day are too much", "give two of them")
        days = jobs / jobs_per_day if jobs_per_day > 0 else 0.0
    if jobs is not None and days is None:
        days = max(1.0, jobs / base.jobs_per_day)
    changes = {"days": days, "jobs_per_day": jobs_per_day, "start_weekday": start_weekday}
    stated = {name: value for name, value in changes.items() if value is not None}
    return replace(base, **stated) if stated else base  # type: ignore[arg-type]


def _draw(settings: GeneratorSettings, total: int, rng: np.random.Generator, seed: int) -> Workload:
    # 1. The jobs that a script submits by the clock, and the sessions of people with the rest.
    by_timer = min(round(settings.timer_jobs_per_day * settings.days), total // 2)
    sessions = draw_sessions(settings, total - by_timer, rng)
    # 2. Submission times.
    submit_s = np.concatenate(
        [submit_times(settings, sessions, rng), timer_times(settings, by_timer, rng)]
    )
    # 3. Durations.
    timer_s = settings.timer_median_s * np.exp(settings.timer_sigma * rng.standard_normal(by_timer))
    duration_s = np.concatenate(
        [durations(settings, sessions, rng), whole_seconds(settings, timer_s)]
    )
    # 4. Requests and owners; a script's jobs ask for single devices and belong to one user.
    per_job = {
        "devices": np.repeat(np.array(settings.sizes)[sessions.size], sessions.jobs),
        "tenant": np.repeat(sessions.tenant, sessions.jobs),
        "user": np.repeat(sessions.user, sessions.jobs),
        **kinds(settings, sessions, rng),
    }
    tenant = min(settings.timer_tenant, settings.tenants) - 1
    of_timer = {
        "devices": 1,
        "tenant": tenant,
        "user": tenant * settings.users_per_tenant,
        "memory_mib": 0,
        "milli": MILLI_PER_DEVICE,
    }
    columns = {
        name: np.append(values, np.full(by_timer, of_timer.get(name, NOT_STATED)))
        for name, values in per_job.items()
    }
    # 5. Outcomes; then sort by submission.
    columns["outcome"] = outcomes(settings, duration_s, rng)
    order = np.argsort(submit_s, kind="stable")
    return Workload.of(
        f"{settings.name} seed {seed}",
        submit_s[order],
        duration_s[order],
        **{name: values[order] for name, values in columns.items()},
        device=0,
        device_names=(REFERENCE,),
        **_names(settings, columns),
    )


def _names(settings: GeneratorSettings, columns: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the lists of names that go with the codes."""
    names = {
        "tenants": tuple(f"tenant{i + 1}" for i in range(settings.tenants)),
        "users": tuple(
            f"user{tenant + 1}-{i + 1}"
            for tenant in range(settings.tenants)
            for i in range(settings.users_per_tenant)
        ),
    }
    if "model" in columns:
        names["models"] = tuple(choice.key for choice in model_choices())
    return names
