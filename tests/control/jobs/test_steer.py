"""Ordered sizes, caps and checkpoints: what is recorded, sent to the engine, and survives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import START_US, Rig, env

from flyball.core.errors import BadInput, Conflict, NotFound, Unavailable
from flyball.core.jobs import JobState, Row
from flyball.core.live import Cap, Checkpoint, LiveNode, Resize

GPUS = (LiveNode("g", "V100", 4, 16, 8192, ("u0", "u1", "u2", "u3")),)


def started(rig: Rig, **asked: Any) -> int:
    job = rig.submit(**{"cpus": 2, "least": 1, "most": 4, "estimate_s": 100.0, **asked})
    rig.pass_s(1)
    return job


def test_shrink_and_grow(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    assert rig.plane.resize(job, 1) == {"id": job, "devices": 1}
    assert rig.job(job).rows == (Row(0, 1),)
    rig.plane.resize(job, 4)
    assert rig.job(job).rows == (Row(0, 15),)
    assert [order for order in rig.engine.steered if isinstance(order, Resize)] == [
        Resize(job, 1, 1, (Row(0, 1),)),
        Resize(job, 1, 2, (Row(0, 15),)),
    ]
    assert rig.verdict().differing == []


def test_what_is_freed_is_given_to_others(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig, cpus=4)
    other = rig.submit(cpus=3)
    rig.pass_s(1)
    assert rig.job(other).state == JobState.PENDING
    rig.plane.resize(job, 1)
    rig.settle()
    assert rig.job(other).rows == (Row(0, 14),)
    kinds = [type(action).__name__ for action in rig.engine.actions]
    assert kinds == ["Launch", "Resize", "Launch"], "room is made before it is used"
    with pytest.raises(Unavailable, match="0 of 4 are free"):
        rig.plane.resize(job, 2)
    assert rig.verdict().differing == []


def test_service_is_counted_by_size(tmp_path: Path) -> None:
    """10 s with two, 10 s with one, the rest with four."""
    rig = Rig(tmp_path)
    job = rig.submit(cpus=2, least=1, most=4, env=env(100))
    rig.pass_s(10)
    rig.plane.resize(job, 1)
    rig.pass_s(10)
    rig.plane.resize(job, 4)
    rig.finish()
    ended = rig.job(job)
    # 200 device-seconds in all: 20, 10, and what is left of them with four.
    assert ended.state == JobState.COMPLETED
    assert ended.service_us == pytest.approx(200e6, abs=10)
    assert ended.end_us - START_US == pytest.approx(62.5e6, abs=10)
    assert rig.plane.ask.receipt(job)["device_hours"] == pytest.approx(200 / 3600)


@pytest.mark.parametrize("devices", [0, 5])
def test_a_size_out_of_range(tmp_path: Path, devices: int) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    with pytest.raises(BadInput, match="its range is 1 to 4"):
        rig.plane.resize(job, devices)


def test_refusals(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rigid, done = rig.submit(), rig.submit(estimate_s=0.5)
    rig.pass_s(1)
    for call in (rig.plane.resize, rig.plane.cap):
        with pytest.raises(NotFound):
            call(99, 1)
    with pytest.raises(BadInput, match="rigid"):
        rig.plane.resize(rigid, 1)
    with pytest.raises(BadInput, match="is COMPLETED"):
        rig.plane.cap(done, 0.5)
    with pytest.raises(BadInput, match="from 5% to 100%"):
        rig.plane.cap(rigid, 0.01)
    waiting = rig.submit(cpus=4)
    rig.settle()
    with pytest.raises(BadInput, match="nothing to save"):
        rig.plane.checkpoint(waiting)
    wrong: list[dict[str, Any]] = [{"least": 2, "most": 4}, {"least": 1}, {"most": 2, "cpus": 3}]
    for asked in wrong:
        with pytest.raises(BadInput, match="elastic from"):
            rig.submit(**asked)


def test_a_job_that_waits_starts_with_its_new_size(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4)
    job = rig.submit(cpus=2, least=1, most=4)
    rig.settle()
    rig.plane.resize(job, 3)
    rig.pass_s(10)
    assert rig.job(job).rows == (Row(0, 7),)
    assert rig.verdict().differing == []


def test_accelerators_change_by_a_restart(tmp_path: Path) -> None:
    """A program cannot be shown other accelerators while it runs."""
    rig = Rig(tmp_path, nodes=GPUS)
    job = rig.submit(gpus=2, least=1, most=4, estimate_s=100.0)
    rig.pass_s(1)
    rig.plane.resize(job, 4)
    rig.pass_s(1)
    current = rig.job(job)
    assert (current.attempt, current.rows) == (2, (Row(0, 15),))
    assert rig.engine.stopped == [(job, 1, "preempt")]
    assert rig.verdict().differing == []


def test_a_cap_goes_with_the_job(tmp_path: Path) -> None:
    """Also to its next attempt, and the order is repeated after a restart."""
    rig = Rig(tmp_path)
    job = started(rig)
    assert rig.plane.cap(job, 0.5) == {"id": job, "share": 0.5}
    rig.settle()
    rows = rig.job(job).rows
    assert rig.engine.steered == [Cap(job, 1, 1, 0.5, rows)]
    rig.open()
    rig.settle()
    assert rig.engine.steered == [Cap(job, 1, 1, 0.5, rows)] * 2, "after a restart: again"
    rig.engine.lose((job, 1))
    rig.settle()
    assert rig.job(job).attempt == 2
    assert rig.engine.steered[-1] == Cap(job, 2, 1, 0.5, rows)
    assert rig.engine.attempts[job, 2].share == 0.5
    assert rig.verdict().differing == []


def test_a_size_survives_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    rig.plane.resize(job, 1)
    rig.open()
    rig.settle()
    assert rig.job(job).rows == (Row(0, 1),)
    assert rig.engine.steered[-1] == Resize(job, 1, 1, (Row(0, 1),))
    rig.engine.lose((job, 1))
    rig.settle()
    assert rig.job(job).rows == (Row(0, 1),), "it starts again with the size it had"
    assert len([order for order in rig.engine.steered if order.attempt == 2]) == 0
    assert rig.verdict().differing == []


def test_a_checkpoint_is_asked_for_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    assert rig.plane.checkpoint(job) == {"id": job}
    rig.settle()
    rig.plane.checkpoint(job)
    rig.settle()
    assert rig.engine.steered == [Checkpoint(job, 1, 1), Checkpoint(job, 1, 2)]
    rig.engine.lose((job, 1))
    rig.settle()
    assert len(rig.engine.steered) == 2, "of the attempt that ran, not of the next"


def test_a_key_orders_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    calls: list[Callable[[str], Any]] = [
        lambda key: rig.plane.resize(job, 1, key),
        lambda key: rig.plane.cap(job, 0.5, key),
        lambda key: rig.plane.checkpoint(job, key),
    ]
    for call in calls:
        before = len(rig.events())
        first = call(f"k{before}")
        rig.settle()
        once = len(rig.events())
        assert call(f"k{before}") == first
        rig.settle()
        assert len(rig.events()) == once > before
    rig.plane.resize(job, 2, "other")
    rig.plane.resize(job, 1)
    assert rig.plane.resize(job, 2, "other")["devices"] == 2
    assert rig.job(job).rows == (Row(0, 1),), "an old order that comes again changes nothing"
    with pytest.raises(Conflict):
        rig.plane.resize(job, 3, "other")


def test_a_key_answers_also_when_the_job_has_ended(tmp_path: Path) -> None:
    """A client that lost the answer asks again, perhaps later."""
    rig = Rig(tmp_path)
    job = started(rig)
    first = rig.plane.checkpoint(job, "once")
    rig.plane.cancel(job)
    rig.finish()
    assert rig.plane.checkpoint(job, "once") == first
    with pytest.raises(BadInput):
        rig.plane.checkpoint(job, "another")


def test_two_orders_at_once_with_one_key_are_not_taken_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    rig.plane.cap(job, 0.5, "k")
    rig.plane.resize(job, 1, "r")
    monkeypatch.setattr(rig.plane.journal, "answer", lambda key: None)  # both had looked before
    with pytest.raises(Conflict):
        rig.plane.cap(job, 0.7, "k")
    with pytest.raises(Conflict):
        rig.plane.resize(job, 2, "r")


def test_an_order_is_applied_once_however_late_its_caller_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    step = rig.plane.step
    monkeypatch.setattr(rig.plane, "step", lambda: (step(), step())[0])
    rig.plane.resize(job, 1)
    log = rig.plane.ask.view(rig.job(job))["tuning"]["log"]
    assert [(entry["before"], entry["after"]) for entry in log] == [(2, 1)]


def test_the_log_says_what_was_done(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    rig.plane.resize(job, 1, who="ada")
    rig.plane.cap(job, 0.8)
    rig.plane.checkpoint(job)
    view = rig.plane.ask.view(rig.job(job))
    assert view["elastic"] == [1, 4]
    tuning = view["tuning"]
    assert (tuning["devices"], tuning["share"]) == (1, 0.8)
    log = [(entry["what"], entry["before"], entry["after"]) for entry in tuning["log"]]
    assert log == [("resized", 2, 1), ("capped", 1.0, 0.8), ("checkpointed", None, None)]
    assert tuning["log"][0]["who"] == "ada"
    assert rig.plane.ask.view(rig.job(started(rig, cpus=1)))["tuning"] is None


def test_nothing_to_do_is_no_order(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = started(rig)
    before = len(rig.events())
    rig.plane.resize(job, 2)
    assert len(rig.events()) == before
