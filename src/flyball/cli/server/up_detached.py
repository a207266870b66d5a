"""`flyball up -d`: goes on in the background, and returns once it is up."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from flyball.cli.output import note
from flyball.cli.server.up_agent import trim

LOG = "up.log"
LOOK_S = 0.2
"""How often the log is looked at for what is to be shown until it is up."""

Ready = Callable[[str], None]
"""To be called with the address once the control plane is up."""


def detach(folder: Path, named: bool) -> Ready:
    """Go on in a process of its own session whose output goes to the log of the folder.

    Only that process returns. The one that called waits until it is up or has ended, says so and
    exits. It must not have any other thread yet.

    Args:
        named: the folder was named, so that `flyball down` must be told which one.
    """
    log = folder / LOG
    trim(log)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    first_byte = os.fstat(output).st_size
    heard, told = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(told)
        os.close(output)
        raise typer.Exit(_Start(pid, folder, log, first_byte, named).wait(heard))
    os.close(heard)
    _leave_terminal(output)

    def ready(url: str) -> None:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            os.write(told, json.dumps({"url": url, "end": os.fstat(1).st_size}).encode())
        os.close(told)

    return ready


def _leave_terminal(output: int) -> None:
    """Take a session of our own, write to the log, and let go of what the caller had open."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        # What Python opens is not inheritable: the others came from the caller, whose locks and
        # pipes must not stay open for as long as the control plane lives.
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                os.close(number)


class _Start:
    """The start of a control plane, as the process sees it that waits for it."""

    def __init__(self, pid: int, folder: Path, log: Path, first_byte: int, named: bool) -> None:
        self._pid, self._folder, self._log = pid, folder, log
        self._shown = first_byte
        self._option = f" --state {shlex.quote(str(folder))}" if named else ""

    def wait(self, heard: int) -> int:
        """Wait until it is up or has ended; returns the exit code of the command."""
        try:
            message = self._listen(heard)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        if not message:
            return self._failed()
        ready = json.loads(message)
        self._show(ready["end"])
        typer.echo(f"flyball is up: {ready['url']}")
        typer.echo(f"  state {self._folder}")
        typer.echo(f"  log {self._log}")
        typer.echo(f"  stop it with: flyball down{self._option}")
        return 0

    def _listen(self, heard: int) -> bytes:
        """What it says when it is up; nothing if it ends before."""
        message = b""
        while True:
            if not select.select([heard], [], [], LOOK_S)[0]:
                self._show()
                continue
            part = os.read(heard, 4096)
            if not part:
                return message
            message += part

    def _show(self, end: int | None = None) -> None:
        """Show what came to the log since the last time, but nothing after `end`."""
        with open(self._log, "rb") as file:
            file.seek(self._shown)
            new = file.read(-1 if end is None else max(0, end - self._shown))
        self._shown += len(new)
        if new:
            typer.echo(new.decode(errors="replace"), nl=False, err=True)

    def _failed(self) -> int:
        _pid, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._show()
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        note(f"flyball: it did not come up ({how}); its log is {self._log}")
        if code < 0:
            return 128 - code
        return code or 1  # ended in order, but before it was up: for the caller a failure

    def _interrupt(self) -> None:
        """Do what Ctrl-C would have done to it in the foreground."""
        with contextlib.suppress(ProcessLookupError):
            try:
                os.killpg(self._pid, signal.SIGINT)
            except ProcessLookupError:  # it has no session of its own yet
                os.kill(self._pid, signal.SIGINT)
        os.waitpid(self._pid, 0)
