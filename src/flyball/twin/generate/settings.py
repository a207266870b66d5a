"""The generator's settings, and the presets that ship in `data/generator.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import CLASS_LABELS

HOURS_A_DAY = 24
DAYS_A_WEEK = 7


@dataclass(frozen=True)
class ModelChoice:
    """Describes a model that jobs may train.

    Attributes:
        key: its name in the measured table of speeds.
        kind: its workload class.
        counts: gang sizes measured for it.
        weight: how often it is chosen, relative to the others.
    """

    key: str
    kind: str
    counts: tuple[int, ...]
    weight: float


@dataclass(frozen=True)
class GeneratorSettings:
    """Holds the settings of a synthetic workload. Fields by size have one entry per size.

    Attributes:
        days: span of the arrivals.
        jobs_per_day: mean rate, people and timer together.
        start_weekday: weekday of time 0, Monday = 0.
        hour_profile: weight of each hour of the day for the start of a session.
        weekday_profile: weight of each weekday, Monday first.
        day_sigma: spread of the log of a day's weight: some days are busy.
        day_memory: correlation of that log from one day to the next.
        tenants: number of tenants.
        tenant_exponent: tenant k gets sessions in proportion to k ** -exponent.
        gang_tenant_exponent: the same for sessions of gangs, over the tenants in reverse order.
        users_per_tenant: number of users; user k gets sessions in proportion to 1/k.
        sizes: gang sizes.
        size_share: share of people's jobs by size.
        session_jobs: mean jobs of an ordinary session, by size (geometric).
        sweep_share: share of sessions that are sweeps (scripts that submit many), by size.
        sweep_median_jobs, sweep_sigma, sweep_max_jobs: log-normal size of a sweep, cut off.
        sweep_daily_share: share of sweeps that come a day after another, at about its hour.
        gap_median_s, gap_sigma: log-normal mean gap inside an ordinary session, drawn per session.
        sweep_gap_median_s, sweep_gap_sigma: the same for sweeps.
        short_share: share of sessions with short jobs (trials, early failures), by size.
        short_median_s, short_sigma: their log-normal durations, by size.
        long_median_s, long_sigma: log-normal durations of the other sessions, by size.
        repeat_sigma: mean log spread of durations inside one session.
        max_duration_s: maximum duration of a job.
        timer_jobs_per_day: jobs of a script that submits at a fixed period; 0 = none.
        timer_median_s, timer_sigma: their log-normal durations.
        timer_tenant: the tenant of the script, by rank from 1.
        outcome_share: shares of completed, failed and cancelled jobs.
        outcome_tilt: how the odds of each outcome grow with the log duration (1 / standard
            deviation): long jobs are cancelled more often than short ones.
        model_share: share of sessions that train one of the known models.
        class_share: classes of the other sessions in the order of `JobClass`; none = no classes.
        memory_max_gib: cut on the memory drawn from the class's range; 0 = no memory.
        fraction_share: share of latency-sensitive one-device sessions that take half or a
            quarter of a device.
    """

    days: float
    jobs_per_day: float
    hour_profile: tuple[float, ...]
    weekday_profile: tuple[float, ...]
    day_sigma: float
    day_memory: float
    tenants: int
    tenant_exponent: float
    gang_tenant_exponent: float
    users_per_tenant: int
    sizes: tuple[int, ...]
    size_share: tuple[float, ...]
    session_jobs: tuple[float, ...]
    sweep_share: tuple[float, ...]
    sweep_median_jobs: float
    sweep_sigma: float
    sweep_max_jobs: int
    sweep_daily_share: float
    gap_median_s: float
    gap_sigma: float
    sweep_gap_median_s: float
    sweep_gap_sigma: float
    short_share: tuple[float, ...]
    short_median_s: tuple[float, ...]
    short_sigma: tuple[float, ...]
    long_median_s: tuple[float, ...]
    long_sigma: tuple[float, ...]
    repeat_sigma: float
    max_duration_s: float
    outcome_share: tuple[float, ...]
    outcome_tilt: tuple[float, ...]
    timer_jobs_per_day: float = 0.0
    timer_median_s: float = 60.0
    timer_sigma: float = 0.1
    timer_tenant: int = 1
    model_share: float = 0.0
    class_share: tuple[float, ...] = ()
    memory_max_gib: float = 0.0
    fraction_share: float = 0.0
    start_weekday: int = 0
    name: str = "generated"

    def __post_init__(self) -> None:
        lengths = {
            "hour_profile": HOURS_A_DAY,
            "weekday_profile": DAYS_A_WEEK,
            "outcome_share": 3,
            "outcome_tilt": 3,
            **{name: len(self.sizes) for name in BY_SIZE},
        }
        for name, length in lengths.items():
            if len(getattr(self, name)) != length:
                raise BadInput(
                    f"generator setting {name} has {len(getattr(self, name))} entries",
                    f"give {length}",
                )
        if self.class_share and len(self.class_share) != len(CLASS_LABELS):
            raise BadInput("generator setting class_share is not one number a class", "give 5")
        for setting in fields(self):
            _check_range(setting.name, getattr(self, setting.name))


BY_SIZE = (
    "size_share",
    "session_jobs",
    "sweep_share",
    "short_share",
    "short_median_s",
    "short_sigma",
    "long_median_s",
    "long_sigma",
)
_UNCHECKED = ("outcome_tilt", "name")
_ABOVE_ZERO = ("days", "jobs_per_day", "tenants", "users_per_tenant", "sizes", "max_duration_s")
_SUM_ABOVE_ZERO = ("hour_profile", "weekday_profile", "size_share", "outcome_share")
_HIGHEST = {
    "days": 36_500.0,
    "start_weekday": DAYS_A_WEEK - 1.0,
    "tenants": 1e6,
    "users_per_tenant": 1e6,
    "day_memory": 1.0,
    "sweep_share": 1.0,
    "sweep_daily_share": 1.0,
    "short_share": 1.0,
    "model_share": 1.0,
    "fraction_share": 1.0,
}


def _check_range(name: str, value: Any) -> None:
    if name in _UNCHECKED:
        return
    values = value if isinstance(value, tuple) else (value,)
    low = 1e-9 if name in _ABOVE_ZERO else 0.0
    high = _HIGHEST.get(name, 1e9)
    if not all(low <= number <= high for number in values):
        allowed = f"{'above' if low else 'from'} 0 up to {high:g}"
        raise BadInput(f"generator setting {name} = {value} is out of range", f"use {allowed}")
    if name in _SUM_ABOVE_ZERO and not sum(values):
        raise BadInput(f"generator setting {name} is all 0", "give one of them some weight")


def preset(name: str) -> GeneratorSettings:
    """Return a shipped preset by its name."""
    shipped = _shipped()["preset"]
    if name not in shipped:
        raise UnknownName("generator preset", name, shipped)
    table = dict(shipped[name])
    base = table.pop("based_on", None)
    values = {key: _plain(entry["value"]) for key, entry in table.items()}
    if base is not None:
        return replace(preset(base["value"]), name=name, **values)
    return GeneratorSettings(name=name, **values)


def preset_names() -> list[str]:
    """Return the names of the shipped presets."""
    return sorted(_shipped()["preset"])


def sources(name: str) -> dict[str, str]:
    """Return where each number of a preset comes from."""
    if name not in _shipped()["preset"]:
        raise UnknownName("generator preset", name, preset_names())
    return {key: str(entry["source"]) for key, entry in _shipped()["preset"][name].items()}


def model_choices() -> tuple[ModelChoice, ...]:
    """Return the models that jobs of a workload with `model_share` may train."""
    return tuple(
        ModelChoice(choice["key"], choice["class"], tuple(choice["counts"]), choice["weight"])
        for choice in _shipped()["models"]["choices"]
    )


def class_memory_gib() -> tuple[tuple[float, float], ...]:
    """Return the memory range of each class, in the order of `JobClass`."""
    table = _shipped()["class_memory_gib"]
    return tuple((table[label][0], table[label][1]) for label in CLASS_LABELS)


@cache
def _shipped() -> dict[str, Any]:
    text = files("flyball").joinpath("data", "generator.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
