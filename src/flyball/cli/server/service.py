"""`flyball service`: runs the control plane as a systemd service of this user."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.server.service_unit import (
    UNIT,
    find_systemctl,
    read_unit,
    unit_path,
    unit_text,
    write_unit,
)
from flyball.core.errors import BadInput, Unavailable

LINGER = "loginctl enable-linger"

app = typer.Typer(
    help="Run the server as a systemd service of this user, from login on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog="""\b
Examples:
  flyball service install
  flyball service install --state ~/queue -- --policy srtf --port 8700
  flyball service install --print          (only show the unit)
"""
)
def install(
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTIONS OF UP]", help="Options of `flyball up`, after `--`."),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the unit, and change nothing.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Install the server as a systemd user service, and start it."""
    from flyball.api.state_folder import default_state, open_state

    folder = (state or default_state()).expanduser().absolute()
    text = unit_text(folder, _checked(options or []))
    systemctl = None if print_only else find_systemctl()
    if systemctl is None:
        _show(text, as_json, explain=not print_only)
        return
    path = unit_path()
    before = read_unit(path)
    if before is None:
        _check_free(folder)
    open_state(folder)
    write_unit(path, text)
    systemctl.run("daemon-reload")
    systemctl.run("enable", "--now", UNIT)
    changed = before is not None and before != text
    if as_json:
        print_json({"unit": str(path), "installed": True, "restart_needed": changed, "text": text})
        return
    typer.echo(f"installed and started {path}")
    typer.echo(f"  inspect it: systemctl --user status {UNIT}, journalctl --user -u {UNIT}")
    typer.echo(f"  to keep it running while you are not logged in: {LINGER}")
    if changed:
        typer.echo(f"  if it ran before, apply the changes: systemctl --user restart {UNIT}")


@app.command(
    epilog="""\b
Examples:
  flyball service uninstall                (running jobs keep running)
  flyball service uninstall --json
"""
)
def uninstall(as_json: AsJson = False) -> None:
    """Stop the systemd user service and remove its unit; running jobs keep running."""
    path = unit_path()
    installed = read_unit(path) is not None
    if installed:
        systemctl = find_systemctl()
        if systemctl is not None:
            systemctl.run("disable", "--now", UNIT)
        path.unlink(missing_ok=True)
        if systemctl is not None:
            systemctl.run("daemon-reload")
    if as_json:
        print_json({"unit": str(path), "removed": installed})
    elif installed:
        typer.echo(f"stopped the service and removed {path}; running jobs keep running")
    else:
        typer.echo(f"no service is installed: there is no {path}")


def _checked(options: list[str]) -> list[str]:
    """Check the options of `up` here, since errors of a service are easily missed.

    Raises:
        BadInput: an option that a service must not have, or a file named by a relative path.
    """
    from flyball.cli.lazy import Part

    command = Part("server.up:up", "").load("up")
    context: Any = command.make_context("flyball up", list(options))
    if context.params["detached"]:
        raise BadInput("a service does not detach from systemd", "leave out --detach")
    if context.params["state"]:
        raise BadInput("--state is among the options of `up`", "give it before the `--`")
    for name in ("tls_cert", "tls_key", "cluster"):
        value = context.params[name]
        if value and Path(value).exists() and not Path(value).is_absolute():
            raise BadInput(
                f"{value} is a relative path, and systemd starts the service in another folder",
                f"give the whole path: {Path(value).absolute()}",
            )
    return options


def _check_free(folder: Path) -> None:
    """Check that the folder is not in use: the service would fail and be restarted for ever.

    Raises:
        Unavailable: a control plane that is not a service uses it.
    """
    from flyball.api.state_folder import is_locked

    if is_locked(folder):
        raise Unavailable(
            f"a control plane runs in {folder}",
            f"stop it first: flyball down --state {folder}; running jobs keep running",
        )


def _show(text: str, as_json: bool, explain: bool) -> None:
    """Print the unit; with `explain`, also how to install it by hand."""
    if as_json:
        print_json({"unit": str(unit_path()), "installed": False, "text": text})
        return
    typer.echo(text, nl=False)
    if not explain:
        return
    why = "no systemd" if shutil.which("systemctl") is None else "no systemd user manager answers"
    note(f"{why} here, so nothing was installed. On a machine with systemd:")
    note(f"  write the lines above to {unit_path()}")
    note(f"  systemctl --user daemon-reload && systemctl --user enable --now {UNIT}")
    note(f"  {LINGER}      (to keep it running while you are not logged in)")
    note("here, use: flyball up -d")
