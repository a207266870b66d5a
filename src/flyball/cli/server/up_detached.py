"""`flyball up -d`: runs the server in the background, and returns once it is up."""

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
LOG_POLL_S = 0.2
"""Interval at which new lines of the log are shown until the server is up."""

Ready = Callable[[str], None]
"""Called with the URL once the control plane is up."""


def detach(folder: Path, named: bool) -> Ready:
    """Fork; return in a child with its own session, whose output goes to the folder's log.

    The parent waits until the server is up or has ended, prints the result and exits. The process
    must not have any other thread yet.

    Args:
        named: the folder was named by an option, so `flyball down` needs the option too.
    """
    log = folder / LOG
    trim(log)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    first_byte = os.fstat(output).st_size
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(write_end)
        os.close(output)
        raise typer.Exit(_Start(pid, folder, log, first_byte, named).wait(read_end))
    os.close(read_end)
    _leave_terminal(output)

    def ready(url: str) -> None:
        with contextlib.suppress(OSError):  # the parent may have gone
            os.write(write_end, json.dumps({"url": url, "end": os.fstat(1).st_size}).encode())
        os.close(write_end)

    return ready


def _leave_terminal(output: int) -> None:
    """Start a new session, write to the log, and close the files that the caller had open."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        # Files that Python opened are not inheritable; the others came from the caller, whose
        # locks and pipes must not stay open for as long as the control plane runs.
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                os.close(number)


class _Start:
    """Waits, in the parent, for the control plane to start."""

    def __init__(self, pid: int, folder: Path, log: Path, first_byte: int, named: bool) -> None:
        self._pid, self._folder, self._log = pid, folder, log
        self._shown = first_byte
        self._option = f" --state {shlex.quote(str(folder))}" if named else ""

    def wait(self, read_end: int) -> int:
        """Wait until the server is up or has ended; return the exit code of the command."""
        try:
            message = self._listen(read_end)
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
        typer.echo(f"  open the dashboard with: flyball open{self._option}")
        typer.echo(f"  stop it with: flyball down{self._option}")
        return 0

    def _listen(self, read_end: int) -> bytes:
        """Return the child's message when it is up; empty if it ends before."""
        message = b""
        while True:
            if not select.select([read_end], [], [], LOG_POLL_S)[0]:
                self._show()
                continue
            part = os.read(read_end, 4096)
            if not part:
                return message
            message += part

    def _show(self, end: int | None = None) -> None:
        """Show what was added to the log since the last call, up to byte `end`."""
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
        note(f"flyball: the server did not start ({how}); its log is {self._log}")
        if code < 0:
            return 128 - code
        return code or 1  # a clean exit before it was up is a failure for the caller

    def _interrupt(self) -> None:
        """Pass on Ctrl-C, as if the server ran in the foreground."""
        with contextlib.suppress(ProcessLookupError):
            try:
                os.killpg(self._pid, signal.SIGINT)
            except ProcessLookupError:  # it has not called setsid yet
                os.kill(self._pid, signal.SIGINT)
        os.waitpid(self._pid, 0)
