"""Refuses commands that name a script as if it were a program, before they are submitted."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from flyball.core.errors import BadInput

INTERPRETERS = {".py": "python", ".sh": "bash", ".bash": "bash"}
"""Interpreter of a file, by its ending."""


def check_program(argv: Sequence[str], cwd: Path) -> None:
    """Check that the kernel can execute a Python or shell file named as the program.

    Args:
        argv: the command and its arguments.
        cwd: where the job runs; a relative path is resolved there.

    Raises:
        BadInput: it cannot; names the command that was probably meant.
    """
    program = argv[0]
    ending = Path(program).suffix
    if ending not in INTERPRETERS:
        return
    file = cwd / program
    is_bare = "/" not in program
    if is_bare and shutil.which(program) is not None:
        return
    if not file.is_file():
        if is_bare:
            raise BadInput(f"{program}: no such file in {cwd}", "name a file that is there")
        return  # an earlier job may still write the file
    problem = "is not on your PATH" if is_bare else _problem(file)
    if problem:
        raise BadInput(f"{program} {problem}", f"did you mean: {_meant(argv, ending)}")


def _problem(file: Path) -> str:
    """Return why the kernel would not execute this file; empty if it would."""
    if not os.access(file, os.X_OK):
        return "is not executable"
    with file.open("rb") as content:
        has_interpreter = content.read(2) == b"#!"
    return "" if has_interpreter else "has no #! line that names its interpreter"


def _meant(argv: Sequence[str], ending: str) -> str:
    command = shlex.join([INTERPRETERS[ending], *argv])
    if ending == ".py":
        return command
    return f"{command} (or, as a batch script, flyball submit {shlex.join(argv)})"
