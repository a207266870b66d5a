"""The journal's tables, and how events and jobs become their rows and come back.

`migrations/` makes the tables; what is written here must agree (a test compares them).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
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

from flyball.core.errors import BadInput
from flyball.core.jobs import DEFAULTS, Job, JobSpec, JobState, Row, SpecValues
from flyball.core.live import Event, EventKind

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
    Column("body", Text, nullable=False),  # JSON: whatever else the event says
    Index("events_kind", "kind"),
    Index("events_job", "job"),
)

jobs = Table(
    "jobs",
    schema,
    Column("id", LONG, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),  # this and the next three: of the spec, to be found by
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
    Column("body", LargeBinary, nullable=False),  # zlib of JSON: whatever else the event says
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
OWN_COLUMN = {"kind", "time_us", "job", "attempt"}
OF_DECISION = {"kind", "time_us", "number", "seen", "digest"}


def event_row(event: Event) -> dict[str, Any]:
    """An event as a row of `events`, or of `decisions` if it is one; `seq` is not known yet.

    A submission's row has the text of its spec as well, for the row of the job.
    """
    if event["kind"] == EventKind.DECIDED:
        rest = {name: value for name, value in event.items() if name not in OF_DECISION}
        row = {name: event[name] for name in ("number", "time_us", "seen", "digest")}
        row["actions"] = len(event["plan"])
        return {**row, "body": zlib.compress(encode(rest).encode())}
    row = {
        "time_us": event["time_us"],
        "kind": str(event["kind"]),
        "job": event.get("job"),
        "attempt": event.get("attempt"),
    }
    rest = {name: event[name] for name in event if name not in OWN_COLUMN}
    if event["kind"] != EventKind.SUBMITTED:
        row["body"] = encode(rest)
        return row
    said = rest.pop("spec")
    spec = row["spec"] = said.text() if isinstance(said, SpecValues) else encode(said)
    more = "," + encode(rest)[1:] if rest else "}"
    row["body"] = f'{{"spec":{spec}{more}'
    return row


class BadRow(ValueError):
    """A row whose contents cannot be read: damaged, or written by something else."""


@contextmanager
def _reading(table: str, number: object) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise BadRow(f"{table} {number} cannot be read: {error}") from error


def event_of(row: RowMapping) -> tuple[int, Event]:
    made: dict[str, Any] = {"kind": row["kind"], "time_us": row["time_us"]}
    for name in ("job", "attempt"):
        if row[name] is not None:
            made[name] = row[name]
    with _reading("event", row["seq"]):
        return row["seq"], made | json.loads(row["body"])


def decision_of(row: RowMapping) -> tuple[int, Event]:
    made: dict[str, Any] = {"kind": EventKind.DECIDED.value}
    made |= {name: row[name] for name in ("time_us", "number", "seen", "digest")}
    with _reading("decision", row["number"]):
        return row["seq"], made | json.loads(zlib.decompress(row["body"]))


def job_row(job: Job, spec: str) -> dict[str, Any]:
    """A new job as a row, with what never changes: what was asked for, and when.

    Args:
        job: as it is.
        spec: as text, made once with the event of its submission.
    """
    asked = job.spec
    untouched = job.state is JobState.PENDING and not job.attempt and not job.values
    return {
        **(NEW_ROW if untouched else state_row(job)),
        "id": job.id,
        "name": _shown(asked.name),
        "user": _shown(asked.user),
        "tenant": _shown(asked.tenant),
        "array": asked.array,
        "submit_us": job.submit_us,
        "spec": spec,
    }


def _shown(text: str) -> str:
    """What is no UTF-8 is whole in the spec alone."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def state_row(job: Job) -> dict[str, Any]:
    """Where a job stands: the part of its row that changes."""
    row: dict[str, Any] = {each: getattr(job, each) for each in _PLAIN}
    row["state"] = job.state.value
    row["rows"] = encode([[each.node, each.mask] for each in job.rows]) if job.rows else "[]"
    row["values"] = encode(job.values) if job.values else "{}"
    return row


_PLAIN = (
    *("id", "attempt", "since_us", "started_us", "first_start_us", "end_us"),
    *("stopping", "service_us", "preemptions", "failures", "reason"),
)
STATE_COLUMNS = (*_PLAIN, "state", "rows", "values")
NEW_ROW = state_row(Job(0, JobSpec(()), 0))
"""Of a job of which nothing is known yet."""


def job_of(row: RowMapping) -> Job:
    with _reading("job", row["id"]):
        state = JobState(row["state"])
        return Job(
            **{each: row[each] for each in _PLAIN},
            submit_us=row["submit_us"],
            spec=_spec_of(json.loads(row["spec"]), state, row["id"]),
            state=state,
            rows=tuple(Row(*each) for each in json.loads(row["rows"])),
            values=json.loads(row["values"]),
        )


def _spec_of(said: dict[str, Any], state: JobState, job: int) -> JobSpec:
    """What a job asked for. A newer version may have asked for more: of a job that has ended that
    no longer matters, but one that may still run must not run as something else.

    Raises:
        BadInput: it has not ended, and asks for something that is not known here.
    """
    unknown = sorted(said.keys() - DEFAULTS.keys())
    if unknown and not state.final:
        raise BadInput(
            f"job {job} in the journal states {unknown[0]!r}, which this Flyball does not know",
            "use the version that accepted it, and let it end or cancel it there",
        )
    return JobSpec.of(said, ignore_unknown=True)
