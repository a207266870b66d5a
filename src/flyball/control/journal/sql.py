"""Every SQL statement of the journal, in SQLAlchemy Core.

Another database than SQLite needs another `sqlite.py` and another `upsert`, little more.
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
    Recorded,
    decision_record,
    decisions,
    event_record,
    events,
    job_of,
    job_row,
    jobs,
    keys,
    meta,
    state_row,
)
from flyball.core.errors import BadInput
from flyball.core.events import Decided
from flyball.core.jobs import ACTIVE, Job, JobState

FINAL = tuple(state for state in JobState if state.final)
MAX_PAGE = 1_000
"""Maximum number of jobs per page."""
MAX_EVENTS = 10_000
"""Maximum number of events or decisions per read."""
MAX_NAME = 1_000
"""Maximum number of characters of a name that is searched for."""

_add_event, _add_decision, _add_job, _add_key = map(insert, (events, decisions, jobs, keys))
_change_job = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"))
    .values({name: bindparam(name) for name in STATE_COLUMNS if name != "id"})
)
_insert_meta = upsert(meta)
_upsert_meta = _insert_meta.on_conflict_do_update(
    index_elements=["name"], set_={"value": _insert_meta.excluded.value}
)


def write(
    connection: Connection,
    rows: Sequence[dict[str, Any]],
    changed: Collection[Job],
    new: Mapping[int, str],
    answers: Sequence[dict[str, Any]],
    facts: Mapping[str, str],
) -> None:
    """Write one transaction: numbered events and decisions, and the jobs they changed.

    Args:
        rows: rows of `events` and `decisions`.
        changed: jobs as they are afterwards.
        new: ids of new jobs, with the text of their specs.
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
        updated = _execute_many(connection, _change_job, moved)
        assert updated == len(moved), f"{len(moved)} jobs changed, the table has {updated} of them"


def _execute_many(
    connection: Connection, statement: UpdateBase, values: Sequence[dict[str, Any]]
) -> int:
    """Execute a statement for many rows; return the number of rows changed.

    Values go to the driver as they are, which saves a fifth of a batch's time: every row has all
    columns, and none has a type that must be converted.
    """
    compiled = _compiled(statement, connection.dialect)
    return int(connection.exec_driver_sql(compiled, list(values)).rowcount)


@lru_cache(maxsize=32)
def _compiled(statement: UpdateBase, dialect: Dialect) -> str:
    return str(statement.compile(dialect=dialect))


class Answer(NamedTuple):
    """Holds what was stored under a key, and the number of the last event stored with it."""

    value: Any
    seq: int


ANSWERS = text(
    "SELECT key, answer, seq FROM keys WHERE key IN (SELECT value FROM json_each(:wanted))"
)
"""Takes one parameter for any number of keys, so the statement is compiled only once."""


def answers(connection: Connection, wanted_keys: Iterable[str]) -> dict[str, Answer]:
    """Return what is stored under these keys; unknown keys are left out."""
    rows = connection.execute(ANSWERS, {"wanted": json.dumps(list(wanted_keys))})
    return {row.key: Answer(json.loads(row.answer), row.seq) for row in rows}


class Last(NamedTuple):
    """Holds the position of a journal.

    Attributes:
        seq: number of the last event, 0 = none.
        time_us: the latest time of any event.
        next_job: the first unused job id.
    """

    seq: int
    time_us: int
    next_job: int


def last(connection: Connection) -> Last:
    """Return the position of the journal."""

    def value(statement: Select[Any]) -> int:
        return int(connection.execute(statement).scalar() or 0)

    seq = max(value(select(func.max(table.c.seq))) for table in (events, decisions))
    time_us = value(select(meta.c.value).where(meta.c.name == "last_us"))
    return Last(seq, time_us, value(select(func.max(jobs.c.id))) + 1)


def last_decision(connection: Connection) -> int:
    """Return the number of the last decision, 0 = none."""
    return int(connection.execute(select(func.max(decisions.c.number))).scalar() or 0)


def counts(connection: Connection) -> dict[JobState, int]:
    """Return the number of jobs in each state; states without jobs are left out."""
    rows = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state))
    return {JobState(state): count for state, count in rows}


def final_states(connection: Connection) -> list[tuple[int, JobState]]:
    """Return the final state of every ended job."""
    pairs: list[tuple[int, JobState]] = []
    for state in FINAL:
        ids = connection.execute(select(jobs.c.id).where(jobs.c.state == state.value)).scalars()
        pairs += [(job_id, state) for job_id in ids]
    return pairs


def active(connection: Connection) -> list[Job]:
    """Return the jobs that have not ended, by id."""
    return _jobs(connection, select(jobs).where(jobs.c.state.in_(ACTIVE)).order_by(jobs.c.id))


