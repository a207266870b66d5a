"""Batch scripts: what runs them, what their `#SBATCH` lines say, whether they call srun."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from flyball.cli.jobs.slurm_options import joined, read_words
from flyball.core.errors import BadInput

MARK = "#SBATCH"
SCRIPT_ENDINGS = (".sh", ".bash", ".sbatch", ".slurm")
MAX_SCRIPT_BYTES = 4 * 2**20
SRUN = re.compile(
    r"(?:^|[;&|({`!]|\b(?:time|exec|nohup|then|do|else|if|while)\s)\s*"  # where a command begins
    r"(?:[A-Za-z_]\w*=\S*\s+)*srun(?:\s|$)"
)


class Script(NamedTuple):
    """A batch script as read.

    Attributes:
        interpreter: what runs it, in front of its path.
        options: of its `#SBATCH` lines, by long name.
        wheres: the line of each option.
        notes: what else is to be said about it.
        srun: the line that first calls srun, "" = none does.
    """

    path: Path
    interpreter: tuple[str, ...]
    options: dict[str, str]
    wheres: dict[str, str]
    notes: list[str]
    srun: str


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
    lines = _lines(path)
    interpreter: tuple[str, ...] = ("/bin/sh",)
    if lines and lines[0].startswith("#!") and lines[0][2:].strip():
        # As the kernel reads it: a program and at most one argument.
        interpreter = tuple(lines[0][2:].strip().split(None, 1))
    options: dict[str, str] = {}
    wheres: dict[str, str] = {}
    notes: list[str] = []
    body = next((i for i, line in enumerate(lines) if _is_command(line)), len(lines))
    for number, line in enumerate(lines[:body], start=1):
        if line.split(None, 1)[:1] == [MARK]:
            where = f"{path} line {number}"
            found = read_words(_words(line, where), where)
            options = joined(options, found)
            wheres |= dict.fromkeys(found, where)
    late = sum(line.split(None, 1)[:1] == [MARK] for line in lines[body:])
    if late:
        notes.append(f"{path}: {late} {MARK} lines after the first command have no effect")
    calls = next((i for i, line in enumerate(lines[body:], body + 1) if _calls_srun(line)), 0)
    srun = f"{path} line {calls}" if calls else ""
    return Script(path.resolve(), interpreter, options, wheres, notes, srun)


def _lines(path: Path) -> list[str]:
    if path.stat().st_size > MAX_SCRIPT_BYTES:
        raise BadInput(f"{path}: larger than a script can be", "name the program that runs it")
    content = path.read_bytes()
    if b"\r\n" in content:  # as in Slurm: the shell would take the \r for a part of every word
        raise BadInput(f"{path}: has the line ends of Windows", f"try sed -i 's/\\r$//' {path}")
    return content.decode("utf-8", errors="replace").splitlines()


def _is_command(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _calls_srun(line: str) -> bool:
    return _is_command(line) and bool(SRUN.search(line))


def _words(line: str, where: str) -> list[str]:
    try:
        words = shlex.split(line.removeprefix(MARK), comments=True)
    except ValueError as error:
        raise BadInput(f"{where}: {error}", "close the quotation") from None
    if words[:1] in (["hetjob"], ["packjob"]):
        raise BadInput(f"{where}: jobs of several parts cannot be had", "submit a script for each")
    return words
