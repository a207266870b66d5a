"""Repeating recorded decisions detects tampering."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import START_US, Rig, env

from flyball.control.ask.bills import Prices
from flyball.control.decide.verify import Verifier
from flyball.core.events import Decided, event_of
from flyball.core.signals import DAY_US, HOUR_US, Signal

Events = list[tuple[int, Any]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """Run jobs of all sorts under a policy that preempts."""
    rig = Rig(tmp_path_factory.mktemp("verify"), "srtf", ("round_s=30", "margin_s=5"))
    rig.submit(cpus=4, estimate_s=300.0, user="ada")
    rig.settle()
    rig.submit(cpus=2, estimate_s=10.0, user="ben", memory_mib=100)
    rig.pass_s(90)
    rig.submit(cpus=1, estimate_s=20.0, env=env(5.0, code=1))
    rig.submit(cpus=1, after=(("afterok", 3),))
    rig.finish()
    rig.plane.close()
    rig.open()
    rig.submit(cpus=3)
    rig.finish()
    assert rig.job(1).preemptions == 1
    return rig.events()


def test_an_unchanged_journal_verifies(recorded: Events) -> None:
    verdict = Verifier().follow(recorded)
    assert verdict.differing == []
    decided = [event for _seq, event in recorded if isinstance(event, Decided)]
    assert verdict.decisions == len(decided) >= 5
    assert verdict.actions == sum(len(event.plan) for event in decided)


def test_it_may_be_read_in_pieces(recorded: Events) -> None:
    verifier = Verifier()
    for at in range(0, len(recorded), 3):
        verifier.follow(recorded[at : at + 3])
    assert verifier.verdict == Verifier().follow(recorded)


def tampered(recorded: Events, kind: str, change: Callable[[Any], object]) -> list[tuple[int, str]]:
    """Return what is noticed if the first event of a kind is changed."""
    records = [(seq, copy.deepcopy(event.as_dict())) for seq, event in recorded]
    change(next(record for _seq, record in records if record["kind"] == kind))
    events = [(seq, event_of(record)) for seq, record in records]
    return Verifier().follow(events).differing


def test_another_plan_is_noticed(recorded: Events) -> None:
    differing = tampered(recorded, "decided", lambda event: event["plan"][0].__setitem__(3, 1))
    assert differing == [(1, "its plan")]
    assert tampered(recorded, "decided", lambda event: event["plan"].clear()) == [(1, "its plan")]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("submitted", lambda event: event["spec"].update(priority=5.0)),
        ("submitted", lambda event: event["spec"].update(estimate_s=301.0)),
        ("submitted", lambda event: event.update(time_us=event["time_us"] - 1)),
        ("decided", lambda event: event.update(digest="0" * 32)),
        ("decided", lambda event: event.update(time_us=event["time_us"] + 1)),
        ("opened", lambda event: event["knobs"].update(margin_s=6.0)),
        ("opened", lambda event: event["nodes"][0].update(memory_mib=4096)),
        ("opened", lambda event: event.update(budget_w=1e6)),
    ],
)
def test_another_past_is_noticed(
    recorded: Events, kind: str, change: Callable[[Any], object]
) -> None:
    differing = tampered(recorded, kind, change)
    assert differing[0] == (1, "what it saw")


@pytest.mark.parametrize("kind", ["intended", "requeued", "ended"])
def test_an_event_left_out_is_noticed(recorded: Events, kind: str) -> None:
    at = next(at for at, (_seq, event) in enumerate(recorded) if event.kind == kind)
    assert Verifier().follow(recorded[:at] + recorded[at + 1 :]).differing


def test_nodes_that_were_down_are_up_for_the_next_control_plane(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.engine.take_down(0)
    rig.submit(cpus=2)
    rig.settle()
    assert rig.engine.launched == [], "its only node is down"
    rig.plane.close()
    rig.engine.bring_up(0)
    rig.open()
    rig.finish()
    assert rig.engine.launched == [(1, 1)]
    assert rig.verdict().differing == []


def test_price_and_carbon_are_inputs_of_a_decision(tmp_path: Path) -> None:
    tariff = Signal.profile([float(hour) for hour in range(24)], DAY_US)
    rig = Rig(tmp_path, "fifo", prices=Prices(0.0, tariff, "EUR", Signal.flat(250.0)))
    rig.submit(cpus=2, estimate_s=60.0)
    rig.finish()
    events = rig.events()
    decided = [event for _seq, event in events if isinstance(event, Decided)]
    hour = START_US // HOUR_US % 24
    assert decided[0].signals == {"price_per_kwh": float(hour), "carbon_g_per_kwh": 250.0}
    assert Verifier().follow(events).differing == []
    differing = tampered(events, "decided", lambda event: event["signals"].update(price_per_kwh=-1))
    assert differing == [(1, "what it saw")]
    assert rig.plane.ask.signals()["carbon_g_per_kwh"] == 250.0
    assert ("flyball_carbon_g_per_kwh", {}, 250.0) in rig.plane.ask.metrics()


def test_without_signals_a_decision_is_recorded_as_before(recorded: Events) -> None:
    decided = next(event for _seq, event in recorded if isinstance(event, Decided))
    assert "signals" not in decided.as_dict()
