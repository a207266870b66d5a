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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flyball.cli.jobs.begin_time import begin_time
from flyball.cli.jobs.sbatch import (
    HOW,
    Tasks,
    array_tasks,
    dependencies,
    gpu_share,
    limit_signal,
    memory_mib,
    time_s,
)
from flyball.cli.live import JOB_ID
from flyball.core.errors import BadInput, UnknownName

ENDINGS = (".yaml", ".yml")
MAX_FILE_BYTES = 4 * 2**20
MAX_JOBS = 10_000
MAX_CPUS = 100_000
MAX_PRIORITY = 1e6


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


def text(value: str) -> str:
    """Return a name if it is printable and has at most 200 characters."""
    if not value.strip() or len(value) > 200 or not value.isprintable():
        raise BadInput(f"{value[:40]!r} is not a name", "use 1 to 200 printable characters")
    return value.strip()


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()) or not low <= int(value) <= high:
            raise BadInput(
                f"{value[:40]!r} is not valid", f"use a whole number from {low} to {high}"
            )
        return int(value)

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    """Return a reader of numbers in a range."""

    def read(value: str) -> float:
        try:
            result = float(value)
        except ValueError:
            result = float("nan")
        if not low <= result <= high:
            raise BadInput(f"{value[:40]!r} is not valid", f"use a number from {low:g} to {high:g}")
        return result

    return read


def yes_or_no(value: str) -> bool:
    """Return the value of `true`, `yes`, `on`, `false`, `no` or `off`."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if value.strip().lower() not in words:
        raise BadInput(f"{value[:40]!r} is neither true nor false", "use true or false")
    return words[value.strip().lower()]


def size_range(value: str) -> tuple[int, int]:
    """Return the minimum and maximum number of cores or GPUs of an elastic job: `1-4`."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})", value.strip())
    if not match or int(match[1]) > int(match[2]):
        raise BadInput(f"{value[:40]!r} is not a range", "write e.g. 1-4")
    return int(match[1]), int(match[2])


def job_class(value: str) -> str:
    """Return the value if it is one of the five workload classes."""
    from flyball.core.workload import CLASS_LABELS

    if value not in CLASS_LABELS:
        raise UnknownName("class", value, CLASS_LABELS)
    return value


SECONDS = number(0, 3e8)
KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", text),
    "tenant": ("tenant", text),
    "model": ("model", text),
    "cpus": ("cpus", integer(1, MAX_CPUS)),
    "milli": ("milli", integer(1, 1000)),
    "memory": ("memory_mib", memory_mib),
    "memory_mib": ("memory_mib", integer(0, 2**40)),
    "max_processes": ("max_processes", integer(0, 2**22)),
    "limit": ("limit_s", time_s),
    "limit_s": ("limit_s", SECONDS),
    "estimate": ("estimate_s", time_s),
    "estimate_s": ("estimate_s", SECONDS),
    "priority": ("priority", number(-MAX_PRIORITY, MAX_PRIORITY)),
    "class": ("kind", job_class),
    "kind": ("kind", job_class),
    "requeue": ("requeue", yes_or_no),
    "preemptible": ("preemptible", yes_or_no),
    "grace_s": ("grace_s", number(0, 86_400)),
    "nice": ("nice", integer(0, 19)),
    "hold": ("hold", yes_or_no),
    "begin": ("begin_time", begin_time),
    "begin_time": ("begin_time", number(0, 1e11)),
    "least": ("least", integer(1, MAX_CPUS)),
    "most": ("most", integer(1, MAX_CPUS)),
}
"""Keys with a single value: the field that each sets, and the reader of the value."""
OTHER_KEYS = (
    *("argv", "command", "cwd", "env", "export", "gpus", "after", "array", "signal"),
    *("output", "stdout", "error", "stderr", "elastic", "notify"),
)
ALL_KEYS = (*KEYS, *OTHER_KEYS)


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
        if not content or len(content) > MAX_JOBS:
            raise BadInput(f"{path}: {len(content)} jobs", f"list 1 to {MAX_JOBS:,}")
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
    return draft


def _take(draft: Draft, key: str, value: Any, folder: Path) -> None:
    """Store the value of one key in the draft."""
    values = draft.values
    if key in KEYS:
        name, read = KEYS[key]
        _once(values, name)
        values[name] = read(_scalar(value))
    elif key in ("argv", "command"):
        _once(values, "argv")
        values["argv"] = _words(value)
    elif key in ("output", "stdout", "error", "stderr"):
        stream = "stdout" if key in ("output", "stdout") else "stderr"
        _once(values, stream)
        values[stream] = text(_scalar(value))
    elif key == "cwd":
        values["cwd"] = str((folder / text(_scalar(value))).resolve())
    elif key == "env":
        values["env"] = _variables(value)
    elif key == "gpus":
        values["gpus"], share = gpu_share(_scalar(value))
        values.setdefault("milli", share)
    elif key == "signal":
        draft.values = {**limit_signal(_scalar(value)).as_values(is_script=False), **values}
    elif key == "elastic":
        for name, size in zip(("least", "most"), size_range(_scalar(value)), strict=True):
            _once(values, name)
            values[name] = size
    elif key == "notify":
        targets = value if isinstance(value, list) else [value]
        values["notify"] = [
            target if isinstance(target, str) else _words(target) for target in targets
        ]
    elif key == "array":
        draft.tasks = array_tasks(_scalar(value))
    elif key == "export":
        draft.export = _scalar(value)
    else:
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
            yield "afterok", text(value)
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
