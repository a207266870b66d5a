"""Parses a command line, a batch script or a job file into the jobs that it describes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from flyball.cli.jobs import batch_script, sbatch
from flyball.cli.jobs.job_file import ENDINGS, Draft, read_jobs, size_range
from flyball.cli.jobs.notation import check, path_text, reader_of
from flyball.cli.jobs.program_check import check_program
from flyball.cli.jobs.slurm_options import FLAGS, IGNORED, SEPARATOR, notes_of
from flyball.core.errors import BadInput
from flyball.core.job_fields import FIELDS

Value = TypeVar("Value")
ALTERNATIVES = (
    ("requeue", "no-requeue"),
    ("mem", "mem-per-cpu", "mem-per-gpu"),
    ("gpus", "gpus-per-node", "gpus-per-task", "gres"),
    ("ntasks", "ntasks-per-node", "ntasks-per-gpu"),
    ("cpus-per-task", "cpus-per-gpu"),
)
"""Options that exclude each other: one on the command line replaces all of the script's."""
SHELL = ("/bin/sh", "-c")
COMPOSED = frozenset(
    {
        *("cwd", "env", "cpus", "gpus", "device_type", "memory_mib", "tasks_per_node"),
        *("least", "stdout", "stderr", "checkpoint_signal", "after", "array", "notify"),
    }
)
"""Fields whose options say more than one value, or are read together with others."""
SINGLE = {
    option: row
    for row in FIELDS.values()
    if row.name not in COMPOSED
    for option in (row.long_option, row.off[2:])
    if option
}
"""The field that each option with a value of its own sets."""


class Request(NamedTuple):
    """Holds what a command line asks for.

    Attributes:
        drafts: the jobs.
        notes: messages for the user.
        flags: options without a value that concern the submission, not the job.
        origins: the script's line of each option that comes from a script.
    """

    drafts: list[Draft]
    notes: list[str]
    flags: frozenset[str] = frozenset()
    origins: Mapping[str, str] = MappingProxyType({})


def parse_command(command: Sequence[str], options: Mapping[str, str], dashes: bool) -> Request:
    """Return the jobs that a command line describes, with notes for the user.

    Args:
        command: all words after the options.
        options: by long name.
        dashes: whether `--` preceded the command; then it is never a script or a job file.

    Raises:
        BadInput: something is not understood; names the option and the line of the script.
    """
    request = _parse(command, options, dashes)
    for draft in request.drafts:
        check_program(draft.values["argv"], Path(draft.values["cwd"]))
    return request


def _parse(command: Sequence[str], options: Mapping[str, str], dashes: bool) -> Request:
    file = Path(command[0])
    if not dashes and file.suffix in ENDINGS:
        return _parse_file(file, command[1:], options)
    here = Path.cwd()
    if not dashes and file.suffix in batch_script.SCRIPT_ENDINGS and not file.is_file():
        raise BadInput(f"{file}: no such script", "name one, or put -- before a command")
    if not dashes and batch_script.is_script(file):
        return _parse_script(file, command[1:], options, here)
    draft = draft_of(command, options, here)
    notes = remarks(options, {})
    if "/" not in command[0] and shutil.which(command[0]) is None:
        notes.append(f"no program {command[0]!r} on your PATH")
    return Request([draft], notes, _flags(options))


def parse_wrapped(line: str, options: Mapping[str, str]) -> Request:
    """Return the job of `--wrap`, a line for the shell."""
    asked = {"job-name": "wrap", **options}
    draft = draft_of([*SHELL, line], asked, Path.cwd())
    return Request([draft], remarks(options, {}), _flags(options))


def _parse_file(file: Path, rest: Sequence[str], options: Mapping[str, str]) -> Request:
    extra = [f"--{name}" for name in options if name not in IGNORED and name not in FLAGS]
    if rest or extra:
        what = rest[0] if rest else extra[0]
        raise BadInput(f"{what!r} does not go with a job file", f"write it into {file}")
    return Request(read_jobs(file), notes_of(options, {}), _flags(options))


