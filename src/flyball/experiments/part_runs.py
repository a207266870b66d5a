"""Runs the parts of a long measurement: check first, keep what is finished, go on past failures.

What a part needs is checked before any of them starts. A part that cannot run here is reported with
what to install; one that fails while it runs is reported with its reason, and the others still run.
Finished parts are kept in a `RunFile`, so that no measurement is lost.
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
"""Exit code of a command if one of its parts failed by a bug of ours."""
EXTRAS = {
    **dict.fromkeys(("torch", "safetensors"), "learn"),
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime", "openvino"), "models"),
}
"""The extra of this package that installs a module."""


@dataclass(frozen=True)
class BenchPart:
    """One part of a measurement.

    Attributes:
        run: measures it; the result must be serialisable as JSON.
        about: what is measured, for people.
        modules: Python modules that it needs besides the base install.
        data: files of the shared data that it needs.
    """

    run: Callable[[Note], Any]
    about: str = ""
    modules: tuple[str, ...] = ()
    data: tuple[tuple[str, ...], ...] = ()

    def missing(self) -> str:
        """Return what it needs and is absent, with the remedy; "" = nothing."""
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
        failed: whether it started and failed; else it could not start here.
        exit_code: of the command, if this part was requested.
    """

    part: str
    reason: str
    failed: bool
    exit_code: int = DataAbsent.exit_code


@dataclass
class Outcome:
    """The results of all parts.

    Attributes:
        results: by name, in the order of the parts.
        not_run: the others.
        requested: whether the user named the parts; else all were to run.
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
        """0 if everything that can run here did; a part requested by name must have run."""
        counted = [part for part in self.not_run if part.failed or self.requested]
        return max((part.exit_code for part in counted), default=0)

    def missing(self) -> list[dict[str, Any]]:
        """Return the parts without a result, as JSON shows them."""
        return [asdict(part) for part in self.not_run]


Measured = Iterator[tuple[str, Any]]
Measure = Callable[[Sequence[str]], Measured]
"""Yields each part's name with its result, or with the exception that ended it."""


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
        parts: all parts, in the order in which they run.
        only: names of parts; none = all.
        note: receives what is being done, and which parts cannot run or failed.
        runs: keeps each result as soon as it is measured.
        setting: whatever else a result depends on, such as sizes; serialisable as JSON.
        measure: runs parts in another way than one after the other in this process.
        done: receives the name of each part that is over, measured or not.

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
        reasons = "; ".join(f"{part.part} {part.reason}" for part in outcome.not_run)
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
    """Return the parts that have all they need; report the others at once."""
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
    """Return the result, or the exception: a part that fails does not end the others."""
    try:
        return run(note)
    except Exception as error:
        return error


def reason_of(error: Exception) -> str:
    """Return why a part failed; for a bug of ours also where it happened."""
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
