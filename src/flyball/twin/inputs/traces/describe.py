"""Statistics of a workload: arrivals, durations, sizes, tenants, classes, load.

Every figure is a plain number in nested dictionaries, NaN where it has no meaning.
Hours and weekdays take time 0 as midnight at the start of `start_weekday`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Outcome
from flyball.core.units import (
    MIB_PER_GIB,
    MILLI_PER_DEVICE,
    S_PER_DAY,
    S_PER_HOUR,
    US_PER_S,
)
from flyball.core.workload import Floats, Ints, Workload
from flyball.twin.inputs.traces.class_mix import class_mix

LAGS_H = (1, 24, 168)
HOURS_A_DAY = 24
DAYS_A_WEEK = 7
SATURDAY = 5


def describe(workload: Workload, start_weekday: int = 0) -> dict[str, Any]:
    """Return statistics of a workload.

    Args:
        workload: at least one job.
        start_weekday: the weekday of time 0, Monday = 0.
    """
    device_s = device_seconds(workload)
    span_s = workload.span_us / US_PER_S
    return {
        "name": workload.name,
        "jobs": len(workload),
        "span_s": span_s,
        "jobs_per_day": len(workload) / span_s * S_PER_DAY if span_s else np.nan,
        "arrivals": _arrivals(workload, start_weekday),
        "durations": _durations(workload),
        "gpus": _sizes(workload, device_s),
        "concentration": {
            "top_1_percent": _top_share(device_s, 0.01),
            "top_10_percent": _top_share(device_s, 0.10),
        },
        "tenants": _owners(workload.tenant, workload.tenants, device_s),
        "users": _owners(workload.user, workload.users, device_s),
        "classes": class_mix(workload, device_s),
        "models": _mix(workload.model, workload.models, device_s),
        "outcomes": _mix(workload.outcome, [outcome.name.lower() for outcome in Outcome], device_s),
        "memory_gib": _quantiles(workload.memory_mib[workload.memory_mib > 0] / MIB_PER_GIB),
        "load_devices": float(device_s.sum() / span_s) if span_s else np.nan,
        "fields": _fields(workload),
    }


def device_seconds(workload: Workload) -> Floats:
    """Return the device time of each job: devices x share of each x duration."""
    share = workload.milli / MILLI_PER_DEVICE
    used: Floats = workload.devices * share * workload.duration_us / US_PER_S
    return used


def hourly_counts(workload: Workload) -> Ints:
    """Count submissions in each hour from the first to the last, hours of the trace's clock."""
    hours = (workload.submit_us // int(S_PER_HOUR * US_PER_S)).astype(np.int64)
    return np.bincount(hours - hours[0]) if len(hours) else np.zeros(0, np.int64)


def dispersion(counts: Ints | Floats) -> float:
    """Return variance over mean; 1 for a Poisson process of constant rate."""
    return float(counts.var() / counts.mean()) if len(counts) else np.nan


def autocorrelation(counts: Ints | Floats, lag: int) -> float:
    """Return how well a count predicts the count `lag` later, -1 to 1."""
    off = counts - counts.mean()
    power = float((off * off).sum())
    return float((off[:-lag] * off[lag:]).sum() / power) if lag < len(off) and power else np.nan


def _arrivals(workload: Workload, start_weekday: int) -> dict[str, Any]:
    gaps_s = np.diff(workload.submit_us) / US_PER_S
    counts = hourly_counts(workload)
    return {
        "gap_s": _quantiles(gaps_s),
        "gap_cv": float(gaps_s.std() / gaps_s.mean()) if gaps_s.any() else np.nan,
        "hourly": {
            **_quantiles(counts),
            "mean": float(counts.mean()),
            "max": int(counts.max()),
            "dispersion": dispersion(counts),
            "autocorrelation": {f"{lag}_h": autocorrelation(counts, lag) for lag in LAGS_H},
        },
        **_calendar(workload, start_weekday),
    }


def _calendar(workload: Workload, start_weekday: int) -> dict[str, Any]:
    """Return mean jobs by hour of day and by weekday, over the whole days the trace touches."""
    hours = (workload.submit_us // int(S_PER_HOUR * US_PER_S)).astype(np.int64)
    days = hours // HOURS_A_DAY
    first, last = int(days[0]), int(days[-1])
    by_hour = np.bincount(hours % HOURS_A_DAY, minlength=HOURS_A_DAY) / (last - first + 1)
    weekdays = (np.arange(first, last + 1) + start_weekday) % DAYS_A_WEEK
    by_day = np.bincount(days - first, minlength=last - first + 1)
    weekday, weekend = by_day[weekdays < SATURDAY], by_day[weekdays >= SATURDAY]
    smooth = (np.roll(by_hour, 1) + by_hour + np.roll(by_hour, -1)) / 3
    return {
        "by_hour": by_hour.tolist(),
        "by_weekday": [
            float(by_day[weekdays == day].mean()) if (weekdays == day).any() else np.nan
            for day in range(DAYS_A_WEEK)
        ],
        "peak_over_trough": float(smooth.max() / smooth.min()) if smooth.min() else np.nan,
        "weekday_over_weekend": (
            float(weekday.mean() / weekend.mean()) if len(weekday) and weekend.any() else np.nan
        ),
    }


def _durations(workload: Workload) -> dict[str, Any]:
    seconds = workload.duration_us / US_PER_S
    logs = np.log(np.maximum(seconds, 1.0))
    return {
        **_quantiles(seconds),
        "mean": float(seconds.mean()),
        "max": float(seconds.max()),
        "log_normal": {"mu": float(logs.mean()), "sigma": float(logs.std())},
    }


def _sizes(workload: Workload, device_s: Floats) -> dict[str, Any]:
    total = float(device_s.sum())
    sizes, place = np.unique(workload.devices, return_inverse=True)
    jobs = np.bincount(place) / len(workload)
    time = np.bincount(place, weights=device_s) / total if total else jobs * np.nan
    return {
        str(size): {
            "jobs": float(jobs[i]),
            "device_time": float(time[i]),
            "median_s": float(np.median(workload.duration_us[place == i]) / US_PER_S),
        }
        for i, size in enumerate(sizes.tolist())
    }


def _top_share(device_s: Floats, share: float) -> float:
    """Return the share of all device time that the largest jobs take."""
    largest = np.sort(device_s)[::-1][: max(1, int(len(device_s) * share))]
    return float(largest.sum() / device_s.sum()) if device_s.any() else np.nan


def _owners(
    codes: Ints, names: tuple[str, ...], device_s: Floats, shown: int = 5
) -> dict[str, Any]:
    """Return the tenants or users with the most jobs."""
    mix = _mix(codes, names, device_s)
    ranked = sorted(mix.items(), key=lambda item: -item[1]["jobs"])
    return {
        "count": len(ranked),
        "top": dict(ranked[:shown]),
        "top_1": sum(share["jobs"] for _, share in ranked[:1]) if ranked else np.nan,
        "top_4": sum(share["jobs"] for _, share in ranked[:4]) if ranked else np.nan,
    }


def _mix(codes: Ints, names: Any, device_s: Floats) -> dict[str, dict[str, float]]:
    """Return shares of jobs and of device time by name; names without a job are left out."""
    stated = codes >= 0
    jobs = np.bincount(codes[stated], minlength=len(names)) / max(1, len(codes))
    time = np.bincount(codes[stated], weights=device_s[stated], minlength=len(names))
    total = max(float(device_s.sum()), 1e-300)
    return {
        name: {"jobs": float(jobs[i]), "device_time": float(time[i] / total)}
        for i, name in enumerate(names)
        if jobs[i]
    }


def _quantiles(values: Ints | Floats) -> dict[str, float]:
    if not len(values):
        return {"p50": np.nan, "p90": np.nan, "p99": np.nan}
    marks = np.percentile(values, [50, 90, 99])
    return {"p50": float(marks[0]), "p90": float(marks[1]), "p99": float(marks[2])}


def _fields(workload: Workload) -> list[str]:
    """Return which optional facts at least one job states."""
    w = workload
    stated = {
        "model": (w.model >= 0).any(),
        "class": (w.kind >= 0).any(),
        "device": (w.device >= 0).any(),
        "tenant": (w.tenant >= 0).any(),
        "user": (w.user >= 0).any(),
        "memory": (w.memory_mib > 0).any(),
        "priority": (w.priority != 0).any(),
        "estimate": (~np.isnan(w.estimate_us)).any(),
        "limit": (w.limit_us > 0).any(),
        "fraction": (w.milli < MILLI_PER_DEVICE).any(),
        "array": (w.group >= 0).any(),
        "after": len(w.after_job) > 0,
        "outcome": (w.outcome != Outcome.COMPLETED).any(),
    }
    return [name for name, present in stated.items() if present]
