"""`flyball down`: stops the control plane of a state folder."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.formats import count_text
from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import print_json
from flyball.core.errors import BadInput, FlyballError, Unavailable

EXAMPLES = """\b
Examples:
  flyball down
  flyball down --state ~/queue
  flyball down --json
"""


def down(
    state: State = None,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=0.0, help="Seconds to wait until it has ended.")
    ] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Stop the server cleanly; running jobs keep running."""
    from flyball.api.state_folder import default_state, is_locked
    from flyball.sdk.endpoint import find_process

    folder = (state or default_state()).resolve()
    pid = find_process(folder)
    if pid is None:
        if is_locked(folder):
            raise Unavailable(
                f"a control plane uses {folder}, but has not published its address yet",
                "try again in a few seconds",
            )
        _report(folder, as_json, stopped=False)
        return
    running = _count_running(folder)
    _stop(pid, folder, wait_s)
    _report(folder, as_json, stopped=True, pid=pid, running=running)


def _count_running(folder: Path) -> int | None:
    """Return the number of running jobs; None if the server does not answer."""
    with contextlib.suppress(FlyballError), connected(folder) as client:
        return len(client.queue(state=["RUNNING"]))
    return None


def _stop(pid: int, folder: Path, wait_s: float) -> None:
    """Send SIGTERM to the process, and wait until it has ended.

    Raises:
        BadInput: the process belongs to another user.
        Unavailable: it has not ended in time.
    """
    from flyball.sdk.endpoint import find_process

    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if find_process(folder) != pid:  # it has ended, and its pid may be reused
            return
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], wait_s)[0]:
            raise Unavailable(
                f"the control plane (process {pid}) has not ended within {wait_s:g} s",
                "it is stopping; try flyball down again, or read its log",
            )
    except ProcessLookupError:
        return
    except PermissionError:
        raise BadInput(
            f"the control plane (process {pid}) belongs to another user", "ask its owner"
        ) from None
    finally:
        os.close(process)


def _report(
    folder: Path, as_json: bool, stopped: bool, pid: int | None = None, running: int | None = None
) -> None:
    if as_json:
        print_json({"stopped": stopped, "state": str(folder), "pid": pid, "running_jobs": running})
    elif not stopped:
        typer.echo(f"no control plane runs in {folder}")
    else:
        jobs = "running jobs keep" if running is None else f"{count_text(running, 'job')} keep"
        jobs += "s" if running == 1 else ""
        typer.echo(f"stopped the control plane of {folder}; {jobs} running")
