"""The journal's tables, and the conversion of events and jobs to rows and back.

`migrations/` creates the tables; the two must agree (a test compares them).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    Table,
    Text,
)

from flyball.control.jobs.priority import in_force
from flyball.core.errors import BadInput
from flyball.core.events import Decided, Event, Submitted, event_of
from flyball.core.jobs import DEFAULTS, Job, JobSpec, JobState, Row, SpecValues

# Tables ----------------------------------------------------------------------------

LONG = BigInteger().with_variant(Integer, "sqlite")
schema = MetaData()

events = Table(
    "events",
    schema,
    Column("seq", LONG, primary_key=True, autoincrement=False),
    Column("time_us", LONG, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job", LONG),
    Column("attempt", LONG),
    Column("body", Text, nullable=False),  # JSON: all other fields of the event
    Index("events_kind", "kind"),
    Index("events_job", "job"),
)

jobs = Table(
    "jobs",
    schema,
    Column("id", LONG, primary_key=True, autoincrement=False),
    Column(
        "name", Text, nullable=False
    ),  # this and the next three: copied from the spec, for queries
    Column("user", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("array", LONG, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", LONG, nullable=False),
    Column("submit_us", LONG, nullable=False),
    Column("since_us", LONG, nullable=False),
    Column("started_us", LONG, nullable=False),
    Column("first_start_us", LONG, nullable=False),
    Column("end_us", LONG, nullable=False),
    Column("stopping", Text, nullable=False),
    Column("service_us", Double, nullable=False),
    Column("preemptions", LONG, nullable=False),
    Column("failures", LONG, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rows", Text, nullable=False),  # JSON: [[node, mask], ...]
    Column("values", Text, nullable=False),  # JSON
    Column("spec", Text, nullable=False),  # JSON: `JobSpec.as_dict`
    *(
        Index(f"jobs_{name}", name)
        for name in ("state", "user", "tenant", "array", "submit_us", "end_us")
    ),
)

decisions = Table(
    "decisions",
    schema,
    Column("number", LONG, primary_key=True, autoincrement=False),
    Column("seq", LONG, nullable=False),
    Column("time_us", LONG, nullable=False),
    Column("seen", LONG, nullable=False),
    Column("digest", Text, nullable=False),
    Column("actions", LONG, nullable=False),
    Column("body", LargeBinary, nullable=False),  # zlib of JSON: all other fields of the event
    Index("decisions_seq", "seq", unique=True),
)

keys = Table(
    "keys",
    schema,
    Column("key", Text, primary_key=True),
    Column("answer", Text, nullable=False),  # JSON
    Column("seq", LONG, nullable=False),
    Column("time_us", LONG, nullable=False),
)

meta = Table(
    "meta",
    schema,
    Column("name", Text, primary_key=True),  # `last_us`: the latest time of any event; `tried`
    Column("value", Text, nullable=False),
)

# Rows ------------------------------------------------------------------------------

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
EVENT_COLUMNS = ("time_us", "kind", "job", "attempt")
DECISION_COLUMNS = ("number", "time_us", "seen", "digest")
Recorded = tuple[int, dict[str, Any]]
"""The number of an event, and the event as recorded (`Event.as_dict`)."""


def event_row(event: Event) -> dict[str, Any]:
    """Return an event as a row of `events` or `decisions`, without its `seq`.

    A submission's row also has the text of its spec, for the row of the job.
    """
    rest = event.as_dict()
    if isinstance(event, Decided):
        del rest["kind"]
        row = {name: rest.pop(name) for name in DECISION_COLUMNS}
        row["actions"] = len(event.plan)
        return {**row, "body": zlib.compress(encode(rest).encode())}
    row = {name: rest.pop(name, None) for name in EVENT_COLUMNS}
    if not isinstance(event, Submitted):
        row["body"] = encode(rest)
        return row
    stated = rest.pop("spec")
    spec = row["spec"] = stated.text() if isinstance(stated, SpecValues) else encode(stated)
    more = "," + encode(rest)[1:] if rest else "}"
    row["body"] = f'{{"spec":{spec}{more}'
    return row


class BadRow(ValueError):
    """Raised for a row that cannot be read: damaged, or written by another program."""


UNREADABLE = (ValueError, KeyError, TypeError, zlib.error)


@contextmanager
def _reading(table: str, number: object) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise BadRow(f"{table} {number} cannot be read: {error}") from error


def event_record(row: RowMapping) -> Recorded:
    """Return the number and the event of a row of `events`."""
    event = {name: row[name] for name in EVENT_COLUMNS if row[name] is not None}
    with _reading("event", row["seq"]):
        return row["seq"], event | json.loads(row["body"])


def decision_record(row: RowMapping) -> Recorded:
    """Return the number and the event of a row of `decisions`."""
    event = {"kind": Decided.kind, **{name: row[name] for name in DECISION_COLUMNS}}
    with _reading("decision", row["number"]):
        return row["seq"], event | json.loads(zlib.decompress(row["body"]))


def numbered_events(records: Iterable[Recorded]) -> list[tuple[int, Event]]:
    """Return the events of records, with their numbers."""
    numbered, seq = [], 0
    try:
        for seq, record in records:
            numbered.append((seq, event_of(record)))
    except UNREADABLE as error:
        raise BadRow(f"event {seq} cannot be read: {error}") from error
    return numbered


def job_row(job: Job, spec: str) -> dict[str, Any]:
    """Return a new job as a full row, with the columns that never change.

    Args:
        job: its current state.
        spec: its spec as text, encoded once with the event of its submission.
    """
    asked = job.spec
    untouched = job.state is JobState.PENDING and not job.attempt and not job.values
    return {
        **(NEW_ROW if untouched else state_row(job)),
        "id": job.id,
        "name": _valid_text(asked.name),
        "user": _valid_text(asked.user),
        "tenant": _valid_text(asked.tenant),
        "array": asked.array,
        "submit_us": job.submit_us,
        "spec": spec,
    }


def _valid_text(text: str) -> str:
    """Replace what is not valid UTF-8; only the spec keeps it unchanged."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def state_row(job: Job) -> dict[str, Any]:
    """Return the columns of a job's row that change."""
    row: dict[str, Any] = {name: getattr(job, name) for name in _PLAIN_COLUMNS}
    row["state"] = job.state.value
    row["rows"] = encode([[held.node, held.mask] for held in job.rows]) if job.rows else "[]"
    row["values"] = encode(job.values) if job.values else "{}"
    return row


