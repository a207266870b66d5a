"""Journals from before events had classes: read, repeated and continued."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.control.decide.verify import Verifier
from flyball.control.journal.history import History
from flyball.core.events import CLASSES, event_of
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode
from flyball.live import make_tuners

SAMPLE = Path(__file__).parent / "samples" / "journal-0.1.0.sql"
LAST_US = 1_700_001_574_000_000
GPUS = (LiveNode("g", "V100", 4, 16, 8192, ("u0", "u1", "u2", "u3")),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    database = sqlite3.connect(tmp_path / "journal.db")
    database.executescript(SAMPLE.read_text("utf-8"))
    database.close()
    return tmp_path


def test_every_record_reads_and_writes_as_it_was(folder: Path) -> None:
    with History(folder / "journal.db") as history:
        records = [record for _seq, record in history.records(limit=10_000)]
    assert [event_of(record).as_dict() for record in records] == records
    later = {
        *("reported", "notified", "node", "others", "deferred", "accepted", "queued"),
        "prioritised",
    }
    assert {record["kind"] for record in records} == CLASSES.keys() - later
    assert any("adjusted" in record and record["forecast"] is None for record in records)
    assert any("adjusted" in record and record["forecast"] for record in records)


def test_no_decision_differs(folder: Path) -> None:
    with History(folder / "journal.db") as history:
        verdict = Verifier(make_tuners).follow(history.events(limit=10_000))
    assert (verdict.decisions, verdict.actions, verdict.differing) == (31, 19, [])
    assert verdict.outdated == {"elastic": 12}, "its rule was another then"


def test_a_control_plane_continues_it(folder: Path) -> None:
    rig = Rig(folder, "easy", nodes=GPUS, begin_us=LAST_US)
    assert rig.states(14, 15) == [JobState.PENDING, JobState.PENDING]
    assert rig.job(14).reason == "requeued-void", "it ran on an engine that is gone"
    job = rig.submit(gpus=1)
    rig.plane.release([15])
    rig.finish()
    assert rig.states(14, 15, job) == [JobState.COMPLETED] * 3
    verdict = Verifier(make_tuners).follow(rig.events())
    assert verdict.decisions > 31
    assert verdict.differing == []
