"""The forms in which Slurm writes times, sizes, arrays, devices and the like.

Everything here is a pure function of text.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.jobs import Dependency
from flyball.core.units import MIB_PER_GIB
from flyball.sdk.submitter import carried

HOW = tuple(each.value for each in Dependency)
"""The ways in which a job may follow another."""
NOT_HAD = {
    "singleton": "use afterany:ID with the number of the job before it",
    "after": "use afterany:ID: when the other has ended",
    "aftercorr": "use afterok:ID: when all tasks of the other have succeeded",
    "afterburstbuffer": "use afterany:ID",
}
"""Ways of Slurm that this does not know, and what comes nearest."""
MAX_TASKS = 10_000
MAX_INDEX = 4_000_000
MAX_TIME_S = 10 * 366 * 86_400.0
MAX_MIB = 2**40
SIGNAL_BEFORE_S = 60.0
"""How long before the time limit a signal is sent if that is not stated, as in Slurm."""

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
        if how.lower() in NOT_HAD:
            raise BadInput(f"dependency {how!r} cannot be had", NOT_HAD[how.lower()])
        if how.lower() not in HOW:
            raise UnknownName(f"dependency in {text!r}:", how, HOW)
        if not jobs or not all(each.strip() for each in jobs):
            raise BadInput(f"dependency {text!r}: no job after {how!r}", f"use {how}:ID")
        pairs += [(how.lower(), each.strip()) for each in jobs]
    return pairs


class Signal(NamedTuple):
    """What `--signal` asks for.

    Attributes:
        number: of the signal.
        before_s: how long before the time limit it is sent; None = not stated.
        to_shell: `B:` was stated: only the process of the batch script gets it.
    """

    number: int
    before_s: float | None
    to_shell: bool

    def as_values(self, is_script: bool) -> dict[str, Any]:
        """Fields of the job.

        Args:
            is_script: the job is a batch script: without `B:` the programs it has started get the
                signal, as the steps of a job do in Slurm.
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
    """The signal of `[B:]USR1[@60]`.

    Raises:
        BadInput: no such signal.
    """
    found = re.fullmatch(r"(?:([BR]+):)?([A-Za-z0-9]+)(?:@([0-9]{1,5}))?", text.strip())
    name = found[2].upper().removeprefix("SIG") if found else ""
    known = {each.name.removeprefix("SIG"): int(each) for each in signal.Signals}
    number = known.get(name, int(name) if name.isascii() and name.isdigit() else 0)
    if not found or number not in known.values():
        raise BadInput(f"--signal {text!r} is not a signal", "use e.g. USR1 or USR1@60")
    return Signal(number, float(found[3]) if found[3] else None, "B" in (found[1] or ""))


def gpu_share(text: str) -> tuple[int, int]:
    """Devices, and thousandths of each: `2`, or `0.25` for a quarter of one; also `a100:2`.

    Raises:
        BadInput: anything else.
    """
    found = re.fullmatch(r"(?:[A-Za-z][\w.-]*:){0,2}([0-9.]+)", text.strip())
    number = found[1] if found else ""
    if re.fullmatch(r"[0-9]{1,4}", number):
        return int(number), 1000
    if re.fullmatch(r"0?\.[0-9]{1,3}", number) and float(number) > 0:
        return 1, round(float(number) * 1000)
    raise BadInput(f"{text!r} is not a number of GPUs", "use e.g. 2, or 0.25 for a share of one")


def gres(text: str) -> tuple[list[str], list[str]]:
    """What `--gres` lists, with commas between: devices as in `gpu_share`, and all else.

    `gpu`, `gpu:2`, `gpu:a100` and `gpu:a100:2` are devices; `tmpdisk:10` is something else.

    Returns:
        Devices (`2`, `a100:2`), and the names of what else is wanted.
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
    """The devices of `--gres`, as `gpu_share` gives them; none is 0.

    Raises:
        BadInput: no number of devices.
    """
    shares = [gpu_share(each) for each in gres(text)[0]]
    if len(shares) == 1:
        return shares[0]
    if any(milli < 1000 for _count, milli in shares):
        raise BadInput(f"{text!r}: shares of several GPUs", "ask for one share")
    return sum(count for count, _milli in shares), 1000


def exported(text: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables a job is given: `ALL`, `NONE`, `NAME`, `NAME=value`, with commas between.

    Raises:
        BadInput: a name that cannot be one.
    """
    if text is None:
        return carried(environ)
    chosen: dict[str, str] = {}
    for part in (each for each in text.split(",") if each.strip()):
        name, equals, value = part.strip().partition("=")
        if name.upper() == "ALL" and not equals:
            # Submitted from within a job: who that one is must not be told to this one.
            chosen |= {
                each: value for each, value in environ.items() if not each.startswith("SLURM_")
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
