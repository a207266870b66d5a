"""What `flyball up` says once it is up: where it is, and lines that can be copied as they are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flyball.core.live import LiveNode

CORE = "CPU1"
COMMANDS = """\
  flyball submit -- sleep 10      flyball queue      flyball top
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
) -> Iterator[str]:
    """The lines, the first with the address.

    Args:
        state: the folder if it was named, so that the other commands must be told too.
        secret: the token if it may be shown; "" where what is printed may be kept.
        ca: the certificate that a client is to trust.
    """
    yield f"flyball is up: {url}"
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


def path_line(found: str | None, python: Path) -> str:
    """What makes `flyball` mean this program in a shell, "" if it does already.

    Args:
        found: what a shell finds under that name.
        python: the interpreter that runs this program.
    """
    own = python.parent / "flyball"
    if not own.exists():
        return f"alias flyball={shlex.quote(f'{shlex.quote(str(python))} -m flyball')}"
    if found is not None and os.path.samefile(found, own):
        return ""
    return f"export PATH={shlex.quote(str(own.parent))}:$PATH"


def _size(nodes: Sequence[LiveNode]) -> str:
    """How large the cluster is. A device may stand for several cores, so cores are counted."""
    cores = sum(node.cpus for node in nodes)
    devices = sum(node.devices for node in nodes if node.device != CORE)
    words = [f"{len(nodes)} node{'s' * (len(nodes) != 1)}"]
    if devices:
        words.append(f"{devices} GPU{'s' * (devices != 1)}")
    return ", ".join([*words, f"{cores} core{'s' * (cores != 1)}"])