def _parse_script(
    file: Path, rest: Sequence[str], options: Mapping[str, str], here: Path
) -> Request:
    script = batch_script.read_script(file)
    asked = {"job-name": file.name, **merged(script.options, options)}
    origins = {name: line for name, line in script.origins.items() if name not in options}
    draft = draft_of([*script.interpreter, str(script.path), *rest], asked, here, origins, True)
    notes = [*remarks(asked, origins), *script.notes]
    if script.srun and shutil.which("srun") is None:
        notes.append(f"{script.srun} calls srun, and there is none on your PATH; {NO_SRUN}")
    return Request([draft], notes, _flags(asked), origins)


NO_SRUN = "drop the word srun (mpirun, torchrun and the like start several processes)"


def _flags(options: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name in ("wait", "dry-run") if name in options)


def merged(script: Mapping[str, str], line: Mapping[str, str]) -> dict[str, str]:
    """Merge a script's options with those of the command line, which take precedence."""
    hidden = {name for group in ALTERNATIVES if line.keys() & set(group) for name in group}
    return {key: value for key, value in script.items() if key not in hidden} | dict(line)


def remarks(options: Mapping[str, str], origins: Mapping[str, str]) -> list[str]:
    """Return notes on options that do less here than in Slurm, or nothing."""

    def remark(name: str, words: str) -> str:
        return f"{origins[name]}: --{name}: {words}" if name in origins else f"--{name}: {words}"

    notes = notes_of(options, origins)
    _gpus, others = sbatch.gres(options.get("gres", ""))
    if others:
        notes.append(remark("gres", f"{', '.join(others)} not managed here, and ignored"))
    if "signal" in options:
        limit_s = sbatch.time_s(options.get("time", "0"))
        before_s = sbatch.limit_signal(options["signal"]).before_s or sbatch.SIGNAL_BEFORE_S
        if not limit_s:
            notes.append(remark("signal", "without --time, sent only when the job is preempted"))
        elif before_s >= limit_s:
            words = f"sent at the start: its limit of {limit_s:g} s is not above {before_s:g} s"
            notes.append(remark("signal", words))
    return notes


class Reader:
    """Reads options one by one; its errors name the option and its line."""

    def __init__(self, options: Mapping[str, str], origins: Mapping[str, str]) -> None:
        self.options = options
        self.origins = origins

    def __call__(self, name: str, reader: Callable[[str], Value]) -> Value | None:
        """Return the value of an option; None = not stated."""
        if name not in self.options:
            return None
        try:
            return reader(self.options[name])
        except BadInput as error:
            raise BadInput(f"{self.place(name)}: {error}") from None

    def place(self, name: str) -> str:
        """Return the option's name for messages, with its line in the script."""
        return f"{self.origins[name]}: --{name}" if name in self.origins else f"--{name}"


class Size(NamedTuple):
    """Holds the resources that a job asks for; None = not stated."""

    tasks: int
    tasks_per_node: int | None
    cpus: int
    gpus: int | None
    milli: int | None
    device_type: str | None
    memory_mib: int | None


def size_of(read: Reader) -> Size:
    """Return the resources that the options ask for, in any of Slurm's forms.

    Raises:
        BadInput: not a number, out of bounds, or an amount per GPU without GPUs.
    """
    some = reader_of(FIELDS["cpus"])
    tasks_per_node = read("ntasks-per-node", reader_of(FIELDS["tasks_per_node"]))
    tasks = read("ntasks", some) or tasks_per_node
    gpus, milli = (
        read("gpus", sbatch.gpu_share)
        or read("gpus-per-node", sbatch.gpu_share)
        or read("gres", sbatch.gres_share)
        or (None, None)
    )
    if gpus is None and (per_task := read("gpus-per-task", sbatch.gpu_share)):
        gpus, milli = per_task[0] * (tasks or 1), per_task[1]
    for name in ("ntasks-per-gpu", "cpus-per-gpu", "mem-per-gpu"):
        if name in read.options and not gpus:
            raise BadInput(f"{read.place(name)}: no GPUs are requested", "add --gpus")
    tasks = tasks or (read("ntasks-per-gpu", some) or 0) * (gpus or 0) or 1
    cpus = tasks * (read("cpus-per-task", some) or 1)
    if "cpus-per-task" not in read.options:
        cpus = max(cpus, (read("cpus-per-gpu", some) or 0) * (gpus or 0))
    size = reader_of(FIELDS["memory_mib"])
    memory_mib = read("mem", size)
    for name, count in (("mem-per-gpu", gpus), ("mem-per-cpu", cpus)):
        if unit_mib := read(name, size):
            memory_mib = unit_mib * (count or 0)
    for name, value in (("cpus", cpus), ("gpus", gpus), ("memory_mib", memory_mib)):
        if value is not None:
            check(name, value)
    return Size(tasks, tasks_per_node, cpus, gpus, milli, _device_type(read), memory_mib)


