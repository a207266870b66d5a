"""Parsers of Slurm's notation for times, sizes, arrays, GPUs and the like.

Everything here is a pure function of text.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.job_fields import MAX_TASKS
from flyball.core.jobs import Dependency
from flyball.core.units import MIB_PER_GIB
from flyball.sdk.submitter import carried

HOW = tuple(dependency.value for dependency in Dependency)
"""Kinds of dependency of a job on another."""
UNSUPPORTED = {
    "singleton": "use afterany:ID with the number of the job before it",
    "after": "use afterany:ID: when the other has ended",
    "aftercorr": "use afterok:ID: when all tasks of the other have succeeded",
    "afterburstbuffer": "use afterany:ID",
}
"""Dependencies of Slurm that are not supported, and the nearest alternative."""
MAX_INDEX = 4_000_000
SIGNAL_BEFORE_S = 60.0
"""Default time between a signal and the time limit, as in Slurm."""

UNITS_S = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "m": 60.0, "sec": 1.0, "s": 1.0}
UNITS_MIB = {"K": 1 / 1024, "M": 1.0, "G": float(MIB_PER_GIB), "T": float(MIB_PER_GIB**2)}


class Tasks(NamedTuple):
    """Holds the tasks of an array.

    Attributes:
        indices: the task numbers, in order.
        limit: maximum number that may run at a time, 0 = no limit.
        text: the array as it was written, without spaces.
    """

    indices: tuple[int, ...]
    limit: int
    text: str


def time_s(text: str) -> float:
    """Return a time in Slurm's notation, or with units, in seconds; 0 = none.

    `90` is minutes; then `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`; `UNLIMITED`;
    and `45s`, `90m`, `1h30m`, `2d`.

    Raises:
        BadInput: anything else.
    """
    value = text.strip().lower()
    if value in ("unlimited", "infinite"):
        return 0.0
    seconds = _clock_s(value) if re.fullmatch(r"[0-9:-]+", value) else _units_s(value)
    if seconds is None:
        remedy = "use minutes, HH:MM:SS, D-HH:MM, or units: 90s, 1h30m, 2d"
        raise BadInput(f"{text!r} is not a time", remedy)
    return seconds


def _clock_s(value: str) -> float | None:
    days, dash, clock = value.rpartition("-")
    parts = clock.split(":")
    if not all(re.fullmatch(r"[0-9]{1,9}", part) for part in [*parts, *([days] if dash else [])]):
        return None
    numbers = [float(part) for part in parts]
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


def _units_s(value: str) -> float | None:
    one = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(d|h|min|m|sec|s)"
    if not re.fullmatch(f"(?:{one})+", value):
        return None
    return sum(float(number) * UNITS_S[unit] for number, unit in re.findall(one, value))


def memory_mib(text: str) -> int:
    """Return a size such as `512` (MiB), `4G` or `1.5T` in MiB, rounded up; 0 = not stated.

    Raises:
        BadInput: anything else.
    """
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)(?:I?B)?", text.strip().upper())
    if not match:
        raise BadInput(f"{text!r} is not a size", "use MiB, or e.g. 512M, 4G, 1.5T")
    return math.ceil(float(match[1]) * UNITS_MIB[match[2] or "M"])


def node_count(text: str) -> int:
    """Return the number of nodes of `2`, or the least of a range: `2-4`.

    Raises:
        BadInput: anything else.
    """
    match = re.fullmatch(r"([0-9]{1,9})(?:-[0-9]{1,9})?", text.strip())
    if not match:
        raise BadInput(f"{text!r} is not a number of nodes", "use e.g. 1 or 1-2")
    return int(match[1])


def array_tasks(text: str) -> Tasks:
    """Return the tasks of an array: `0-9`, `1,3,5-7`, `0-30:10`, and `%4` for four at a time.

    Raises:
        BadInput: anything else.
    """
    example = "use e.g. 0-9, 1,3,5-7:2 or 0-99%4"
    ranges, percent, limit = text.strip().partition("%")
    if percent and not re.fullmatch(r"[1-9][0-9]{0,6}", limit):
        raise BadInput(f"array {text!r} has no number of tasks after '%'", example)
    indices: set[int] = set()
    for part in ranges.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if not match:
            raise BadInput(f"array {text!r}: {part!r} is not a range of tasks", example)
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1)
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
    """Return the pairs (how, job as written) of `afterok:12:13,afterany:14_2`.

    Raises:
        BadInput: anything else, including dependencies of Slurm that are not supported.
    """
    if "?" in text:
        raise BadInput(f"dependency {text!r}: 'any one of' is not supported", "use ',' (all of)")
    pairs = []
    for part in text.split(","):
        how, *jobs = part.strip().split(":")
        if how.lower() in UNSUPPORTED:
            raise BadInput(f"dependency {how!r} is not supported", UNSUPPORTED[how.lower()])
        if how.lower() not in HOW:
            raise UnknownName(f"dependency in {text!r}:", how, HOW)
        if not jobs or not all(job.strip() for job in jobs):
            raise BadInput(f"dependency {text!r}: no job after {how!r}", f"use {how}:ID")
        pairs += [(how.lower(), job.strip()) for job in jobs]
    return pairs


class Signal(NamedTuple):
    """Holds the signal that `--signal` asks for.

    Attributes:
        number: number of the signal.
        before_s: seconds before the time limit at which it is sent; None = not stated.
        to_shell: `B:` was stated, so that only the process of the batch script gets it.
    """

    number: int
    before_s: float | None
    to_shell: bool

    def as_values(self, is_script: bool) -> dict[str, Any]:
        """Return the job's fields for this signal.

        Args:
            is_script: the job is a batch script: without `B:` the programs that it started get
                the signal, as the steps of a job do in Slurm.
        """
        grace = {} if self.before_s is None else {"grace_s": self.before_s}
        children = {"signal_children": True} if is_script and not self.to_shell else {}
        before_s = SIGNAL_BEFORE_S if self.before_s is None else self.before_s
        return {
            "checkpoint_signal": self.number,
            "signal_before_s": before_s,
            **grace,
            **children,
        }


def limit_signal(text: str) -> Signal:
    """Return the signal of `[B:]USR1[@60]`.

    Raises:
        BadInput: no such signal.
    """
    match = re.fullmatch(r"(?:([BR]+):)?([A-Za-z0-9]+)(?:@([0-9]{1,5}))?", text.strip())
    name = match[2].upper().removeprefix("SIG") if match else ""
    numbers = {entry.name.removeprefix("SIG"): int(entry) for entry in signal.Signals}
    number = numbers.get(name, int(name) if name.isascii() and name.isdigit() else 0)
    if not match or number not in numbers.values():
        raise BadInput(f"--signal {text!r} is not a signal", "use e.g. USR1 or USR1@60")
    return Signal(number, float(match[3]) if match[3] else None, "B" in (match[1] or ""))


def gpu_share(text: str) -> tuple[int, int]:
    """Return GPUs, and thousandths of each: `2`, or `0.25` for a quarter of one; also `a100:2`.

    Raises:
        BadInput: anything else.
    """
    match = re.fullmatch(r"(?:[A-Za-z][\w.-]*:){0,2}([0-9.]+)", text.strip())
    number = match[1] if match else ""
    if re.fullmatch(r"[0-9]{1,9}", number):
        return int(number), 1000
    if re.fullmatch(r"0?\.[0-9]{1,3}", number) and float(number) > 0:
        return 1, round(float(number) * 1000)
    raise BadInput(f"{text!r} is not a number of GPUs", "use e.g. 2, or 0.25 for a share of one")


def gpu_type(text: str) -> str:
    """Return the type of GPU in `a100:2` or `gpu:a100:2`; "" if none is stated."""
    words = [word for word in text.strip().split(":")[:-1] if word != "gpu"]
    return words[-1] if words else ""


def gres_type(text: str) -> str:
    """Return the type of GPU that `--gres` asks for; "" if none is stated.

    Raises:
        BadInput: several types.
    """
    types = {gpu_type(device) for device in gres(text)[0]} - {""}
    if len(types) > 1:
        raise BadInput(f"{text!r}: several types of GPU", "ask for one type")
    return types.pop() if types else ""


def gres(text: str) -> tuple[list[str], list[str]]:
    """Split the list of `--gres` into GPUs, in the form that `gpu_share` reads, and the rest.

    `gpu`, `gpu:2`, `gpu:a100` and `gpu:a100:2` are GPUs; `tmpdisk:10` is another resource.

    Returns:
        GPUs (`2`, `a100:2`), and the names of the other resources.
    """
    gpus, others = [], []
    for part in re.sub(r"\([^)]*\)", "", text).split(","):  # (S:0-1): which sockets
        name, *rest = re.split("[:=]", part.strip().removeprefix("gres/"))
        if name == "gpu":
            if not rest or not rest[-1][:1].isdigit():
                rest.append("1")
            gpus.append(":".join(rest))
        elif name not in ("", "none"):
            others.append(name)
    return gpus, others


def gres_share(text: str) -> tuple[int, int]:
    """Return the GPUs of `--gres`, in the form of `gpu_share`; 0 if there are none.

    Raises:
        BadInput: not a number of GPUs.
    """
    shares = [gpu_share(device) for device in gres(text)[0]]
    if len(shares) == 1:
        return shares[0]
    if any(milli < 1000 for _count, milli in shares):
        raise BadInput(f"{text!r}: shares of several GPUs", "ask for one share")
    return sum(count for count, _milli in shares), 1000


def exported(text: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a job's variables, from a comma-separated list of `ALL`, `NONE`, `NAME`, `NAME=value`.

    Raises:
        BadInput: not the name of a variable.
    """
    if text is None:
        return carried(environ)
    chosen: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        name, equals, value = part.strip().partition("=")
        if name.upper() == "ALL" and not equals:
            # If this runs within a job, that job's SLURM_ variables do not apply to the new one.
            chosen |= {
                key: content for key, content in environ.items() if not key.startswith("SLURM_")
            }
        elif name.upper() == "NONE" and not equals:
            continue
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"--export: {name!r} is not a variable", "use ALL, NONE, A or A=1,B=2")
        elif equals:
            chosen[name] = value
        elif name in environ:
            chosen[name] = environ[name]
    return chosen
