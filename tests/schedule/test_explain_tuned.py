"""Reasons of tuners as sentences, with the gain and its unit."""

from __future__ import annotations

import pytest

from flyball.core.codes import ActionKind, Reason
from flyball.core.records import ACTION, records
from flyball.schedule.explain import Names, gain_unit, is_tuned, reason_text


@pytest.mark.parametrize(
    ("reason", "gain", "text", "unit"),
    [
        (
            Reason.GREW, 0.84,
            "J1 goes on with more devices: they add 0.84 reference devices more here than"
            " elsewhere.",
            "reference devices",
        ),
        (
            Reason.SHRANK, 1.5,
            "J1 goes on with fewer devices: they add 1.5 reference devices more elsewhere"
            " than here.",
            "reference devices",
        ),
        (
            Reason.CHANGED_TYPE, 2.25,
            "J1 goes on with another type of device: the change adds 2.25 reference devices, net of"
            " what others lose by it.",
            "reference devices",
        ),
        (
            Reason.SIZED, 3.0,
            "J1 starts with another number of devices than it asked for: with these it does the"
            " work of 3 reference devices.",
            "reference devices",
        ),
        (
            Reason.SHARED, 0.31,
            "J1 joins a job that leaves room on its device: the two do the work of 0.31 reference"
            " devices more.",
            "reference devices",
        ),
        (
            Reason.PARTED, 0.4,
            "J1 stops sharing its device: apart the two gain 0.4 of a device's speed.",
            "devices' speed",
        ),
        (
            Reason.PARTED, -0.3,
            "J1 stops sharing its device: one of the two was slowed beyond its limit, though"
            " together they did 1.3 times what one does alone.",
            "devices' speed",
        ),
        (
            Reason.CAPPED, 55.2,
            "J1 goes on under a power cap: it draws 55 W less than without.",
            "W",
        ),
        (
            Reason.UNCAPPED, 20.0,
            "J1 goes on under a weaker power cap: it needs the speed and still draws 20 W less.",
            "W",
        ),
        (Reason.UNCAPPED, 0.0, "J1 goes on without a power cap: it needs the speed.", "W"),
        (
            Reason.SENT_TO_SLEEP, 1465.0,
            "The node goes to sleep: no job is expected to need it soon, and it draws 1.47 kW"
            " less.",
            "W",
        ),
        (
            Reason.WOKEN, -261.0,
            "The node wakes, or stays awake: it is expected to be needed soon, and draws 261 W"
            " more.",
            "W",
        ),
        (
            Reason.MOVED, 12_345.6,
            "J1 goes on elsewhere, so that a larger job fits: that gains 12,346 reference"
            " device-seconds, net of the move.",
            "reference device-seconds",
        ),
        (
            Reason.LET_IN, 12_345.6,
            "J1 starts on devices that others were moved away from: that gains 12,346 reference"
            " device-seconds, net of the moves.",
            "reference device-seconds",
        ),
        (
            Reason.OVERDUE, 2.5,
            "J1 waited too long and comes before all others: there it does the work of 2.5"
            " reference devices.",
            "reference devices",
        ),
        (
            Reason.YIELDED, 2.5,
            "J1 is set aside for a job that waited too long, which does the work of 2.5 reference"
            " devices there.",
            "reference devices",
        ),
        (
            Reason.SCALED, 2.0,
            "The service goes on with 3 replicas for the requests expected, which frees 2 devices.",
            "devices",
        ),
        (
            Reason.SCALED, -1.0,
            "The service goes on with 3 replicas for the requests expected, which takes 1"
            " device more.",
            "devices",
        ),
    ],
)  # fmt: skip
def test_reasons_of_tuners(reason: Reason, gain: float, text: str, unit: str) -> None:
    action = records(1, ACTION)[0]
    on_node = reason in (Reason.SENT_TO_SLEEP, Reason.WOKEN)
    action.kind, action.job, action.level = ActionKind.START, -1 if on_node else 1, 3
    action.reason, action.gain = reason, gain
    assert is_tuned(action)
    assert reason_text(action, Names(["j0", "j1"])) == text
    assert gain_unit(action) == unit


def test_a_job_set_aside_by_a_tuner_goes_on_later() -> None:
    action = records(1, ACTION)[0]
    action.kind, action.reason, action.gain = ActionKind.PREEMPT, Reason.GREW, 1.0
    assert "more devices once it finds a place:" in reason_text(action)
    action.kind, action.level, action.reason = ActionKind.REPLICAS, -1, Reason.SCALED
    assert reason_text(action) == "The service ends with the requests it has."


def test_every_reason_of_a_tuner_has_a_unit_and_others_have_seconds() -> None:
    action = records(1, ACTION)[0]
    for reason in Reason:
        action.reason = reason
        by_tuner = reason >= Reason.GREW and reason != Reason.MOVED_UP
        assert is_tuned(action) == by_tuner
        assert (gain_unit(action) == "s") == (not by_tuner)
