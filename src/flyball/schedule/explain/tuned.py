"""Explains why tuners changed a plan, with the predicted gain and its unit."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import ActionKind, Reason
from flyball.physics.catalogue import DEVICE
from flyball.schedule.explain.wording import counted, power_text

WORK = "reference devices"
"""Unit of work per second: devices of the reference type at full speed."""
DONE = "reference device-seconds"
SPEED = "devices' speed"
WATTS = "W"
DEVICES = "devices"
SECONDS = "s"
PER_KWH_LATER = "per kWh, less than now"
PER_KWH = "per kWh, below the mean of the coming day"

UNITS = {
    Reason.GREW: WORK,
    Reason.SHRANK: WORK,
    Reason.CHANGED_TYPE: WORK,
    Reason.SIZED: WORK,
    Reason.SHARED: WORK,
    Reason.PARTED: SPEED,
    Reason.CAPPED: WATTS,
    Reason.UNCAPPED: WATTS,
    Reason.SENT_TO_SLEEP: WATTS,
    Reason.WOKEN: WATTS,
    Reason.MOVED: DONE,
    Reason.SCALED: DEVICES,
    Reason.LET_IN: DONE,
    Reason.OVERDUE: WORK,
    Reason.YIELDED: WORK,
    Reason.RELEASED: PER_KWH,
    Reason.RATIONED: WATTS,
    Reason.OVER_BUDGET: WATTS,
    Reason.PAUSED: PER_KWH_LATER,
    Reason.OUTBID: WORK,
}
"""Unit of the predicted gain, by the tuners' reasons."""


def is_tuned(action: Any) -> bool:
    """Return whether the reason of an action comes from a tuner, not the policy."""
    return Reason(int(action.reason)) in UNITS


def gain_unit(action: Any) -> str:
    """Return the unit of an action's predicted gain."""
    return UNITS.get(Reason(int(action.reason)), SECONDS)


def tuned_text(action: Any, job: str, unit: str = DEVICE) -> str:
    """Explain why a tuner took an action; `job` and `unit` name its job and devices."""
    reason, gain = Reason(int(action.reason)), float(action.gain)
    if reason in (Reason.CAPPED, Reason.UNCAPPED, Reason.SENT_TO_SLEEP, Reason.WOKEN):
        return _power_text(reason, gain, job)
    if reason in (Reason.RELEASED, Reason.PAUSED, Reason.RATIONED, Reason.OVER_BUDGET):
        return _day_text(reason, gain, job)
    if reason == Reason.SCALED:
        return _replicas_text(int(action.level), gain, unit)
    aside = " once it finds a place" if action.kind == ActionKind.PREEMPT else ""
    worth = f"{abs(gain):.3g} {WORK}"
    return {
        Reason.GREW: f"{job} goes on with more {unit}s{aside}: they add {worth} more here than"
        " elsewhere",
        Reason.SHRANK: f"{job} goes on with fewer {unit}s{aside}: they add {worth} more elsewhere"
        " than here",
        Reason.CHANGED_TYPE: f"{job} goes on with another type of {unit}{aside}: the change adds"
        f" {worth}, net of what others lose by it",
        Reason.SIZED: f"{job} starts with another number of {unit}s than it asked for: with these"
        f" it does the work of {worth}",
        Reason.SHARED: f"{job} joins a job that leaves room on its {unit}{aside}: the two do the"
        f" work of {worth} more",
        Reason.PARTED: _parted_text(job, gain, unit),
        Reason.LET_IN: f"{job} starts on {unit}s that others were moved away from: that gains"
        f" {gain:,.0f} {DONE}, net of the moves",
        Reason.OVERDUE: f"{job} waited too long and comes before all others: there it does the work"
        f" of {worth}",
        Reason.YIELDED: f"{job} is set aside for a job that waited too long, which does the work of"
        f" {worth} there",
        Reason.OUTBID: f"{job} is set aside: its {unit}s are worth more to jobs that end sooner"
        " or do more with them",
        Reason.MOVED: f"{job} goes on elsewhere{aside}, so that a larger job fits: that gains"
        f" {gain:,.0f} {DONE}, net of the move",
    }[reason]


def _parted_text(job: str, gain: float, unit: str) -> str:
    """Explain that a pair is parted because it must be, whatever the cost, or because both gain."""
    if gain > 0:
        return f"{job} stops sharing its {unit}: apart the two gain {gain:.2g} of a {unit}'s speed"
    return (
        f"{job} stops sharing its {unit}: one of the two was slowed beyond its limit, though"
        f" together they did {1 - gain:.2g} times what one does alone"
    )


def _power_text(reason: Reason, gain: float, job: str) -> str:
    less = f"{power_text(abs(gain))} less"
    if reason == Reason.CAPPED:
        return f"{job} goes on under a power cap: it draws {less} than without"
    if reason == Reason.UNCAPPED and gain > 0:
        return f"{job} goes on under a weaker power cap: it needs the speed and still draws {less}"
    if reason == Reason.UNCAPPED:
        return f"{job} goes on without a power cap: it needs the speed"
    if reason == Reason.SENT_TO_SLEEP:
        return f"the node goes to sleep: no job is expected to need it soon, and it draws {less}"
    return (
        "the node wakes, or stays awake: it is expected to be needed soon, and draws"
        f" {power_text(abs(gain))} more"
    )


def _day_text(reason: Reason, gain: float, job: str) -> str:
    if reason == Reason.RELEASED:
        return (
            f"{job} is released: to wait longer is not expected to save more (a kWh costs"
            f" {gain:.3g} less now than on average over the coming day)"
        )
    if reason == Reason.PAUSED:
        return f"{job} is paused: its rest is expected to cost {gain:.3g} less per kWh later"
    if reason == Reason.RATIONED:
        return f"what is left of the day's budget allows a draw of {power_text(gain)} until its end"
    return (
        f"{job} is set aside: even under the strongest caps the running jobs would exceed the"
        f" day's budget, and without it they draw {power_text(abs(gain))} less"
    )


def _replicas_text(count: int, gain: float, unit: str) -> str:
    if count < 0:
        return "the service ends with the requests it has"
    moved = counted(round(abs(gain)), unit)
    what = f", which frees {moved}" if gain > 0 else f", which takes {moved} more" if gain else ""
    return f"the service goes on with {counted(count, 'replica')} for the requests expected{what}"