_PLAIN_COLUMNS = (
    *("id", "attempt", "since_us", "started_us", "first_start_us", "end_us"),
    *("stopping", "service_us", "preemptions", "failures", "reason"),
)
STATE_COLUMNS = (*_PLAIN_COLUMNS, "state", "rows", "values")
NEW_ROW = state_row(Job(0, JobSpec(()), 0))
"""Changing columns of a job that was just submitted."""


def job_of(row: RowMapping) -> Job:
    """Return the job of a row of `jobs`."""
    with _reading("job", row["id"]):
        state = JobState(row["state"])
        job = Job(
            **{name: row[name] for name in _PLAIN_COLUMNS},
            submit_us=row["submit_us"],
            spec=_spec_of(json.loads(row["spec"]), state, row["id"]),
            state=state,
            rows=tuple(Row(*pair) for pair in json.loads(row["rows"])),
            values=json.loads(row["values"]),
        )
    return in_force(job)


def _spec_of(values: dict[str, Any], state: JobState, job: int) -> JobSpec:
    """Return the spec of a job.

    A newer version may have written more fields. They no longer matter for an ended job, but an
    active one must not run without them.

    Raises:
        BadInput: the job has not ended, and its spec has an unknown field.
    """
    unknown = sorted(values.keys() - DEFAULTS.keys())
    if unknown and not state.final:
        raise BadInput(
            f"job {job} in the journal states {unknown[0]!r}, which this Flyball does not know",
            "use the version that accepted it, and let it end or cancel it there",
        )
    return JobSpec.of(values, ignore_unknown=True)
