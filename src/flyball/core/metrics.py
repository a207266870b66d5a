"""Metrics: one definition each, over the `Results` of a run.

Jobs that never ended count in no time metric. Where there is nothing to measure (no job,
an empty window) a metric is NaN, and `Summary.as_dict` turns that into None.

*The window* is 10-100 % of the arrival span: it leaves out the warm-up, and the drain after the
last arrival, where utilisation depends on the last few jobs and not on the policy.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Status
from flyball.core.results import Floats, Ints, Results
from flyball.core.units import (
    J_PER_KWH,
    MILLI_PER_DEVICE,
    S_PER_HOUR,
    US_PER_S,
    duration_text,
)

US_PER_HOUR = US_PER_S * S_PER_HOUR
WINDOW_BEGINS = 0.1
"""Start of the window, as a share of the arrival span; it ends with the last arrival."""

SLOWDOWN_BOUND_S = 10.0
"""Shorter jobs count as this long, or a 1 s job that waits 100 s would dominate the tail."""


@dataclass(frozen=True)
class Spread:
    """Mean and percentiles of a distribution."""

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        if not len(values):
            return cls(math.nan, math.nan, math.nan, math.nan)
        p50, p95, p99 = np.percentile(values, (50, 95, 99))
        return cls(float(values.mean()), float(p50), float(p95), float(p99))


@dataclass(frozen=True)
class Summary:
    """All metrics of a run.

    Attributes:
        jobs: number of jobs in the workload.
        completion_s: from submission to end.
        wait_s: of that, the time without devices that are awake (see `waits_s`).
        slowdown_p95: completion over run time alone on the fastest pool (see `slowdowns`).
        makespan_s: from the first submission to the last end.
        work_per_window: reference device-hours of work done in the window.
        jobs_per_window: jobs that ended in the window.
        utilisation: share of all devices' time in the window that was in use.
        energy_kwh: all nodes over the whole run, idle and host included.
        energy_per_work: kWh of all nodes per reference device-hour, both in the window.
        peak_power_kw: the highest draw of the cluster.
        cost: idle plus delay, in device-hours (see `cost_device_h`).
        balance: dispersion of the nodes' busy fractions (see `balance`); 0 = even.
        preemptions: total number.
        lost_work: device-hours of progress that was lost and done again.
        fairness_jain: see `fairness_jain`; 1 = all tenants are slowed alike.
        finish_fairness_p95: see `finish_time_fairness`; at most 1 = no worse off than with an
            equal share.
        events: arrivals, starts, ends, preemptions, failures and repairs.
        money: what the energy of all nodes cost over the whole run, in the cluster's currency, by
            the price at the time; None = the cluster has no price.
        money_per_work: money of all nodes per reference device-hour, both in the window.
        carbon_g: grams of CO2 of that energy, by the carbon intensity at the time; None likewise.
        carbon_g_per_work: grams of CO2 per reference device-hour, both in the window.
        moves: preemptions after which the job went on elsewhere at once.
        most_preemptions: of any one job.
    """

    jobs: int
    completion_s: Spread
    wait_s: Spread
    slowdown_p95: float
    makespan_s: float
    work_per_window: float
    jobs_per_window: int
    utilisation: float
    energy_kwh: float
    energy_per_work: float
    peak_power_kw: float
    cost: float
    balance: float
    preemptions: int
    lost_work: float
    fairness_jain: float
    finish_fairness_p95: float
    events: int
    money: float | None = None
    money_per_work: float | None = None
    carbon_g: float | None = None
    carbon_g_per_work: float | None = None
    moves: int = 0
    most_preemptions: int = 0

    def __repr__(self) -> str:
        done, wait = duration_text(self.completion_s.mean), duration_text(self.wait_s.mean)
        use = f"{100 * self.utilisation:.1f} % in use, {self.energy_kwh:,.4g} kWh"
        return f"Summary({self.jobs:,} jobs: mean completion {done}, mean wait {wait}; {use})"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        plain: dict[str, Any] = without_nan(asdict(self))
        return plain


def summarise(results: Results) -> Summary:
    """Return every metric of a run."""
    return Summary(
        jobs=len(results.submit_us),
        completion_s=Spread.of(completions_s(results)),
        wait_s=Spread.of(waits_s(results)),
        slowdown_p95=Spread.of(slowdowns(results)).p95,
        makespan_s=makespan_s(results),
        work_per_window=work_per_window(results),
        jobs_per_window=results.window[1].finished - results.window[0].finished,
        utilisation=utilisation(results),
        energy_kwh=float(results.node_energy_j.sum()) / J_PER_KWH,
        energy_per_work=energy_per_work(results),
        peak_power_kw=results.peak_power_w / 1000.0,
        cost=cost_device_h(results),
        balance=balance(results),
        preemptions=int(results.preemptions.sum()),
        lost_work=lost_device_h(results),
        fairness_jain=fairness_jain(results),
        finish_fairness_p95=Spread.of(finish_time_fairness(results)).p95,
        events=results.events,
        money=_total(results.node_money),
        money_per_work=money_per_work(results),
        carbon_g=_total(results.node_carbon_g),
        carbon_g_per_work=carbon_g_per_work(results),
        moves=int(results.moves.sum()),
        most_preemptions=int(results.preemptions.max(initial=0)),
    )


# Per job ------------------------------------------------------------------------


def ended(results: Results) -> npt.NDArray[np.bool_]:
    """Return a mask of the jobs that ended, done or killed at their limit."""
    return results.status >= Status.DONE


def shares(results: Results) -> Floats:
    """Return the devices each job holds while it runs, with fractions of a device."""
    return results.devices * (results.milli / MILLI_PER_DEVICE)


def completions_s(results: Results) -> Floats:
    """Return the time from submission to end of the jobs that ended."""
    done = ended(results)
    return (results.end_us - results.submit_us)[done] / US_PER_S


def waits_s(results: Results) -> Floats:
    """Return the time between submission and end without awake devices, of the jobs that ended.

    For a job that was never preempted this is its start less its submission; for others it
    includes the waits after a preemption or a failure. Time held back by a predecessor or an
    array's limit counts, because the user waits then too; so does the time that its node takes
    to wake. Of a job without devices only the wait before its first start is known.
    """
    done = ended(results)
    asked, alone_us = shares(results)[done], (results.end_us - results.first_start_us)[done]
    held_us = results.service_us[done] / np.where(asked > 0, asked, 1.0)
    running_us = np.where(asked > 0, held_us, alone_us.astype(np.float64))
    running_us -= results.waking_us[done]
    waited_us = (results.end_us - results.submit_us)[done] - running_us
    waited_s: Floats = np.maximum(0.0, np.rint(waited_us)) / US_PER_S
    return waited_s


def slowdowns(results: Results) -> Floats:
    """Return the bounded slowdown of jobs that ended: completion / max(solo, 10 s), at least 1."""
    solo_s = results.solo_us[ended(results)] / US_PER_S
    return np.maximum(1.0, completions_s(results) / np.maximum(solo_s, SLOWDOWN_BOUND_S))


def finish_time_fairness(results: Results) -> Floats:
    """Return, per ended job, its completion time over that with an equal share of the cluster.

    While a job was in the system there were on average n jobs, so its equal share was D/n
    of the D devices. Asking for g it would have taken solo x max(1, g n / D).
    At most 1: it was no worse off than with its share.
    """
    done = ended(results)
    submit, end = results.submit_us[done], results.end_us[done]
    devices = int(results.node_capacity.sum())
    life_us = np.maximum(1, end - submit)
    if not len(submit) or not devices:
        return np.zeros(0)
    present = _present_until(submit, end, end) - _present_until(submit, end, submit)
    crowd = shares(results)[done] * (present / life_us) / devices
    ideal_us = results.solo_us[done] * np.maximum(1.0, crowd)
    rho: Floats = life_us / np.maximum(1.0, ideal_us)
    return rho


def _present_until(submit: Ints, end: Ints, at: Ints) -> Floats:
    """Return the number of jobs present, integrated over time up to each instant of `at`."""
    total: Floats = np.zeros(len(at))
    for instants, sign in ((np.sort(submit), 1.0), (np.sort(end), -1.0)):
        before = np.searchsorted(instants, at, side="right")
        sums = np.concatenate(([0.0], np.cumsum(instants - instants[0], dtype=np.float64)))
        total += sign * (before * (at - instants[0]).astype(np.float64) - sums[before])
    return total


# In all -------------------------------------------------------------------------


def makespan_s(results: Results) -> float:
    """Return the time from the first submission to the last event."""
    return (results.stop_us - results.start_us) / US_PER_S


def work_per_window(results: Results) -> float:
    """Return the throughput: reference device-hours of work done in the window.

    Running jobs count by the fraction done; overhead and lost work do not count.
    """
    return (results.window[1].work_us - results.window[0].work_us) / US_PER_HOUR


def energy_per_work(results: Results) -> float:
    """Return the kWh of all nodes per reference device-hour of work, both in the window."""
    energy_kwh = (results.window[1].energy_j - results.window[0].energy_j) / J_PER_KWH
    return _ratio(energy_kwh, work_per_window(results))


def money_per_work(results: Results) -> float | None:
    """Return the money of all nodes per reference device-hour of work, both in the window."""
    first, last = (mark.money for mark in results.window)
    return _billed_per_work(first, last, results)


def carbon_g_per_work(results: Results) -> float | None:
    """Return the grams of CO2 of all nodes per reference device-hour, both in the window."""
    first, last = (mark.carbon_g for mark in results.window)
    return _billed_per_work(first, last, results)


def _billed_per_work(first: float | None, last: float | None, results: Results) -> float | None:
    if first is None or last is None:
        return None
    return _ratio(last - first, work_per_window(results))


def utilisation(results: Results) -> float:
    """Return device time in use / (devices x window)."""
    first, last = results.window
    offered_us = float(results.node_capacity.sum()) * (last.time_us - first.time_us)
    return _ratio(last.busy_us - first.busy_us, offered_us)


def cost_device_h(results: Results, idle_weight: float = 1.0, delay_weight: float = 1.0) -> float:
    """Return idle cost plus delay cost, both in device-hours.

    Args:
        results: of a run.
        idle_weight: price of an hour of an idle device, from the first submission to the end.
        delay_weight: price of an hour that a job waits, per device it asks for.
    """
    offered_us = float(results.node_capacity.sum()) * (results.stop_us - results.start_us)
    idle_h = (offered_us - float(results.node_busy_us.sum())) / US_PER_HOUR
    delay_h = float(np.sum(waits_s(results) * shares(results)[ended(results)])) / S_PER_HOUR
    return idle_weight * idle_h + delay_weight * delay_h


def balance(results: Results) -> float:
    """Return the coefficient of variation of the nodes' busy fractions over the run; 0 = even."""
    span_us = results.stop_us - results.start_us
    if not span_us or not len(results.node_capacity):
        return math.nan
    busy = results.node_busy_us / (results.node_capacity * float(span_us))
    return _ratio(float(busy.std()), float(busy.mean()))


