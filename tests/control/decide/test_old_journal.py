"""A journal that was written before specs had their newest fields: it opens, and decides alike."""

from __future__ import annotations

import json
from pathlib import Path

from tests.control.live_cases import Rig

from flyball.control.decide.verify import Verifier
from flyball.core.events import Event, Submitted, event_of
from flyball.core.job_fields import DEFAULTS
from flyball.core.jobs import JobSpec

JOURNAL = Path(__file__).with_name("journal_before_fields.jsonl")
"""Events of 20 jobs under `easy` on two nodes, as the version before the table of fields wrote
them: backfill, a cancellation, an elastic job, a dependency, a begin time, an array."""
NEW = ("nodes", "tasks_per_node", "device_type", "features", "partition", "qos", "deadline")


def old_events() -> list[tuple[int, Event]]:
    records = [json.loads(line) for line in JOURNAL.read_text().splitlines()]
    return [(seq, event_of(record)) for seq, record in records]


def test_no_decision_of_an_old_journal_differs() -> None:
    verdict = Verifier().follow(old_events())
    assert (verdict.decisions, verdict.actions) == (34, 49)
    assert verdict.differing == []


def test_old_specs_have_the_defaults_of_new_fields(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    submissions = [event for _, event in old_events() if isinstance(event, Submitted)]
    assert len(submissions) == 20
    rig.plane.journal.append(submissions).wait()
    for event in submissions:
        spec = rig.job(event.job).spec
        assert [getattr(spec, name) for name in NEW] == [DEFAULTS[name] for name in NEW]
        assert json.loads(spec.as_dict().text()) == event.spec
        assert JobSpec.of(event.spec) == spec
