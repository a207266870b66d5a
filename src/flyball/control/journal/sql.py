"""Every statement of the journal. SQLAlchemy Core: another database than SQLite needs another
`sqlite.py` and another `upsert`, little more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Select, bindparam, func, insert, select, text, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.sql.dml import UpdateBase

from flyball.control.journal.schema import (
    STATE_COLUMNS,
    decision_of,
    decisions,
    event_of,
    events,
    job_of,
    job_row,
    jobs,
    keys,
    meta,
    state_row,
)
from flyball.core.errors import BadInput
from flyball.core.jobs import ACTIVE, Job, JobState
from flyball.core.live import Event, EventKind

FINAL = tuple(state for state in JobState if state.final)
MOST = 1_000
"""Jobs of a page, at most."""
MOST_EVENTS = 10_000
MOST_NAME = 1_000

_add_event, _add_decision, _add_job, _add_key = map(insert, (events, decisions, jobs, keys))
_change_job = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"))
    .values({name: bindparam(name) for name in STATE_COLUMNS if name != "id"})
)
_later = upsert(meta)
_upsert_meta = _later.on_conflict_do_update(
    index_elements=["name"], set_={"value": _later.excluded.value}
)


def write(
    connection: Connection,
    rows: Sequence[dict[str, Any]],
    changed: Collection[Job],
    new: Mapping[int, str],
    answers: Sequence[dict[str, Any]],
    facts: Mapping[str, str],
) -> None:
    """One transaction's worth: events and decisions with their numbers, jobs as they are now.

    Args:
        rows: of `events` and `decisions`.
        changed: jobs as they are afterwards.
        new: ids of those that there were not before, with the text of their specs.
        answers: rows of `keys`.
        facts: rows of `meta` to change.
    """
    plain = [row for row in rows if "kind" in row]
    decided = [row for row in rows if "kind" not in row]
    added = [job_row(job, new[job.id]) for job in changed if job.id in new]
    moved = [state_row(job) | {"job_id": job.id} for job in changed if job.id not in new]
    stated = [{"name": name, "value": value} for name, value in facts.items()]
    for statement, values in (
        (_add_event, plain),
        (_add_decision, decided),
        (_add_job, added),
        (_add_key, answers),
        (_upsert_meta, stated),
    ):
        if values:
            _execute_many(connection, statement, values)
    if moved:
        found = _execute_many(connection, _change_job, moved)
        assert found == len(moved), f"{len(moved)} jobs changed, the table has {found} of them"


def _execute_many(
    connection: Connection, statement: UpdateBase, values: Sequence[dict[str, Any]]
) -> int:
    """Rows changed. The driver takes the values as they are: a fifth of a batch's time saved.

    Every row has all columns, and none has a type that must be converted.
    """
    compiled = _compiled(statement, connection.dialect)
    return int(connection.exec_driver_sql(compiled, list(values)).rowcount)


@lru_cache(maxsize=32)
def _compiled(statement: UpdateBase, dialect: Dialect) -> str:
    return str(statement.compile(dialect=dialect))


class Answer(NamedTuple):
    """What was stored under a key, and the number of the last event stored with it."""

    value: Any
    seq: int


ANSWERS = text(
    "SELECT key, answer, seq FROM keys WHERE key IN (SELECT value FROM json_each(:wanted))"
)
"""One parameter, however many keys: the statement need not be made anew each time."""


def answers(connection: Connection, wanted: Iterable[str]) -> dict[str, Answer]:
    """What is stored under these keys; keys that are not known are not there."""
    found = connection.execute(ANSWERS, {"wanted": json.dumps(list(wanted))})
    return {row.key: Answer(json.loads(row.answer), row.seq) for row in found}


class Last(NamedTuple):
    """Where a journal stands.

    Attributes:
        seq: number of the last event, 0 = none.
        time_us: the latest time of any event.
        next_job: the first id that no job has.
    """

    seq: int
    time_us: int
    next_job: int


def last(connection: Connection) -> Last:
    """Where the journal stands."""

    def value(statement: Select[Any]) -> int:
        return int(connection.execute(statement).scalar() or 0)

    seq = max(value(select(func.max(table.c.seq))) for table in (events, decisions))
    time_us = value(select(meta.c.value).where(meta.c.name == "last_us"))
    return Last(seq, time_us, value(select(func.max(jobs.c.id))) + 1)


def last_decision(connection: Connection) -> int:
    """The number of the last decision, 0 = none."""
    return int(connection.execute(select(func.max(decisions.c.number))).scalar() or 0)


def counts(connection: Connection) -> dict[JobState, int]:
    """Jobs in each state; states without any are not there."""
    found = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state))
    return {JobState(state): count for state, count in found}


def final_states(connection: Connection) -> list[tuple[int, JobState]]:
    """How each job ended that has."""
    made: list[tuple[int, JobState]] = []
    for state in FINAL:
        ids = connection.execute(select(jobs.c.id).where(jobs.c.state == state.value)).scalars()
        made += [(each, state) for each in ids]
    return made


def active(connection: Connection) -> list[Job]:
    """Jobs that have not ended, by id."""
    return _jobs(connection, select(jobs).where(jobs.c.state.in_(ACTIVE)).order_by(jobs.c.id))


def ended(connection: Connection, limit: int) -> list[Job]:
    """The jobs that ended last, the latest first."""
    over = select(jobs).where(jobs.c.end_us > 0).order_by(jobs.c.end_us.desc(), jobs.c.id.desc())
    return _jobs(connection, over.limit(limit))


def ended_with_targets(connection: Connection, since_us: int) -> list[Job]:
    """Jobs that ended since then and state whom to notify, the earliest end first."""
    over = select(jobs).where(jobs.c.end_us >= since_us, jobs.c.end_us > 0)
    stated = over.where(jobs.c.spec.contains('"notify":', autoescape=True))
    return _jobs(connection, stated.order_by(jobs.c.end_us, jobs.c.id))


def job(connection: Connection, job_id: int) -> Job | None:
    """One job, None if there is none of that id."""
    found = _jobs(connection, select(jobs).where(jobs.c.id == job_id))
    return found[0] if found else None


@dataclass(frozen=True)
class JobQuery:
    """Which jobs are asked for; what is left at its default does not matter.

    Attributes:
        states: in one of these.
        user, tenant: of exactly these.
        name: it contains this, whatever the case.
        array: tasks of the array whose first task has this id.
        since_us, until_us: submitted at or after, before.
        limit: jobs at most, 1 to 1000.
        after_id: only jobs older than this one: `after_id` of the page before.
    """

    states: tuple[JobState, ...] = ()
    user: str = ""
    tenant: str = ""
    name: str = ""
    array: int = 0
    since_us: int = 0
    until_us: int = 0
    limit: int = 100
    after_id: int = 0


class Page(NamedTuple):
    """Jobs, newest first; `after_id` asks for the next page, 0 = there is none."""

    jobs: list[Job]
    after_id: int


def page(connection: Connection, query: JobQuery) -> Page:
    """One page of jobs.

    Raises:
        BadInput: too large a page, or too long a name.
    """
    _in_range(query.limit, MOST)
    if len(query.name) > MOST_NAME:
        raise BadInput(f"a name of {len(query.name):,} characters", f"use at most {MOST_NAME:,}")
    wanted = select(jobs).order_by(jobs.c.id.desc()).limit(query.limit + 1)
    for asked, condition in (
        (query.states, jobs.c.state.in_(query.states)),
        (query.user, jobs.c.user == query.user),
        (query.tenant, jobs.c.tenant == query.tenant),
        (query.name, jobs.c.name.icontains(query.name, autoescape=True)),
        (query.array, jobs.c.array == query.array),
        (query.since_us, jobs.c.submit_us >= query.since_us),
        (query.until_us, jobs.c.submit_us < query.until_us),
        (query.after_id, jobs.c.id < query.after_id),
    ):
        if asked:
            wanted = wanted.where(condition)
    found = _jobs(connection, wanted)
    more = len(found) > query.limit
    return Page(found[: query.limit], found[query.limit - 1].id if more else 0)


def read_events(
    connection: Connection, after: int, limit: int, kinds: Sequence[str], job_id: int
) -> list[tuple[int, Event]]:
    """Events with their numbers, in order, decisions among them."""
    _in_range(limit, MOST_EVENTS)
    wanted = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
    if kinds:
        wanted = wanted.where(events.c.kind.in_(kinds))
    if job_id:
        wanted = wanted.where(events.c.job == job_id)
    found = [event_of(row) for row in connection.execute(wanted).mappings()]
    if job_id or (kinds and EventKind.DECIDED not in kinds):
        return found
    made = select(decisions).where(decisions.c.seq > after).order_by(decisions.c.seq).limit(limit)
    decided = [decision_of(row) for row in connection.execute(made).mappings()]
    return list(islice(merge(found, decided, key=lambda each: each[0]), limit))


def last_event(connection: Connection, kind: EventKind) -> Event | None:
    """The last event of a kind, None if there was none."""
    wanted = select(events).where(events.c.kind == kind.value).order_by(events.c.seq.desc())
    found = connection.execute(wanted.limit(1)).mappings().first()
    return event_of(found)[1] if found else None


def read_decisions(connection: Connection, after: int, limit: int) -> list[tuple[int, Event]]:
    """Decisions as the events they are, with their numbers in the sequence, by `number`."""
    _in_range(limit, MOST_EVENTS)
    wanted = select(decisions).where(decisions.c.number > after).order_by(decisions.c.number)
    return [decision_of(row) for row in connection.execute(wanted.limit(limit)).mappings()]


def _jobs(connection: Connection, wanted: Select[Any]) -> list[Job]:
    return [job_of(row) for row in connection.execute(wanted).mappings()]


def _in_range(limit: int, most: int) -> None:
    """Refuse a limit that is none.

    Raises:
        BadInput: it is below 1 or above `most`.
    """
    if not 1 <= limit <= most:
        raise BadInput(f"a limit of {limit} is out of range", f"use 1 to {most:,}")
