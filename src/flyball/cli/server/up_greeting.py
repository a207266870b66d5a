"""The greeting of `flyball up`: its address, and commands that can be copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flyball.cli.live import CORE
from flyball.core.live import LiveNode

COMMANDS = """\
  flyball submit -- sleep 10      flyball queue      flyball top
  flyball open                    another link to the dashboard; the one above works once
  flyball logs ID -f              flyball why ID     flyball receipt ID
  flyball demo live               a dozen small training jobs"""


def greeting(
    url: str,
    folder: Path,
    state: Path | None,
    policy: str,
    nodes: Sequence[LiveNode],
    secret: str,
    ca: Path | None = None,
    link: str = "",
) -> Iterator[str]:
    """Yield the lines, the first with the address.

    Args:
        state: the folder if it was named by an option, so that other commands need it too.
        secret: the token if it may be shown; "" where the output may be stored.
        ca: the certificate that clients must trust.
        link: opens the dashboard once; "" where the output may be stored.
    """
    yield f"flyball is up: {url}"
    yield f"  open {link or '- the dashboard: flyball open'}"
    yield f"  {_size(nodes)}; policy {policy}"
    yield f"  state {folder}"
    token = shlex.quote(str(folder / "token"))
    yield f"  token {secret or token}"
    trust = f"--cacert {shlex.quote(str(ca))} " if ca else ""
    yield f'  curl {trust}-H "Authorization: Bearer $(cat {token})" {url}/api/v1/queue'
    yield "useful commands (in another terminal):"
    if line := path_line(shutil.which("flyball"), Path(sys.executable)):
        yield f"  {line}"
    if state is not None:
        yield f"  export FLYBALL_STATE={shlex.quote(str(folder.resolve()))}"
    yield COMMANDS


def path_line(on_path: str | None, python: Path) -> str:
    """Return the shell line that makes `flyball` run this program; "" if it already does.

    Args:
        on_path: path that a shell finds for `flyball`.
        python: the interpreter that runs this program.
    """
    program = python.parent / "flyball"
    if not program.exists():
        return f"alias flyball={shlex.quote(f'{shlex.quote(str(python))} -m flyball')}"
    if on_path is not None and os.path.samefile(on_path, program):
        return ""
    return f"export PATH={shlex.quote(str(program.parent))}:$PATH"


def _size(nodes: Sequence[LiveNode]) -> str:
    """Return the cluster's size; counts cores, since a device may stand for several of them."""
    cores = sum(node.cpus for node in nodes)
    devices = sum(node.devices for node in nodes if node.device != CORE)
    words = [f"{len(nodes)} node{'s' * (len(nodes) != 1)}"]
    if devices:
        words.append(f"{devices} GPU{'s' * (devices != 1)}")
    return ", ".join([*words, f"{cores} core{'s' * (cores != 1)}"])
