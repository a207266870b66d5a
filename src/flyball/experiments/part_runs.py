"""Run the parts of a long measurement: check first, keep what is finished, go on past failures.

What a part needs is checked before any of them starts. A part that cannot run here is named with
what to install; one that fails while it runs is named with its reason, and the others still run.
Finished parts are in a `RunFile`, so that nothing measured is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any

from flyball.core.errors import DataAbsent, FlyballError, UnknownName
from flyball.core.metrics import without_nan
from flyball.core.shared_data import shared_data
from flyball.experiments.run_file import Note, RunFile, key_of, source_version

SOURCES = ("**/*.py", "data/*.*")
FAILED = 1
"""Exit code of a command of which a part failed by a fault of ours."""
EXTRAS = {"torch": "learn", "safetensors": "learn"}
"""Module -> the extra of this package that installs it."""


@dataclass(frozen=True)
class BenchPart:
    """One part of a measurement.

    Attributes:
        run: measures it; the result must fit into JSON.
        about: what is measured, for people.
        modules: Python modules that it needs besides the base install.
        data: files of the shared data that it needs.
    """

    run: Callable[[Note], Any]
    about: str = ""
    modules: tuple[str, ...] = ()
    data: tuple[tuple[str, ...], ...] = ()

    def missing(self) -> str:
        """What it needs and is not here, with the remedy; "" = nothing."""
        for module in self.modules:
            if find_spec(module) is None:
                remedy = f"pip install 'flyball[{EXTRAS[module]}]'"
                return f"needs {module}, which is not installed; {remedy}"
        for path in self.data:
            try:
                shared_data(*path)
            except DataAbsent as absent:
                return str(absent)
        return ""


@dataclass(frozen=True)
class NotRun:
    """A part without a result.

    Attributes:
        failed: whether it began and failed; else it could not begin here.
        exit_code: of the command, if this part was asked for.
    """

    part: str
    reason: str
    failed: bool
    exit_code: int = DataAbsent.exit_code


@dataclass
class Outcome:
    """What came of all parts.

    Attributes:
        results: by name, in the order of the parts.
        not_run: the others.
        requested: whether the user named the parts, rather than asking for all there are.
    """

    results: dict[str, Any] = field(default_factory=dict)
    not_run: list[NotRun] = field(default_factory=list)
    requested: bool = False

    @property
    def rows(self) -> list[Any]:
        """The rows of every part, for parts whose results are rows."""
        return [row for rows in self.results.values() for row in rows]

    @property
    def exit_code(self) -> int:
        """0 if everything that can run here did; a part asked for by name must have run."""
        counted = [each for each in self.not_run if each.failed or self.requested]
        return max((each.exit_code for each in counted), default=0)

    def missing(self) -> list[dict[str, Any]]:
        """The parts without a result as JSON shows them."""
        return [asdict(each) for each in self.not_run]


Measured = Iterator[tuple[str, Any]]
Measure = Callable[[Sequence[str]], Measured]
"""Gives each part's name with its result, or with the exception that ended it."""


def run_parts(
    parts: Mapping[str, BenchPart],
    only: Sequence[str],
    note: Note,
    runs: RunFile,
    setting: Any = None,
    measure: Measure | None = None,
    done: Note = lambda _part: None,
) -> Outcome:
    """Run the parts named, or all, except those that the file has.

    Args:
        parts: all there are, in the order in which they run.
        only: names of parts; none = all.
        note: told what is being done, and which parts cannot run or failed.
        runs: keeps each result as soon as it is there.
        setting: whatever else a result depends on, such as sizes; fits into JSON.
        measure: runs parts in another way than one after the other in this process.
        done: told the name of each part that is over, whatever came of it.

    Raises:
        UnknownName: no such part.
        DataAbsent: none of the parts can run here.
    """
    for name in only:
        if name not in parts:
            raise UnknownName("part", name, parts)
    names = [name for name in parts if not only or name in only]
    keys = {name: key_of("part", name, setting, source_version(SOURCES)) for name in names}
    outcome = Outcome(requested=bool(only))
    left = _startable(parts, [n for n in names if keys[n] not in runs.records], note, outcome)
    if len(outcome.not_run) == len(names):
        reasons = "; ".join(f"{each.part} {each.reason}" for each in outcome.not_run)
        raise DataAbsent(f"nothing can be measured here: {reasons}")
    for name in names:
        if name not in left:
            done(name)
    for name, result in (measure or _one_by_one(parts, note))(left):
        if isinstance(result, Exception):
            outcome.not_run.append(_failed(name, result))
            note(f"{name} failed: {outcome.not_run[-1].reason}")
        else:
            runs.append({"key": keys[name], "part": name, "result": without_nan(result)})
        done(name)
    outcome.results = {n: runs.records[keys[n]]["result"] for n in names if keys[n] in runs.records}
    return outcome


def _startable(
    parts: Mapping[str, BenchPart], names: Sequence[str], note: Note, outcome: Outcome
) -> list[str]:
    """The parts that have all they need; the others are named at once."""
    out = []
    for name in names:
        if reason := parts[name].missing():
            outcome.not_run.append(NotRun(name, reason, failed=False))
            note(f"{name} is left out: it {reason}")
        else:
            out.append(name)
    return out


def _one_by_one(parts: Mapping[str, BenchPart], note: Note) -> Measure:
    def measure(names: Sequence[str]) -> Measured:
        for name in names:
            note(f"{name}: {parts[name].about}" if parts[name].about else name)
            yield name, attempted(parts[name].run, note)

    return measure


def attempted(run: Callable[[Note], Any], note: Note) -> Any:
    """The result, or the exception: one part's end is not the end of the others."""
    try:
        return run(note)
    except Exception as error:
        return error


def reason_of(error: Exception) -> str:
    """Why a part failed; a fault of ours also says where it happened."""
    if isinstance(error, FlyballError):
        return str(error)
    reason, trace = f"{type(error).__name__}: {error}", error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        reason += f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return reason


def _failed(name: str, error: Exception) -> NotRun:
    code = error.exit_code if isinstance(error, FlyballError) else FAILED
    return NotRun(name, reason_of(error), failed=True, exit_code=code)
