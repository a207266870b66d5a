"""Batch scripts: their interpreter, their `#SBATCH` options, and whether they call srun."""

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
    """Holds what was read from a batch script.

    Attributes:
        path: absolute path of the script.
        interpreter: the words before its path in the command.
        options: options of its `#SBATCH` lines, by long name.
        origins: the line of each option, for messages.
        notes: messages for the user.
        srun: the first line that calls srun; "" = none does.
    """

    path: Path
    interpreter: tuple[str, ...]
    options: dict[str, str]
    origins: dict[str, str]
    notes: list[str]
    srun: str


def is_script(path: Path) -> bool:
    """Return whether a file is a text that an interpreter runs."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    if b"\0" in head:
        return False
    return head.startswith(b"#!") or path.suffix in SCRIPT_ENDINGS or MARK.encode() in head


def read_script(path: Path) -> Script:
    """Read a script's interpreter and its options.

    Raises:
        BadInput: too large, or an option is not understood; names the line.
    """
    lines = _lines(path)
    interpreter: tuple[str, ...] = ("/bin/sh",)
    if lines and lines[0].startswith("#!") and lines[0][2:].strip():
        # As the kernel reads it: a program and at most one argument.
        interpreter = tuple(lines[0][2:].strip().split(None, 1))
    options: dict[str, str] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    body = next((i for i, line in enumerate(lines) if _is_command(line)), len(lines))
    for number, line in enumerate(lines[:body], start=1):
        if line.split(None, 1)[:1] == [MARK]:
            where = f"{path} line {number}"
            line_options = read_words(_words(line, where), where)
            options = joined(options, line_options)
            origins |= dict.fromkeys(line_options, where)
    late = sum(line.split(None, 1)[:1] == [MARK] for line in lines[body:])
    if late:
        notes.append(f"{path}: {late} {MARK} lines after the first command have no effect")
    calls = next((i for i, line in enumerate(lines[body:], body + 1) if _calls_srun(line)), 0)
    srun = f"{path} line {calls}" if calls else ""
    return Script(path.resolve(), interpreter, options, origins, notes, srun)


def _lines(path: Path) -> list[str]:
    if path.stat().st_size > MAX_SCRIPT_BYTES:
        raise BadInput(f"{path}: larger than a script can be", "name the program that runs it")
    content = path.read_bytes()
    if b"\r\n" in content:  # refused as in Slurm: the shell would read \r as part of each last word
        raise BadInput(f"{path}: has Windows line ends", f"try sed -i 's/\\r$//' {path}")
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
        raise BadInput(f"{where}: heterogeneous jobs are not supported", "submit a script for each")
    return words
