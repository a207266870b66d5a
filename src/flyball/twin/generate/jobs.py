"""Draws the jobs of sessions: their durations, outcomes, models and classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE
from flyball.core.workload import CLASS_LABELS, NOT_STATED, JobClass
from flyball.twin.generate.sessions import Sessions
from flyball.twin.generate.settings import (
    GeneratorSettings,
    class_memory_gib,
    model_choices,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FRACTIONS_MILLI = (250, 500)
"""Fractions of a device that a job may ask for, in thousandths."""


def durations(settings: GeneratorSettings, sessions: Sessions, rng: np.random.Generator) -> Floats:
    """Draw the run time of each job, session by session, in whole seconds.

    A session has either short jobs or long ones. Each session has its own centre; its jobs are
    near repeats that differ from the centre by the session's spread.
    """
    count = len(sessions.size)
    by_size = {
        name: np.array(getattr(settings, name))[sessions.size]
        for name in ("short_share", "short_median_s", "short_sigma", "long_median_s", "long_sigma")
    }
    short = rng.random(count) < by_size["short_share"]
    median_s = np.where(short, by_size["short_median_s"], by_size["long_median_s"])
    sigma = np.where(short, by_size["short_sigma"], by_size["long_sigma"])
    # The mean square of an exponential is twice its mean squared; take it from the centres'
    # variance so that centres and repeats together have the spread asked for.
    between = np.sqrt(np.maximum(0.0, sigma**2 - 2 * settings.repeat_sigma**2))
    centre = np.log(median_s) + between * rng.standard_normal(count)
    spread = settings.repeat_sigma * rng.standard_exponential(count)
    logs = np.repeat(centre, sessions.jobs)
    logs += np.repeat(spread, sessions.jobs) * rng.standard_normal(len(logs))
    return whole_seconds(settings, np.exp(logs))


def whole_seconds(settings: GeneratorSettings, seconds: Floats) -> Floats:
    """Return seconds rounded and clipped to between one and the maximum."""
    return np.clip(np.rint(seconds), 1.0, settings.max_duration_s)


def outcomes(settings: GeneratorSettings, duration_s: Floats, rng: np.random.Generator) -> Ints:
    """Draw the outcome of each job; the odds depend on its duration relative to the others."""
    share = np.array(settings.outcome_share)
    logs = np.log(duration_s)
    scaled = (logs - logs.mean()) / max(float(logs.std()), 1e-9)
    odds = share * np.exp(np.outer(scaled, settings.outcome_tilt))
    odds /= odds.sum(axis=1, keepdims=True)
    # The tilt moves the shares; a few rounds of scaling bring them back.
    for _ in range(8):
        odds *= share / np.maximum(odds.mean(axis=0), 1e-12)
        odds /= odds.sum(axis=1, keepdims=True)
    steps = np.cumsum(odds, axis=1)
    above: Ints = (rng.random(len(logs))[:, None] > steps).sum(axis=1)
    return np.minimum(above, 2)


def kinds(
    settings: GeneratorSettings, sessions: Sessions, rng: np.random.Generator
) -> dict[str, Ints]:
    """Draw model, class, memory and fraction of each job, where the settings ask for them."""
    columns: dict[str, Ints] = {}
    model = _models(settings, sessions, rng)
    if settings.model_share:
        columns["model"] = np.repeat(model, sessions.jobs)
    if not settings.class_share:
        return columns
    kind = _classes(settings, model, rng)
    columns["kind"] = np.repeat(kind, sessions.jobs)
    if settings.memory_max_gib:
        columns["memory_mib"] = np.repeat(_memory_mib(settings, kind, rng), sessions.jobs)
    if settings.fraction_share:
        milli = _fractions(settings, sessions, model, kind, rng)
        columns["milli"] = np.repeat(milli, sessions.jobs)
    return columns


def _models(settings: GeneratorSettings, sessions: Sessions, rng: np.random.Generator) -> Ints:
    """Draw a model for a share of the sessions, among those measured at their gang size."""
    devices = np.array(settings.sizes)[sessions.size]
    model = np.full(len(devices), NOT_STATED, np.int64)
    chosen = rng.random(len(devices)) < settings.model_share
    for size in settings.sizes:
        weights = np.array([choice.weight * (size in choice.counts) for choice in model_choices()])
        here = np.flatnonzero(chosen & (devices == size))
        if weights.any():
            model[here] = rng.choice(len(weights), len(here), p=weights / weights.sum())
    return model


def _classes(settings: GeneratorSettings, model: Ints, rng: np.random.Generator) -> Ints:
    share = np.array(settings.class_share)
    drawn = rng.choice(len(share), len(model), p=share / share.sum())
    of_model = np.array([CLASS_LABELS.index(choice.kind) for choice in model_choices()])
    return np.where(model >= 0, of_model[model], drawn)


def _memory_mib(settings: GeneratorSettings, kind: Ints, rng: np.random.Generator) -> Ints:
    """Draw memory log-uniformly over the class's range, cut at the largest device."""
    low, high = np.minimum(np.array(class_memory_gib()), settings.memory_max_gib).T
    gib = low[kind] * (high[kind] / low[kind]) ** rng.random(len(kind))
    mib: Ints = np.ceil(gib * MIB_PER_GIB).astype(np.int64)
    return mib


def _fractions(
    settings: GeneratorSettings, sessions: Sessions, model: Ints, kind: Ints,
    rng: np.random.Generator,
) -> Ints:  # fmt: skip
    """Give some small latency-sensitive jobs without a model half or a quarter of a device."""
    one = np.array(settings.sizes)[sessions.size] == 1
    may = one & (model < 0) & (kind == JobClass.LATENCY_SENSITIVE)
    takes = may & (rng.random(len(kind)) < settings.fraction_share)
    return np.where(takes, rng.choice(FRACTIONS_MILLI, len(kind)), MILLI_PER_DEVICE)
