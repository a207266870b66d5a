"""The speed of a job that shares its device with another, as a part of its speed alone there.

Measured pairs where Gavel measured them (`flyball/data/sharing.csv`: 26 configurations on K80,
P100 and V100); else from how busy each of the two keeps the device, fitted to Lucid's pairs
(`sharing.toml`). A third model, of rank one in a job's sensitivity and in its pressure on the
other, predicts pairs that were never run together; it is fitted to Gavel's pairs.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType
from flyball.physics.measured import ModelKey, model_key


class Sharer(NamedTuple):
    """The properties of a one-device job that affect the job it shares a device with."""

    model: str | None
    kind: JobClass


class SharedSpeed(NamedTuple):
    """Speed while sharing a device, relative to that alone; 0 = the two do not fit together.

    Attributes:
        value: at most 1.
        measured: this pair was measured on this type of device.
    """

    value: float
    measured: bool


def speed_beside(device: DeviceType, job: Sharer, other: Sharer) -> SharedSpeed:
    """Return the speed of `job` while `other` runs on the same device: measured if possible."""
    measured = measured_pair(device, job.model, other.model)
    if measured is not None:
        return SharedSpeed(min(1.0, measured), True)
    return SharedSpeed(by_utilisation(job.kind, other.kind), False)


def guessed_shared_speed(device: DeviceType, job: Sharer, other: Sharer) -> SharedSpeed:
    """Return the speed as predicted before the pair ever ran; memory is known beforehand."""
    if measured_pair(device, job.model, other.model) == 0.0:
        return SharedSpeed(0.0, True)
    fitted = by_rank_one(device, job.model, other.model)
    if fitted is not None:
        return SharedSpeed(fitted, False)
    return SharedSpeed(by_utilisation(job.kind, other.kind), False)


def optimistic_shared_speed(device: DeviceType, job: Sharer, other: Sharer) -> SharedSpeed:
    """Return the guess plus the error of its model.

    A tuner that learns from trials must be optimistic, or a pair guessed too low is never tried.
    """
    guess = guessed_shared_speed(device, job, other)
    if guess.value == 0.0:
        return guess
    return SharedSpeed(min(1.0, guess.value + _error(device, job, other)), False)


def measured_pair(device: DeviceType, model: str | None, other: str | None) -> float | None:
    """Return Gavel's measurement of this pair; 0 = does not fit together; None = not measured."""
    mine, theirs = model_key(model), model_key(other)
    if mine is None or theirs is None:
        return None
    return _pairs().get((device.measured_as, _short(mine), _short(theirs)))


def by_rank_one(device: DeviceType, model: str | None, other: str | None) -> float | None:
    """Return `1 / (1 + suffers * presses)`; None where nothing was fitted."""
    mine, theirs = model_key(model), model_key(other)
    fit = _document()["rank_one"].get(device.measured_as)
    if fit is None or mine is None or theirs is None:
        return None
    suffers, presses = fit["suffers"][_short(mine)], fit["presses"][_short(theirs)]
    return float(1.0 / (1.0 + suffers * presses))


def by_utilisation(kind: JobClass, other: JobClass) -> float:
    """Return `1 / (1 + slope * max(0, u1 + u2 - free))` with the busy share of each class.

    The formula is the same for both of a pair.
    """
    table = _utilisation()
    busy: Mapping[str, float] = table["busy"]
    over = max(0.0, busy[kind.label] + busy[other.label] - table["free"])
    return float(1.0 / (1.0 + table["slope"] * over))


def _error(device: DeviceType, job: Sharer, other: Sharer) -> float:
    """Return the root mean square error of the model that guesses this pair."""
    if by_rank_one(device, job.model, other.model) is None:
        return float(_utilisation()["error"])
    return float(_document()["rank_one"][device.measured_as]["error"])


def cluster_gain(share: float, pair_gain: float) -> float:
    """Return the work of a cluster relative to no sharing: `1 / (1 - f + f / G)`.

    Args:
        share: f, the part of device time that one-device jobs would take alone.
        pair_gain: G, work per second of the devices they share, relative to that without sharing.
    """
    return 1.0 / (1.0 - share + share / pair_gain)


@cache
def _pairs() -> dict[tuple[str, str, str], float]:
    text = resources.files("flyball.data").joinpath("sharing.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (row["gpu_type"], row["model"], other): float(value)
        for row in rows
        for other, value in row.items()
        if other not in ("gpu_type", "model")
    }


@cache
def _document() -> dict[str, Any]:
    text = resources.files("flyball.data").joinpath("sharing.toml").read_text("utf-8")
    return tomllib.loads(text)


def _utilisation() -> Mapping[str, Any]:
    table: Mapping[str, Any] = _document()["by_utilisation"]
    return table


def _short(key: ModelKey) -> str:
    return f"{key.model}:{key.batch}" if key.batch else key.model
