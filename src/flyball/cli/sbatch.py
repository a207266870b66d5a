"""Slurm's words: `#SBATCH` lines, and the forms in which times, sizes and arrays are written.

Everything here is a pure function of text. An option is kept as it was written, under its long
name, whether it came from a script or from the command line; `submit` makes a job of them.
"""

from __future__ import annotations

import math
import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.jobs import Dependency
from flyball.core.units import MIB_PER_GIB

MARK = "#SBATCH"
HOW = tuple(each.value for each in Dependency)
"""The ways in which a job may follow another."""
SCRIPT_ENDINGS = (".sh", ".bash", ".sbatch", ".slurm")
MAX_SCRIPT_BYTES = 4 * 2**20
MAX_TASKS = 10_000
MAX_INDEX = 4_000_000
MAX_TIME_S = 10 * 366 * 86_400.0
MAX_MIB = 2**40

SHORT = {
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "t": "time",
    "p": "partition",
    "d": "dependency",
    "a": "array",
    "D": "chdir",
    "o": "output",
    "e": "error",
    "A": "account",
    "C": "constraint",
    "w": "nodelist",
    "q": "qos",
    "x": "exclude",
}
VALUED = (
    *("job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus", "gpus-per-node"),
    *("gres", "mem", "mem-per-cpu", "time", "estimate", "dependency", "array", "chdir", "output"),
    *("export", "nice", "account", "priority", "signal", "class", "model"),
)
FLAGS = ("requeue", "no-requeue", "no-preempt")
IGNORED = {
    "partition": "there is one queue here",
    "comment": "",
    "error": "both streams go to --output",
    "qos": "use --priority or --account",
    "constraint": "there is one node here",
    "nodelist": "there is one node here",
    "exclude": "there is one node here",
    "reservation": "there are none here",
    "exclusive": "cores and devices are never shared unless asked for",
    "mail-type": "no mail is sent",
    "mail-user": "no mail is sent",
    "open-mode": "output is appended by every attempt",
}
"""Options that change nothing here, and why."""
BARE = {"exclusive"}
"""Ignored options whose value may be left out."""

UNITS_S = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "m": 60.0, "sec": 1.0, "s": 1.0}
UNITS_MIB = {"K": 1 / 1024, "M": 1.0, "G": float(MIB_PER_GIB), "T": float(MIB_PER_GIB**2)}


class Tasks(NamedTuple):
    """An array.

    Attributes:
        indices: the numbers of its tasks, in order.
        limit: how many may run at a time, 0 = any number.
        text: the same as it was written, without spaces.
    """

    indices: tuple[int, ...]
    limit: int
    text: str


class Script(NamedTuple):
    """A batch script as read.

    Attributes:
        interpreter: what runs it, in front of its path.
        options: of its `#SBATCH` lines, by long name.
        notes: what was found and has no effect.
    """

    path: Path
    interpreter: tuple[str, ...]
    options: dict[str, str]
    notes: list[str]


# Values --------------------------------------------------------------------------


def time_s(text: str) -> float:
    """A time as Slurm writes it, or with units, in seconds; 0 = none.

    `90` is minutes; then `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`; `UNLIMITED`;
    and `45s`, `90m`, `1h30m`, `2d`.

    Raises:
        BadInput: anything else.
    """
    word = text.strip().lower()
    if word in ("unlimited", "infinite"):
        return 0.0
    found = _clock_s(word) if re.fullmatch(r"[0-9:-]+", word) else _units_s(word)
    if found is None or found > MAX_TIME_S:
        remedy = "use minutes, HH:MM:SS, D-HH:MM, or units: 90s, 1h30m, 2d"
        raise BadInput(f"{text!r} is not a time", remedy)
    return found


def _clock_s(word: str) -> float | None:
    days, dash, clock = word.rpartition("-")
    parts = clock.split(":")
    if not all(re.fullmatch(r"[0-9]{1,9}", each) for each in [*parts, *([days] if dash else [])]):
        return None
    numbers = [float(each) for each in parts]
    if dash and len(numbers) <= 3:
        hours, minutes, seconds = [*numbers, 0.0, 0.0][:3]
        return float(days) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    if len(numbers) == 2:
        return numbers[0] * 60 + numbers[1]
    if len(numbers) == 3:
        return numbers[0] * 3_600 + numbers[1] * 60 + numbers[2]
    return None


