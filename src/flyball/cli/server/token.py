"""`flyball token`: tokens of users, and the replacement of tokens."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table
from flyball.core.errors import BadInput, Unavailable, UnknownName

if TYPE_CHECKING:
    from flyball.control.access.roles import Role

app = typer.Typer(
    help="Give tokens to users, end them, and replace the state folder's own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Login name; their jobs belong to this user.")
]
PRINTED = "give it to {} now: only its hash is stored, and it cannot be shown again"


@app.callback()
def _group() -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  flyball token add ada --role user            (submits jobs, and changes her own)
  flyball token add wall --role viewer         (sees everything, changes nothing)
  flyball token add ops --role operator --json (changes the jobs of all)
Ada then sets FLYBALL_URL and FLYBALL_TOKEN, and uses every command.
"""
)
def add(
    name: Name,
    role: Annotated[
        str, typer.Option("--role", help="viewer, user or operator.", show_default=True)
    ] = "user",
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Give a user a token, and print it. A running server accepts it at once."""
    from flyball.control.access.user_tokens import add_token

    folder, role_ = _folder(state), _role(role)
    token = add_token(folder, name, role_, time.time())
    _show_token(folder, name, role_, token, as_json)


@app.command(
    "list",
    epilog="""\b
Examples:
  flyball token list
  flyball token list --json
""",
)
def list_tokens(as_json: AsJson = False, state: State = None) -> None:
    """List who has a token, with role and age. The tokens themselves are not stored."""
    from flyball.control.access.user_tokens import read_tokens

    tokens = sorted(read_tokens(_folder(state)).values(), key=lambda line: line.name)
    if as_json:
        rows = [
            {"name": line.name, "role": str(line.role), "created": line.created} for line in tokens
        ]
        print_json(rows)
        return
    if not tokens:
        typer.echo("no user has a token; `flyball token add NAME --role user` gives one")
        return
    cells = [
        (line.name, str(line.role), f"{datetime.fromtimestamp(line.created):%Y-%m-%d %H:%M}")
        for line in tokens
    ]
    print_table("", ("user", "role", "since"), cells, 3)


@app.command(
    epilog="""\b
Examples:
  flyball token revoke ada     (at once, also while the server runs; her jobs keep running)
"""
)
def revoke(name: Name, as_json: AsJson = False, state: State = None) -> None:
    """End the token of a user; the server refuses it from the next request on."""
    from flyball.control.access.user_tokens import revoke_token

    line = revoke_token(_folder(state), name)
    if as_json:
        print_json({"name": line.name, "role": str(line.role), "revoked": True})
    else:
        typer.echo(f"the token of {line.name} ({line.role}) is revoked; their jobs keep running")


@app.command(
    epilog="""\b
Examples:
  flyball token rotate                     (the state folder's; jobs keep running)
  flyball token rotate ada                 (ada's; prints the new one)
  flyball token rotate --state ~/queue --json
  flyball token rotate --show              (also prints the state folder's new token)
"""
)
def rotate(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A user; default: the state folder's token.")
    ] = "",
    show: Annotated[bool, typer.Option("--show", help="Also print the new token.")] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Replace a token; a running server refuses the old one from then on."""
    folder = _folder(state)
    if name:
        from flyball.control.access.user_tokens import read_tokens, rotate_token

        token = rotate_token(folder, name, time.time())
        _show_token(folder, name, read_tokens(folder)[name].role, token, as_json)
    else:
        _rotate_own(folder, show, as_json)


def _rotate_own(folder: Path, show: bool, as_json: bool) -> None:
    """Replace the token of the state folder."""
    from flyball.api.token import NAME, replace_token

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


def _show_token(folder: Path, name: str, role: Role, token: str, as_json: bool) -> None:
    """Print a new token of a user, with how to use it."""
    from flyball.sdk.endpoint import find_endpoint
    from flyball.sdk.errors import NoControlPlane

    try:
        url = find_endpoint(folder).url
    except NoControlPlane:
        url = ""
    if as_json:
        print_json({"name": name, "role": str(role), "token": token, "url": url or None})
        return
    typer.echo(token)
    typer.echo(f"role {role}; " + PRINTED.format(name), err=True)
    usage = f"FLYBALL_URL={url or 'URL'} FLYBALL_TOKEN=... flyball queue"
    typer.echo(f"they use it with: {usage}", err=True)


def _folder(state: Path | None) -> Path:
    """Return the state folder, which must exist.

    Raises:
        BadInput: there is none.
    """
    from flyball.api.state_folder import default_state, open_state

    folder = state or default_state()
    if not folder.is_dir():
        raise BadInput(
            f"there is no state folder {folder}", "name it with --state, or start `flyball up`"
        )
    return open_state(folder)


def _role(text: str) -> Role:
    from flyball.control.access.roles import PEOPLE, Role

    if text not in PEOPLE:
        raise UnknownName("role", text, PEOPLE)
    return Role(text)


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
