"""Converts validated input to job specs. A hot path for batches: a few microseconds a job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flyball.api.job_model import JobIn, OneIn
from flyball.api.problems import Problem
from flyball.control.jobs.request import program_name
from flyball.control.notify.target import parse_target
from flyball.core.job_fields import FIELDS, MAX_TASKS, SYNONYMS
from flyball.core.jobs import RESTORED, JobSpec

MOST_FAULTS = 20
LISTS = [name for name in RESTORED if name not in ("argv", "env", "notify")]
"""Fields that JSON has as lists and a spec as tuples; the others are converted separately."""


def checked(adapter: TypeAdapter[Any], body: bytes) -> Any:
    """Parse and validate a body.

    Raises:
        Problem: 400 if it is not JSON, 422 if a value is invalid. The value itself is never
            repeated: it may be a secret in a job's environment.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
    if faults[0]["type"] == "json_invalid":
        raise Problem(400, faults[0]["msg"], "send a JSON object", "bad-json")
    raise faulty(faults)


def faulty(faults: list[Any]) -> Problem:
    """Return the problem for invalid values."""
    listed = [
        {"where": ".".join(str(part) for part in fault["loc"]), "why": str(fault["msg"])}
        for fault in faults[:MOST_FAULTS]
    ]
    first = listed[0]
    where = f"{first['where']}: " if first["where"] else ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    remedy = _rule(faults[0]) or "see /docs for valid values"
    return Problem(422, f"{where}{first['why']}{more}", remedy, "", errors=listed)


def _rule(fault: Any) -> str:
    """Return what a valid value of a job's field is, in the words of the command line."""
    place = [part for part in fault["loc"] if isinstance(part, str) and part != "jobs"]
    row = FIELDS.get(SYNONYMS.get(place[0], place[0])) if place else None
    if row is None or fault["type"] == "missing":
        return ""
    return f"use {row.rule}" + (f"; {row.advice}" if row.advice else "")


def specs_of(jobs: Sequence[JobIn | OneIn]) -> list[JobSpec]:
    """Return the specs, in order; an array becomes its tasks.

    Raises:
        Problem: 422 if a value is invalid.
    """
    folders: dict[str, str] = {}
    specs: list[JobSpec] = []
    for number, job in enumerate(jobs):
        values: dict[str, Any] = {**job}
        if not values["argv"][0]:
            where = f"jobs.{number}.argv.0" if len(jobs) > 1 else "argv.0"
            raise _wrong(where, "the command is empty", "name a program")
        values["argv"] = tuple(values["argv"])
        if not values.get("name"):
            values["name"] = program_name(values["argv"])
        for name in ("cwd", "stdout", "stderr"):
            if path := values.get(name):
                values[name] = folders.get(path) or folders.setdefault(path, _resolved(path))
        for synonym, name in SYNONYMS.items():
            if synonym in values:
                if name in values:
                    raise _wrong(synonym, f"{name} is stated as well", "keep one of the two")
                values[name] = values.pop(synonym)
        for name in LISTS:
            if name in values:
                values[name] = RESTORED[name](values[name])
        if "notify" in values:
            values["notify"] = tuple(parse_target(target) for target in values["notify"])
        array = values.pop("array", None)
        if array is None:
            specs.append(JobSpec.with_values(values))
        else:
            specs.extend(_tasks(values, array))
    return specs


def _tasks(values: dict[str, Any], array: str) -> list[JobSpec]:
    """Return the tasks of an array: `0-9:3,20%4` is 0, 3, 6, 9 and 20, four at a time."""
    text, _, limit = array.partition("%")
    indices: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        span_indices = range(int(low), int(high or low) + 1, max(int(step or 1), 1))
        if not span_indices or len(indices) + len(span_indices) > MAX_TASKS:
            raise _wrong(
                "array", f"{part!r} is not a range of 1 to {MAX_TASKS:,} tasks", "e.g. 0-9%4"
            )
        indices.update(span_indices)
    return [
        JobSpec.with_values({**values, "array_index": index, "array_limit": int(limit or 0)})
        for index in sorted(indices)
    ]


def _resolved(path: str) -> str:
    """Return a path without links and dots, so that the path checked is the path used.

    Raises:
        Problem: 422 if no file system could hold the name.
    """
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise Problem(422, f"{path!r} is not a path: {error}", "give an absolute path") from None


def _wrong(where: str, why: str, remedy: str) -> Problem:
    return Problem(422, f"{where}: {why}", remedy, errors=[{"where": where, "why": why}])