def _units_s(word: str) -> float | None:
    one = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(d|h|min|m|sec|s)"
    if not re.fullmatch(f"(?:{one})+", word):
        return None
    return sum(float(number) * UNITS_S[unit] for number, unit in re.findall(one, word))


def memory_mib(text: str) -> int:
    """A size as Slurm writes it (`512` = MiB, `4G`, `1.5T`), in MiB, upwards; 0 = not stated.

    Raises:
        BadInput: anything else.
    """
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)(?:I?B)?", text.strip().upper())
    size = float(found[1]) * UNITS_MIB[found[2] or "M"] if found else math.inf
    if size > MAX_MIB:
        raise BadInput(f"{text!r} is not a size", "use MiB, or e.g. 512M, 4G, 1.5T")
    return math.ceil(size)


def array_tasks(text: str) -> Tasks:
    """The tasks of an array: `0-9`, `1,3,5-7`, `0-30:10`, and `%4` for four at a time.

    Raises:
        BadInput: anything else.
    """
    example = "use e.g. 0-9, 1,3,5-7:2 or 0-99%4"
    ranges, percent, limit = text.strip().partition("%")
    if percent and not re.fullmatch(r"[1-9][0-9]{0,6}", limit):
        raise BadInput(f"array {text!r} has no number of tasks after '%'", example)
    indices: set[int] = set()
    for part in ranges.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if not found:
            raise BadInput(f"array {text!r}: {part!r} is not a range of tasks", example)
        first, last = int(found[1]), int(found[2] or found[1])
        step = int(found[3] or 1)
        if last < first or step < 1 or last > MAX_INDEX:
            raise BadInput(
                f"array {text!r}: {part!r} is empty, or goes beyond {MAX_INDEX:,}", example
            )
        if (last - first) // step >= MAX_TASKS:
            raise BadInput(f"array {text!r} has more than {MAX_TASKS:,} tasks", "submit several")
        indices.update(range(first, last + 1, step))
    if len(indices) > MAX_TASKS:
        raise BadInput(f"array {text!r} has more than {MAX_TASKS:,} tasks", "submit several")
    return Tasks(tuple(sorted(indices)), int(limit or 0), "".join(text.split()))


def dependencies(text: str) -> list[tuple[str, str]]:
    """Pairs (how, job as written) of `afterok:12:13,afterany:14_2`.

    Raises:
        BadInput: anything else, also what Slurm knows and this does not.
    """
    if "?" in text:
        raise BadInput(f"dependency {text!r}: 'any one of' is not supported", "use ',' (all of)")
    pairs = []
    for part in text.split(","):
        how, *jobs = part.strip().split(":")
        if how.lower() not in HOW:
            raise UnknownName(f"dependency in {text!r}:", how, HOW)
        if not jobs or not all(each.strip() for each in jobs):
            raise BadInput(f"dependency {text!r}: no job after {how!r}", f"use {how}:ID")
        pairs += [(how.lower(), each.strip()) for each in jobs]
    return pairs


def checkpoint_signal(text: str) -> tuple[int, float | None]:
    """The signal of `[B:]USR1[@60]`, and how long before the end it is to come, if stated.

    Raises:
        BadInput: no such signal.
    """
    found = re.fullmatch(r"(?:[BR]+:)?([A-Za-z0-9]+)(?:@([0-9]{1,5}))?", text.strip())
    name = found[1].upper().removeprefix("SIG") if found else ""
    known = {each.name.removeprefix("SIG"): int(each) for each in signal.Signals}
    number = known.get(name, int(name) if name.isascii() and name.isdigit() else 0)
    if not found or number not in known.values():
        raise BadInput(f"--signal {text!r} is not a signal", "use e.g. USR1 or USR1@60")
    return number, float(found[2]) if found[2] else None


def gpu_share(text: str) -> tuple[int, int]:
    """Devices, and thousandths of each: `2`, or `0.25` for a quarter of one; also `gpu:a100:2`.

    Raises:
        BadInput: anything else.
    """
    number = text.strip().rsplit(":", 1)[-1]
    if re.fullmatch(r"[0-9]{1,4}", number):
        return int(number), 1000
    if re.fullmatch(r"0?\.[0-9]{1,3}", number) and float(number) > 0:
        return 1, round(float(number) * 1000)
    raise BadInput(f"{text!r} is not a number of devices", "use e.g. 2, or 0.25 for a share of one")


