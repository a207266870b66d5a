"""Job files: one job, or several that may wait for each other, as YAML.

    name: train
    command: [python, train.py, --epochs, 3]
    cpus: 2
    memory: 4G
    limit: 1:30:00

Several jobs are listed under `jobs:`; `after: NAME` waits for an earlier job of the file.
Every value is read as text, so `1:30:00` is a time, `no` an argument and `3` the argument
"3". docs/reference/jobs.md lists the keys.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flyball.cli.jobs.notation import Reader, check, path_text, plain_reader_of, reader_of
from flyball.cli.jobs.sbatch import (
    HOW,
    Tasks,
    array_tasks,
    dependencies,
    gpu_share,
    gpu_type,
    limit_signal,
)
from flyball.cli.live import JOB_ID
from flyball.core.errors import BadInput, UnknownName
from flyball.core.job_fields import FIELDS, MAX_TASKS, NAME
from flyball.core.job_fields.field import JobField

ENDINGS = (".yaml", ".yml")
MAX_FILE_BYTES = 4 * 2**20
SET_BY_SUBMIT = ("user",)
"""Fields that the submission itself states."""


@dataclass
class Draft:
    """Holds a job before submission, when other jobs of the file may have no number yet.

    Attributes:
        values: fields of `core.jobs.JobSpec`, except those below.
        after: (how, job number or name) pairs.
        tasks: tasks of an array; None = a single job.
        export: variables taken from the submitter's environment, as in `sbatch.exported`.
    """

    values: dict[str, Any] = field(default_factory=dict)
    after: list[tuple[str, str]] = field(default_factory=list)
    tasks: Tasks | None = None
    export: str | None = None

    @property
    def name(self) -> str:
        """Return the stated name, else the name of the program."""
        return str(self.values.get("name") or Path(self.values["argv"][0]).name)


# The values of a key ---------------------------------------------------------------


def size_range(value: str) -> tuple[int, int]:
    """Return the minimum and maximum number of cores or GPUs of an elastic job: `1-4`."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})", value.strip())
    if not match or int(match[1]) > int(match[2]):
        raise BadInput(f"{value[:40]!r} is not a range", "write e.g. 1-4")
    least, most = int(match[1]), int(match[2])
    check("most", most)
    return least, most


def _readers(row: JobField) -> Iterator[tuple[str, Reader]]:
    """Yield the keys of a field with a single value, and the reader of each."""
    plain = plain_reader_of(row) if row.keys else reader_of(row)
    yield from ((name, plain) for name in (row.name, *row.synonyms))
    yield from ((key, reader_of(row)) for key in row.keys)


SPECIAL = {
    "argv": "argv",
    "command": "argv",
    "cwd": "cwd",
    "env": "env",
    "gpus": "gpus",
    "stdout": "stdout",
    "output": "stdout",
    "stderr": "stderr",
    "error": "stderr",
    "after": "after",
    "array": "array",
    "notify": "notify",
    "features": "features",
    "elastic": "elastic",
    "export": "export",
    "signal": "signal",
}
"""Keys whose values are lists, mappings or several fields at once."""
KEYS: dict[str, tuple[str, Reader]] = {
    key: (row.name, read)
    for row in FIELDS.values()
    if row.sent and row.name not in SPECIAL and row.name not in SET_BY_SUBMIT
    for key, read in _readers(row)
    if key not in SPECIAL
}
"""Keys with a single value: the field that each sets, and the reader of the value."""
ALL_KEYS = (*KEYS, *SPECIAL)


# Files -----------------------------------------------------------------------------


def read_jobs(path: Path) -> list[Draft]:
    """Return the jobs of a file, in order.

    Raises:
        BadInput: not a job file, or something in it is not understood; names where and why.
    """
    folder = path.resolve().parent
    content = _load(path)
    rows: Any = [content]
    origins = [str(path)]
    if isinstance(content, dict) and "jobs" in content:
        _known_keys(content, ("jobs",), str(path))
        content = content["jobs"]
    if isinstance(content, list):
        if not content or len(content) > MAX_TASKS:
            raise BadInput(f"{path}: {len(content)} jobs", f"list 1 to {MAX_TASKS:,}")
        rows, origins = content, [f"{path}: jobs[{i}]" for i in range(len(content))]
    drafts = [_draft(row, where, folder) for row, where in zip(rows, origins, strict=True)]
    _check_names(drafts, origins)
    return drafts


