"""`flyball token`: replaces the API's secret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import print_json
from flyball.cli.server.live_options import State
from flyball.core.errors import BadInput, Unavailable

app = typer.Typer(
    help="Replace the API's token, the secret of the state folder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  flyball token rotate                     (also while the server runs; jobs run on)
  flyball token rotate --state ~/queue --json
  flyball token rotate --show              (prints the new token, too)
"""
)
def rotate(
    show: Annotated[bool, typer.Option("--show", help="Print the new token as well.")] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Replace the token; the old one is refused from then on, also by a running server."""
    from flyball.api.state_folder import default_state, open_state
    from flyball.api.token import NAME, replace_token

    folder = state or default_state()
    if not folder.is_dir():
        raise BadInput(
            f"there is no state folder {folder}", "name it with --state, or start `flyball up`"
        )
    folder = open_state(folder)
    token = replace_token(folder)
    running = _is_taken(folder)
    if as_json:
        answer: dict[str, Any] = {"token_file": str(folder / NAME), "running": running}
        print_json(answer | ({"token": token} if show else {}))
        return
    typer.echo(f"the new token is in {folder / NAME}")
    if show:
        typer.echo(token)
    if running:
        typer.echo("the running control plane has taken it, and refuses the old one")
    else:
        typer.echo("no control plane runs; the next one takes it")


def _is_taken(folder: Path) -> bool:
    """Have the running control plane take the token of the file; False if none runs.

    Raises:
        Unavailable: it does not answer, or goes on with the old one.
    """
    from flyball.sdk.client import Client
    from flyball.sdk.errors import ApiError, NoControlPlane

    try:
        with Client(folder) as client:
            client.health()
    except NoControlPlane:
        return False
    except ApiError as error:
        why = "refuses it" if error.status == 401 else f"does not answer well ({error.detail})"
        raise Unavailable(
            f"{folder / 'token'} holds a new token, but the running control plane {why}",
            "restart it: `flyball down`, then `flyball up -d`; running jobs run on",
        ) from error
    return True
