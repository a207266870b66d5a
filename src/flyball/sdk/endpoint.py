"""Finds the address and the token of the control plane, in files of the state folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from flyball.sdk.errors import NoControlPlane


@dataclass(frozen=True)
class Endpoint:
    """Address and token of a control plane; `ca` is a certificate to trust, "" = the system's."""

    url: str
    token: str = field(repr=False)
    ca: str = ""


def state_folder(state: str | os.PathLike[str] | None) -> Path:
    """Return `state`, else `FLYBALL_STATE`, else `XDG_STATE_HOME`/flyball or its default."""
    if state is not None:
        return Path(state)
    if named := os.environ.get("FLYBALL_STATE"):
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    return base / "flyball"


def find_endpoint(state: Path) -> Endpoint:
    """Return the endpoint that a state folder names.

    A control plane that was killed leaves its address behind, and any process may listen there
    since: the token is sent only if the process that wrote the address still runs.

    Raises:
        NoControlPlane: it names none, or one that is gone.
    """
    try:
        entry = json.loads((state / "endpoint.json").read_text(encoding="utf-8"))
        if "start" in entry and entry["start"] != start_of(int(entry["pid"])):
            raise NoControlPlane
        token = (state / "token").read_text(encoding="ascii").strip()
        return Endpoint(str(entry["url"]).rstrip("/"), token, str(entry.get("ca", "")))
    except FileNotFoundError:
        raise NoControlPlane from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoControlPlane(
            f"no control plane can be found in {state}: {error or type(error).__name__}"
        ) from error


def stated_url() -> str:
    """Return the URL of a control plane on another machine, or of another user; "" = none."""
    return os.environ.get("FLYBALL_URL", "").rstrip("/")


def stated_token() -> str | None:
    """Return the token in `FLYBALL_TOKEN`, or in the file that `FLYBALL_TOKEN_FILE` names.

    Raises:
        OSError: the file cannot be read.
    """
    if token := os.environ.get("FLYBALL_TOKEN", "").strip():
        return token
    if path := os.environ.get("FLYBALL_TOKEN_FILE", ""):
        return Path(path).read_text(encoding="ascii").strip()
    return None


def find_process(state: Path) -> int | None:
    """Return the process id of the control plane that a state folder names; None if it is gone."""
    try:
        entry = json.loads((state / "endpoint.json").read_text(encoding="utf-8"))
        pid, start = int(entry["pid"]), int(entry["start"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if pid > 0 and start and start == start_of(pid) else None


def start_of(pid: int) -> int:
    """Return the start time of a process, in ticks since boot; 0 if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The name, in parentheses, may contain any character; the start is the 20th field after it.
    return int(text.rpartition(")")[2].split()[19])
