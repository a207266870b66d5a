"""Rounds of tuners on a live cluster: what they see, what is done, and that it replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import Rig

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.events import Stopping
from flyball.core.jobs import JobState, Row
from flyball.core.live import Cap, LiveNode
from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State

Line = tuple[ActionKind, int, int, int, Reason, int]
"""Kind, job, node, mask, reason, level."""
GPUS = (LiveNode("g", "V100", 4, 16, 8192, ("u0", "u1", "u2", "u3")),)


class Says:
    """A tuner whose actions a function of the state returns."""

    def __init__(self, say: Callable[[State], Sequence[Line]]) -> None:
        self.say = say
        self.given: list[Outlook] = []

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        self.given.append(outlook)
        lines = self.say(state)
        actions = records(len(lines), ACTION)
        for row, (kind, job, node, mask, reason, level) in zip(actions, lines, strict=True):
            row.kind, row.job, row.node, row.mask = kind, job, node, mask
            row.milli, row.reason, row.level, row.gain = 1000, reason, level, 1.5
        return np.concatenate([plan, actions]).view(np.recarray)


def running(state: State) -> list[int]:
    return np.flatnonzero(state.runs.status == Status.RUNNING).tolist()


def to_size(mask: int, reason: Reason = Reason.SHRANK) -> Says:
    """Every running job is to have these devices."""
    return Says(
        lambda state: [
            line
            for job in running(state)
            if state.rows[state.runs[job].first_row].mask != mask
            for line in (
                (ActionKind.PREEMPT, job, -1, 0, reason, 0),
                (ActionKind.START, job, 0, mask, reason, 0),
            )
        ]
    )


def capped(level: int) -> Says:
    return Says(
        lambda state: [(ActionKind.CAP, job, -1, 0, Reason.CAPPED, level) for job in running(state)]
    )


def rig_with(folder: Path, tuner: Any, **more: Any) -> Rig:
    return Rig(folder, tuners={"mine": tuner}, **more)


def elastic(rig: Rig, **asked: Any) -> int:
    return rig.submit(**{"cpus": 2, "least": 1, "most": 4, "estimate_s": 500.0, **asked})


def test_a_round_resizes_and_replays(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, to_size(0b1))
    job = elastic(rig)
    rig.pass_s(1)
    assert rig.job(job).rows == (Row(0, 3),), "the policy's own start is left alone for a round"
    rig.pass_s(60)
    current = rig.job(job)
    assert (current.rows, current.attempt) == ((Row(0, 1),), 1)
    entry = current.values["tuned"]["log"][0]
    assert (entry["reason"], entry["gain"], entry["who"]) == ("shrank", 1.5, "tuner")
    rig.pass_s(120)
    assert len(rig.job(job).values["tuned"]["log"]) >= 1
    verdict = rig.verdict()
    assert verdict.decisions > 2
    assert verdict.differing == []


def test_a_cap_of_a_round(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, capped(4))
    job = elastic(rig)
    rig.pass_s(61)
    assert rig.job(job).values["tuned"]["share"] == 0.8
    assert rig.engine.steered == [Cap(job, 1, 1, 0.8, (Row(0, 3),))]
    rig.pass_s(180)
    assert len(rig.engine.steered) == 1, "what is so already is not said again"
    assert rig.verdict().differing == []


def test_no_device_is_given_twice(tmp_path: Path) -> None:
    """A tuner that wants all jobs on the same devices gets its way with none."""
    rig = rig_with(tmp_path, to_size(0b1110))
    jobs = [elastic(rig), elastic(rig)]
    rig.pass_s(200)
    rows = [rig.job(job_id).rows for job_id in jobs]
    assert rows == [(Row(0, 3),), (Row(0, 12),)]
    assert rig.verdict().differing == []


def test_room_made_by_one_job_goes_to_another(tmp_path: Path) -> None:
    def swap(state: State) -> list[Line]:
        first, second = running(state)
        want = {second: 0b1110, first: 0b0001}
        stops = [(ActionKind.PREEMPT, job_id, -1, 0, Reason.GREW, 0) for job_id in want]
        starts = [
            (ActionKind.START, job_id, 0, mask, Reason.GREW, 0) for job_id, mask in want.items()
        ]
        return stops + starts

    rig = rig_with(tmp_path, Says(lambda s: swap(s) if len(running(s)) == 2 else []))
    jobs = [elastic(rig), elastic(rig)]
    rig.pass_s(61)
    assert [rig.job(job_id).rows for job_id in jobs] == [(Row(0, 1),), (Row(0, 14),)]
    assert rig.verdict().differing == []


def test_a_rigid_job_keeps_its_size(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, to_size(0b1))
    job = rig.submit(cpus=2, estimate_s=500.0)
    rig.pass_s(200)
    assert rig.job(job).rows == (Row(0, 3),)
    assert "tuned" not in rig.job(job).values


def test_accelerators_restart_with_their_size(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, to_size(0b1111, Reason.GREW), nodes=GPUS)
    job = elastic(rig, gpus=2)
    rig.pass_s(62)
    current = rig.job(job)
    assert (current.attempt, current.rows) == (2, (Row(0, 15),))
    assert rig.verdict().differing == []


def test_a_move_goes_where_it_was_meant_to(tmp_path: Path) -> None:
    """The policy would put it on the lowest devices that are free."""
    rig = rig_with(tmp_path, to_size(0b1110, Reason.MOVED), nodes=GPUS)
    job = elastic(rig, gpus=2)
    rig.pass_s(62)
    assert (rig.job(job).attempt, rig.job(job).rows) == (2, (Row(0, 14),))
    rig.pass_s(120)
    assert rig.job(job).attempt == 2, "it is there: nothing is left to do"
    rig.engine.lose((job, 2))
    rig.pass_s(1)
    assert rig.job(job).rows == (Row(0, 7),), "wherever it fits, the next time"
    assert rig.verdict().differing == []


def test_a_tuner_may_start_what_waits(tmp_path: Path) -> None:
    """Smaller than it asked to be."""

    def start(state: State) -> list[Line]:
        waiting = np.flatnonzero(state.runs.status == Status.PENDING).tolist()
        return [(ActionKind.START, job, 0, 0b1000, Reason.SIZED, 0) for job in waiting]

    rig = rig_with(tmp_path, Says(start))
    rig.submit(cpus=3, estimate_s=500.0)
    job = elastic(rig)
    rig.pass_s(61)
    assert rig.job(job).rows == (Row(0, 8),)
    assert rig.job(job).values["tuned"]["devices"] == 1
    assert rig.verdict().differing == []


def test_a_broken_tuner_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(state: State) -> list[Line]:
        raise ZeroDivisionError

    rig = rig_with(tmp_path, Says(fail))
    job = rig.submit(estimate_s=100.0)
    rig.finish()
    assert rig.job(job).state == JobState.COMPLETED
    assert "tuner mine failed" in caplog.text


def test_the_forecast_is_on_record(tmp_path: Path) -> None:
    tuner = capped(2)
    rig = rig_with(tmp_path, tuner)
    quantiles = [[1.0, 1.0, 1.0], [2.0, 2.25, 2.5], [3.0, 3.5, 4.0]]
    load = {"levels": [0.05, 0.5, 0.95], "quantiles": quantiles, "mean": [2.0, 2.2, 2.4]}
    rig.plane.worker_process(("true",))
    rig.plane.worker.receive({"outlook": {"load": {**load, "step_s": 60.0}}})
    elastic(rig)
    rig.pass_s(61)
    assert tuner.given[-1].load is not None
    assert tuner.given[-1].load.quantiles.tolist() == quantiles
    tuner.given.clear()
    assert rig.verdict().differing == []
    assert tuner.given[-1].load is not None
    assert tuner.given[-1].load.quantiles.tolist() == quantiles


def test_what_the_engine_cannot_do_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = rig_with(
        tmp_path, Says(lambda state: [(ActionKind.SLEEP, -1, 0, 0, Reason.SENT_TO_SLEEP, 0)])
    )
    rig.submit(estimate_s=400.0)
    rig.pass_s(200)
    assert caplog.text.count("not put to sleep") == 1
    assert [text.partition(":")[0] for text in rig.plane.ask.forecast()["left_out"]] == [
        "nodes are not put to sleep"
    ]
    assert rig.verdict().differing == []


def test_a_forecast_that_is_switched_off_reaches_no_tuner(tmp_path: Path) -> None:
    tuner = capped(2)
    rig = rig_with(tmp_path, tuner)
    rig.plane.decider.tuning.forecast = False
    rig.plane.decider.outlook = Outlook(load=Forecast((0.5,), np.ones((1, 2)), np.ones(2), 60.0))
    elastic(rig)
    rig.pass_s(61)
    assert {outlook.load for outlook in tuner.given} == {None}


def test_another_tuner_is_noticed(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, capped(4))
    elastic(rig)
    rig.pass_s(130)
    rig.tuners["mine"] = capped(5)
    differing = rig.verdict().differing
    assert differing and {what for _number, what in differing} == {"what tuners made of it"}


def test_no_tuning_while_devices_change_hands(tmp_path: Path) -> None:
    tuner = capped(1)
    rig = rig_with(tmp_path, tuner, nodes=GPUS)
    job = elastic(rig, gpus=2)
    rig.pass_s(1)
    asked = len(tuner.given)
    rig.engine.refuses = ()
    rig.plane.journal.append([Stopping(rig.now, job, 1, "preempt")])
    rig.now += 60_000_000
    rig.plane.decider.decide((), rig.now)
    assert len(tuner.given) == asked