def lost_device_h(results: Results) -> float:
    """Return the progress lost to checkpoints and failures, in hours of the jobs' devices."""
    return float(np.sum(results.lost_us * shares(results))) / US_PER_HOUR


def fairness_jain(results: Results) -> float:
    """Return Jain's index of the tenants' mean speed-up solo / completion, in (0, 1]; 1 = alike.

    With fewer than two tenants it is taken over the jobs.
    """
    done = ended(results)
    life_us = (results.end_us - results.submit_us)[done].astype(np.float64)
    solo_us = results.solo_us[done]
    speed = np.divide(solo_us, life_us, out=np.ones_like(life_us), where=life_us > 0)
    names, place = np.unique(results.tenant[done], return_inverse=True)
    if len(names) > 1:
        speed = np.bincount(place, weights=speed) / np.bincount(place)
    return jain(speed)


def jain(values: Floats) -> float:
    """Return Jain's fairness index: (sum x)^2 / (n sum x^2)."""
    return _ratio(float(values.sum()) ** 2, len(values) * float(np.square(values).sum()))


def _total(values: Floats | None) -> float | None:
    return None if values is None else float(values.sum())


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def without_nan(value: Any) -> Any:
    """Return a copy with None for NaN and infinities at every level, so that JSON can hold it."""
    if isinstance(value, dict):
        return {key: without_nan(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
