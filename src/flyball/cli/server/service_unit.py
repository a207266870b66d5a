"""The systemd user unit of the control plane, and `systemctl`, which manages it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flyball.core.errors import BadInput, Unavailable

UNIT = "flyball.service"
TIMEOUT_S = 120.0
"""Maximum time that a command of systemctl may take."""
TEMPLATE = """\
[Unit]
Description=Flyball control plane of {folder}

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=5
# Wrong options do not become right by trying again.
RestartPreventExitStatus=2
# Jobs belong to the queue, not to this process: they run on when it stops or restarts.
KillMode=process
TimeoutStopSec=120

[Install]
WantedBy=default.target
"""


def unit_path() -> Path:
    """Return where systemd looks for units of this user."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".config"
    return base / "systemd" / "user" / UNIT


def unit_text(folder: Path, options: Sequence[str]) -> str:
    """Return the unit: this installation's Python, this state folder, these options of `up`.

    Raises:
        BadInput: a word that a unit cannot hold.
    """
    command = [sys.executable, "-m", "flyball", "up", "--state", str(folder), *options]
    for word in (*command, str(folder)):
        if not word.isprintable():
            raise BadInput(f"{word!r} cannot be written into a unit", "use printable characters")
    shown = str(folder).replace("%", "%%")
    return TEMPLATE.format(folder=shown, command=" ".join(map(_quoted, command)))


def _quoted(word: str) -> str:
    """Quote a word of a command line, so that systemd expands nothing in it."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if text and not set(text) & set(" '\";\\") else f'"{text}"'


def read_unit(path: Path) -> str | None:
    """Return the text of the installed unit; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write_unit(path: Path, text: str) -> None:
    """Write the unit atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


class Systemctl:
    """Runs `systemctl --user`."""

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, *arguments: str) -> None:
        """Run one of its commands.

        Raises:
            Unavailable: it failed; with its error message.
        """
        done = self._call(*arguments)
        if done.returncode:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise Unavailable(
                f"systemctl --user {' '.join(arguments)} failed: {reason}",
                f"see journalctl --user -u {UNIT}",
            )

    def answers(self) -> bool:
        """Return whether a user manager runs; the program may exist without one."""
        return self._call("show-environment").returncode == 0

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, "--user", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )


def find_systemctl() -> Systemctl | None:
    """Return `systemctl`; None if it is not installed, or no user manager runs."""
    program = shutil.which("systemctl")
    if program is None:
        return None
    systemctl = Systemctl(program)
    try:
        return systemctl if systemctl.answers() else None
    except (OSError, subprocess.TimeoutExpired):
        return None