def _device_type(read: Reader) -> str | None:
    """Return the type of GPU that the options ask for; None = none."""
    return (
        read("device-type", reader_of(FIELDS["device_type"]))
        or read("gpus", sbatch.gpu_type)
        or read("gpus-per-node", sbatch.gpu_type)
        or read("gpus-per-task", sbatch.gpu_type)
        or read("gres", sbatch.gres_type)
        or None
    )


def draft_of(
    argv: Sequence[str],
    options: Mapping[str, str],
    folder: Path,
    origins: Mapping[str, str] | None = None,
    is_script: bool = False,
) -> Draft:
    """Return the job that options describe.

    Args:
        folder: working folder of the submitter.
        origins: the script's line of each option that comes from a script.
        is_script: the command is a batch script.

    Raises:
        BadInput: a value is not understood; names the option and its line.
    """
    read = Reader(options, origins or {})
    size = size_of(read)
    least, most = read("elastic", size_range) or (None, None)
    signal = read("signal", sbatch.limit_signal)
    cwd = (folder / (read("chdir", path_text) or ".")).resolve()
    if not cwd.is_dir():
        raise BadInput(f"{read.place('chdir')}: no folder {str(cwd)!r}", "make it or name another")
    output, error = read("output", path_text), read("error", path_text)
    fields: dict[str, Any] = {
        "argv": list(argv),
        "cwd": str(cwd),
        "env": _variables(size, folder, cwd) or None,
        "tasks_per_node": size.tasks_per_node,
        "cpus": size.cpus,
        "gpus": size.gpus,
        "milli": size.milli,
        "device_type": size.device_type,
        "least": least,
        "most": most,
        "memory_mib": size.memory_mib,
        "stdout": str(cwd / output) if output else None,
        "stderr": str(cwd / error) if error else None,
        "notify": read("notify", lambda targets: targets.split(SEPARATOR)),
    }
    values = {key: value for key, value in fields.items() if value is not None}
    values |= signal.as_values(is_script) if signal else {}
    for name, value in values.items():
        check(name, value)
    values |= _single_values(read)
    after = read("dependency", sbatch.dependencies) or []
    return Draft(values, after, read("array", sbatch.array_tasks), options.get("export"))


def _single_values(read: Reader) -> dict[str, Any]:
    """Return the values of the fields that one option sets, where it is stated."""
    values: dict[str, Any] = {}
    for name in read.options:
        row = SINGLE.get(name)
        if row is None:
            continue
        if not row.is_switch:
            values[row.name] = read(name, reader_of(row))
        elif name == row.off[2:]:
            values[row.name] = False
        elif not row.default:
            values[row.name] = True
    return values


def _variables(size: Size, folder: Path, cwd: Path) -> dict[str, str]:
    """Return the variables of Slurm that only the submission knows; the engine sets the rest."""
    variables = {}
    if size.tasks > 1 and size.tasks != size.tasks_per_node:
        tasks = str(size.tasks)
        variables = dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"), tasks)
        variables["SLURM_CPUS_PER_TASK"] = str(size.cpus // size.tasks)
    if folder.resolve() != cwd:
        variables["SLURM_SUBMIT_DIR"] = str(folder)
    return variables
