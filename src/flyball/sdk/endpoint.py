"""Where the control plane is, and the secret it wants: files of the state folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from flyball.sdk.errors import NoControlPlane


@dataclass(frozen=True)
class Endpoint:
    """Address and token; `ca` is a certificate to trust, "" = those of the system."""

    url: str
    token: str = field(repr=False)
    ca: str = ""


def state_folder(state: str | os.PathLike[str] | None) -> Path:
    """The folder given, else `FLYBALL_STATE`, else under `XDG_STATE_HOME` or `~/.local/state`."""
    if state is not None:
        return Path(state)
    if named := os.environ.get("FLYBALL_STATE"):
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "flyball"


def find_endpoint(state: Path) -> Endpoint:
    """The endpoint that a state folder names.

    Raises:
        NoControlPlane: it names none.
    """
    try:
        found = json.loads((state / "endpoint.json").read_text(encoding="utf-8"))
        token = (state / "token").read_text(encoding="ascii").strip()
        return Endpoint(str(found["url"]).rstrip("/"), token, str(found.get("ca", "")))
    except FileNotFoundError:
        raise NoControlPlane from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoControlPlane(
            f"no control plane can be found in {state}: {error or type(error).__name__}"
        ) from error
