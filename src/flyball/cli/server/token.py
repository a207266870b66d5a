"""`flyball token`: replaces the API token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import print_json
from flyball.core.errors import BadInput, Unavailable

app = typer.Typer(
    help="Replace the API token, a secret kept in the state folder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  flyball token rotate                     (also while the server runs; jobs keep running)
  flyball token rotate --state ~/queue --json
  flyball token rotate --show              (also prints the new token)
"""
)
def rotate(
    show: Annotated[bool, typer.Option("--show", help="Also print the new token.")] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Replace the token; a running server refuses the old one from then on."""
    from flyball.api.state_folder import default_state, open_state
    from flyball.api.token import NAME, replace_token

    folder = state or default_state()
    if not folder.is_dir():
        raise BadInput(
            f"there is no state folder {folder}", "name it with --state, or start `flyball up`"
        )
    folder = open_state(folder)
    token = replace_token(folder)
    running = _is_adopted(folder)
    if as_json:
        answer: dict[str, Any] = {"token_file": str(folder / NAME), "running": running}
        print_json(answer | ({"token": token} if show else {}))
        return
    typer.echo(f"the new token is in {folder / NAME}")
    if show:
        typer.echo(token)
    if running:
        typer.echo("the running control plane uses it, and refuses the old one")
    else:
        typer.echo("no control plane runs; the next one will use it")


def _is_adopted(folder: Path) -> bool:
    """Check that the running control plane uses the new token; False if none runs.

    Raises:
        Unavailable: it does not answer, or still uses the old one.
    """
    from flyball.sdk.client import Client
    from flyball.sdk.errors import ApiError, NoControlPlane

    try:
        with Client(folder) as client:
            client.health()
    except NoControlPlane:
        return False
    except ApiError as error:
        why = "refuses it" if error.status == 401 else f"answers with an error ({error.detail})"
        raise Unavailable(
            f"{folder / 'token'} holds a new token, but the running control plane {why}",
            "restart it: `flyball down`, then `flyball up -d`; running jobs keep running",
        ) from error
    return True