def ended(connection: Connection, limit: int, since_us: int = 1) -> list[Job]:
    """Return the jobs that ended last, at `since_us` or later, the latest first."""
    over = select(jobs).where(jobs.c.end_us >= since_us)
    over = over.order_by(jobs.c.end_us.desc(), jobs.c.id.desc())
    return _jobs(connection, over.limit(limit))


def ended_with_targets(connection: Connection, since_us: int) -> list[Job]:
    """Return jobs with notification targets that ended since then, the earliest end first."""
    over = select(jobs).where(jobs.c.end_us >= since_us, jobs.c.end_us > 0)
    stated = over.where(jobs.c.spec.contains('"notify":', autoescape=True))
    return _jobs(connection, stated.order_by(jobs.c.end_us, jobs.c.id))


def job(connection: Connection, job_id: int) -> Job | None:
    """Return one job, None if there is none of that id."""
    matches = _jobs(connection, select(jobs).where(jobs.c.id == job_id))
    return matches[0] if matches else None


@dataclass(frozen=True)
class JobQuery:
    """Selects jobs; an attribute left at its default selects all.

    Attributes:
        states: jobs in one of these states.
        user, tenant: jobs of exactly this user and tenant.
        name: jobs whose name contains this, ignoring case.
        array: tasks of the array whose first task has this id.
        since_us, until_us: jobs submitted at or after, and before, this time.
        limit: maximum number of jobs, 1 to 1000.
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
    """Holds jobs, newest first; `after_id` selects the next page, 0 = there is none."""

    jobs: list[Job]
    after_id: int


def page(connection: Connection, query: JobQuery) -> Page:
    """Return one page of jobs.

    Raises:
        BadInput: the page is too large, or the name too long.
    """
    _check_limit(query.limit, MAX_PAGE)
    if len(query.name) > MAX_NAME:
        raise BadInput(f"a name of {len(query.name):,} characters", f"use at most {MAX_NAME:,}")
    statement = select(jobs).order_by(jobs.c.id.desc()).limit(query.limit + 1)
    for value, condition in (
        (query.states, jobs.c.state.in_(query.states)),
        (query.user, jobs.c.user == query.user),
        (query.tenant, jobs.c.tenant == query.tenant),
        (query.name, jobs.c.name.icontains(query.name, autoescape=True)),
        (query.array, jobs.c.array == query.array),
        (query.since_us, jobs.c.submit_us >= query.since_us),
        (query.until_us, jobs.c.submit_us < query.until_us),
        (query.after_id, jobs.c.id < query.after_id),
    ):
        if value:
            statement = statement.where(condition)
    matches = _jobs(connection, statement)
    more = len(matches) > query.limit
    return Page(matches[: query.limit], matches[query.limit - 1].id if more else 0)


def read_events(
    connection: Connection, after: int, limit: int, kinds: Sequence[str], job_id: int
) -> list[Recorded]:
    """Return events with their numbers, in order, decisions included."""
    _check_limit(limit, MAX_EVENTS)
    statement = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
    if kinds:
        statement = statement.where(events.c.kind.in_(kinds))
    if job_id:
        statement = statement.where(events.c.job == job_id)
    plain = [event_record(row) for row in connection.execute(statement).mappings()]
    if job_id or (kinds and Decided.kind not in kinds):
        return plain
    decided_statement = (
        select(decisions).where(decisions.c.seq > after).order_by(decisions.c.seq).limit(limit)
    )
    decided = [decision_record(row) for row in connection.execute(decided_statement).mappings()]
    return list(islice(merge(plain, decided, key=lambda numbered: numbered[0]), limit))


def last_event(connection: Connection, kind: str) -> Recorded | None:
    """Return the last event of a kind with its number, None if there was none."""
    statement = select(events).where(events.c.kind == kind).order_by(events.c.seq.desc())
    row = connection.execute(statement.limit(1)).mappings().first()
    return event_record(row) if row else None


def read_decisions(connection: Connection, after: int, limit: int) -> list[Recorded]:
    """Return decisions as events, with their numbers in the sequence, by `number`."""
    _check_limit(limit, MAX_EVENTS)
    statement = select(decisions).where(decisions.c.number > after).order_by(decisions.c.number)
    return [decision_record(row) for row in connection.execute(statement.limit(limit)).mappings()]


def _jobs(connection: Connection, statement: Select[Any]) -> list[Job]:
    return [job_of(row) for row in connection.execute(statement).mappings()]


def _check_limit(limit: int, most: int) -> None:
    """Check the limit of a read.

    Raises:
        BadInput: it is below 1 or above `most`.
    """
    if not 1 <= limit <= most:
        raise BadInput(f"a limit of {limit} is out of range", f"use 1 to {most:,}")