def _load(path: Path) -> Any:
    import yaml

    class Plain(yaml.BaseLoader):
        """Reads every scalar as text, and refuses a repeated key."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep) for key, _ in node.value]
            for name in keys:
                if isinstance(name, str) and keys.count(name) > 1:
                    line = node.start_mark.line + 1
                    raise BadInput(f"{path}: {name!r} appears twice below line {line}", "keep one")
            return super().construct_mapping(node, deep)

    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadInput(f"{path}: larger than a job file can be", "split it")
        return yaml.load(path.read_text("utf-8"), Loader=Plain)  # noqa: S506 - texts only
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{path}{line}: not YAML: {error.problem}", "correct that line") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError, TypeError):
        raise BadInput(f"{path}: not a YAML text file", "see docs/reference/jobs.md") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "name a YAML file") from None


def _draft(row: Any, where: str, folder: Path) -> Draft:
    if not isinstance(row, dict):
        raise BadInput(f"{where} is not a job", "write keys with values, e.g. command: [sleep, 5]")
    _known_keys(row, ALL_KEYS, where)
    draft = Draft()
    for key, value in row.items():
        try:
            _take(draft, key, value, folder)
        except BadInput as error:
            raise BadInput(f"{where}: {key}: {error}") from None
    if "argv" not in draft.values:
        raise BadInput(f"{where} has no 'command'", "e.g. command: [python, train.py]")
    draft.values.setdefault("cwd", str(folder))
    for stream in ("stdout", "stderr"):
        if path := draft.values.get(stream):
            draft.values[stream] = str(Path(draft.values["cwd"]) / path)
    try:
        for name in ("argv", "cwd", "env", "notify", "stdout", "stderr"):
            if name in draft.values:
                check(name, draft.values[name])
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    return draft


def _take(draft: Draft, key: str, value: Any, folder: Path) -> None:
    """Store the value of one key in the draft."""
    values = draft.values
    if key in KEYS:
        name, read = KEYS[key]
        _once(values, name)
        values[name] = read(_scalar(value))
        return
    match SPECIAL[key]:
        case "argv":
            _once(values, "argv")
            values["argv"] = _words(value)
        case "stdout" | "stderr" as stream:
            _once(values, stream)
            values[stream] = path_text(_scalar(value))
        case "cwd":
            values["cwd"] = str((folder / path_text(_scalar(value))).resolve())
        case "env":
            values["env"] = _variables(value)
        case "gpus":
            values["gpus"], share = gpu_share(_scalar(value))
            check("gpus", values["gpus"])
            values.setdefault("milli", share)
            if device_type := gpu_type(_scalar(value)):
                _once(values, "device_type")
                values["device_type"] = device_type
        case "signal":
            draft.values = {**limit_signal(_scalar(value)).as_values(is_script=False), **values}
        case "elastic":
            for name, size in zip(("least", "most"), size_range(_scalar(value)), strict=True):
                _once(values, name)
                values[name] = size
        case "notify":
            targets = value if isinstance(value, list) else [value]
            values["notify"] = [
                target if isinstance(target, str) else _words(target) for target in targets
            ]
        case "features":
            listed = value if isinstance(value, list) else [value]
            values["features"] = list(
                reader_of(FIELDS["features"])(",".join(_scalar(name) for name in listed))
            )
        case "array":
            draft.tasks = array_tasks(_scalar(value))
        case "export":
            draft.export = _scalar(value)
        case _:
            draft.after = list(_pairs(value))


def _once(values: dict[str, Any], name: str) -> None:
    if name in values:
        raise BadInput(f"{name} is stated twice", "keep one of the two keys")


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"is {_kind(value)}", "write a single value")
    return value


def _words(value: Any) -> list[str]:
    """Return a command from a list, or from a line split at spaces and quotes, without a shell."""
    words = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise BadInput(str(error), "close the quotation") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadInput("is not a list of words", "e.g. [python, train.py, --epochs, 3]")
    if not words or not words[0]:
        raise BadInput("is empty", "e.g. [python, train.py]")
    return words


def _variables(value: Any) -> dict[str, str]:
    good = isinstance(value, dict) and all(
        isinstance(name, str)
        and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        and isinstance(content, str)
        for name, content in value.items()
    )
    if not good:
        raise BadInput("is not a list of variables", "write e.g. {OMP_NUM_THREADS: 2}")
    return dict(value)


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (how, job) of `prepare`, `afterany:prepare`, a list of such, or `{afterok: [a, b]}`."""
    if isinstance(value, str):
        if value.split(":", 1)[0] in HOW:
            yield from dependencies(value)
        else:
            yield "afterok", NAME.read(value)
    elif isinstance(value, dict):
        for how, jobs in value.items():
            for job in jobs if isinstance(jobs, list) else [jobs]:
                yield from dependencies(f"{how}:{_scalar(job)}")
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, list) and len(item) == 2:
                yield from dependencies(":".join(map(_scalar, item)))
            elif isinstance(item, str | dict):
                yield from _pairs(item)
            else:
                raise BadInput(f"holds {_kind(item)}", "e.g. [prepare, afterany:12]")
    else:
        raise BadInput(f"is {_kind(value)}", "e.g. prepare, or {afterok: [prepare, 12]}")


def _check_names(drafts: list[Draft], origins: list[str]) -> None:
    """Check that every job waits for a job number, or for one earlier name of the file."""
    earlier: list[str] = []
    for draft, where in zip(drafts, origins, strict=True):
        for _how, job in draft.after:
            if JOB_ID.fullmatch(job):
                continue
            if job not in earlier:
                raise BadInput(f"{where}: {UnknownName('earlier job', job, earlier)}")
            if earlier.count(job) > 1:
                raise BadInput(f"{where}: two earlier jobs are named {job!r}", "rename one")
        if "name" in draft.values:
            earlier.append(draft.name)


def _known_keys(row: dict[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in row:
        if key not in allowed:
            raise UnknownName(f"key in {where}:", str(key), allowed)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "keys with values"