CARRIED = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("CONDA_DEFAULT_ENV", "LANG", "LC_ALL", "TZ"),
)
"""What a job gets without --export: enough to find the same programs."""


def exported(text: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables a job is given: `ALL`, `NONE`, `NAME`, `NAME=value`, with commas between.

    Raises:
        BadInput: a name that cannot be one.
    """
    if text is None:
        return {name: environ[name] for name in CARRIED if name in environ}
    chosen: dict[str, str] = {}
    for part in (each for each in text.split(",") if each.strip()):
        name, equals, value = part.strip().partition("=")
        if name.upper() == "ALL" and not equals:
            chosen.update(environ)
        elif name.upper() == "NONE" and not equals:
            continue
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"--export: {name!r} is not a variable", "use ALL, NONE, A or A=1,B=2")
        elif equals:
            chosen[name] = value
        elif name in environ:
            chosen[name] = environ[name]
    return chosen


# Scripts -------------------------------------------------------------------------


def is_script(path: Path) -> bool:
    """Whether a file is a text to be run by an interpreter."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    if b"\0" in head:
        return False
    return head.startswith(b"#!") or path.suffix in SCRIPT_ENDINGS or MARK.encode() in head


def read_script(path: Path) -> Script:
    """A script's interpreter and its options.

    Raises:
        BadInput: too large, or an option that is not understood, with the line.
    """
    if path.stat().st_size > MAX_SCRIPT_BYTES:
        raise BadInput(f"{path}: larger than a script can be", "name the program that runs it")
    lines = path.read_text("utf-8", errors="replace").splitlines()
    interpreter: tuple[str, ...] = ("/bin/sh",)
    if lines and lines[0].startswith("#!") and lines[0][2:].strip():
        # As the kernel reads it: a program and at most one argument.
        interpreter = tuple(lines[0][2:].strip().split(None, 1))
    options: dict[str, str] = {}
    notes: list[str] = []
    body = next((i for i, line in enumerate(lines) if _is_command(line)), len(lines))
    for number, line in enumerate(lines[:body], start=1):
        if line.split(None, 1)[:1] == [MARK]:
            options.update(_line_options(line, f"{path} line {number}", notes))
    late = sum(line.split(None, 1)[:1] == [MARK] for line in lines[body:])
    if late:
        notes.append(f"{path}: {late} {MARK} lines after the first command have no effect")
    return Script(path.resolve(), interpreter, options, notes)


def _is_command(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _line_options(line: str, where: str, notes: list[str]) -> dict[str, str]:
    try:
        words = shlex.split(line.removeprefix(MARK), comments=True)
    except ValueError as error:
        raise BadInput(f"{where}: {error}", "close the quotation") from None
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, value = _split(word, where)
        if name in FLAGS:
            options[name] = ""
        elif name in IGNORED:
            if value is None and name not in BARE:
                next(rest, None)
            notes.append(ignored(name, where))
        else:
            options[name] = _needed(value, rest, word, where)
    return options


def _split(word: str, where: str) -> tuple[str, str | None]:
    """The long name of an option and its value, if the same word holds it."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if name not in (*VALUED, *FLAGS, *IGNORED):
            known = tuple(f"--{each}" for each in (*VALUED, *FLAGS, *IGNORED))
            raise UnknownName(f"option in {where}:", f"--{name}", known)
        return name, value if equals else None
    letter = word[1:2]
    if not word.startswith("-") or letter not in SHORT:
        raise UnknownName(f"option in {where}:", word, tuple(f"-{each}" for each in SHORT))
    return SHORT[letter], word[2:].removeprefix("=") or None


def _needed(value: str | None, rest: Iterable[str], word: str, where: str) -> str:
    if value is None:
        value = next(iter(rest), None)
    if not value:
        raise BadInput(f"{where}: {word} needs a value", f"write {word}=VALUE")
    return value


def ignored(name: str, where: str = "") -> str:
    """A note about an option that has no effect here."""
    why = IGNORED[name]
    said = f"--{name} has no effect" + (f": {why}" if why else "")
    return f"{where}: {said}" if where else said
