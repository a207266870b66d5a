"""Events: records and classes agree, whatever version wrote the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

import pytest

from flyball.core import events
from flyball.core.events import (
    CLASSES,
    AttemptEvent,
    Decided,
    Event,
    Intended,
    Started,
    Stopping,
    Unknown,
    event_of,
    field_names,
)
from flyball.core.jobs import Job, JobSpec

RECORD = {"kind": "started", "time_us": 5, "job": 1, "attempt": 2, "began_us": 4}


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_fields_are_described_and_default_to_none_or_nothing(cls: type[Event]) -> None:
    hints = get_type_hints(cls, include_extras=True)
    for entry in fields(cls):
        _type, meaning = get_args(hints[entry.name])
        assert meaning
        assert entry.default is None or entry.default is MISSING
    assert (cls.__doc__ or "").endswith(".")
    assert not {"kind", "form", "seq"} & {entry.name for entry in fields(cls)}


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_records_with_and_without_optional_fields(cls: type[Event]) -> None:
    always, optional = field_names(cls)
    least = {"kind": cls.kind, **{name: f"the {name}" for name in always}}
    most = {**least, **{name: f"the {name}" for name in optional}}
    for record in (least, most):
        event = event_of(record)
        assert type(event) is cls
        assert event.as_dict() == record
    for name in always:
        with pytest.raises(ValueError, match=f"a '{cls.kind}' event has no '{name}'"):
            event_of({key: value for key, value in least.items() if key != name})


def test_every_kind_has_its_class() -> None:
    defined = [
        cls
        for cls in vars(events).values()
        if isinstance(cls, type) and issubclass(cls, Event) and "kind" in vars(cls)
    ]
    assert set(defined) == {*CLASSES.values(), Unknown}


def test_an_event_cannot_be_changed() -> None:
    event = Started(5, 1, 2, 4)
    with pytest.raises(FrozenInstanceError):
        event.job = 3  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        event.more = 3  # type: ignore[attr-defined]


def test_fields_and_kinds_of_newer_versions() -> None:
    assert event_of({**RECORD, "host": "a", "form": 9}) == Started(5, 1, 2, 4)
    cut = {name: value for name, value in RECORD.items() if name != "began_us"}
    with pytest.raises(ValueError, match=r"of form 9 \(this version reads 1\) has no 'began_us'"):
        event_of({**cut, "form": 9})
    newer = {"kind": "migrated", "time_us": 7, "job": 1, "to": "there"}
    unknown = event_of(newer)
    assert isinstance(unknown, Unknown)
    assert (unknown.time_us, unknown.as_dict()) == (7, newer)


def test_older_forms_are_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class StartedSomewhere(AttemptEvent):
        """The processes of an attempt began on a host."""

        kind = "started"
        form = 2
        began_s: Annotated[float, "when"]
        host: Annotated[str, "where"]

        @classmethod
        def upgraded(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**record, "began_s": record["began_us"] / 1e6, "host": "unknown"}

    monkeypatch.setitem(CLASSES, "started", StartedSomewhere)
    old = event_of(RECORD)
    assert old == StartedSomewhere(5, 1, 2, 4e-6, "unknown")
    assert old.as_dict()["form"] == 2
    assert event_of(old.as_dict()) == old


def test_a_forecast_is_on_record_with_what_tuners_made_of_it() -> None:
    event = Decided(1, 2, 3, 0, False, "", ())
    assert {"adjusted", "forecast"}.isdisjoint(event.as_dict())
    tuned = Decided(1, 2, 3, 0, False, "", (), adjusted=())
    assert tuned.as_dict()["forecast"] is None


def test_events_about_the_next_and_the_running_attempt() -> None:
    job = Job(7, JobSpec(("work",)), 0, attempt=3)
    assert Intended.next_attempt(job, 9, [(0, 1)], 5) == Intended(9, 7, 4, [(0, 1)], 5)
    assert Stopping.preempt(job, 9) == Stopping(9, 7, 3, "preempt")
