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

    One that was killed leaves its address behind, and anybody may listen there since: who is not
    the process that wrote it gets no token.

    Raises:
        NoControlPlane: it names none, or one that is gone.
    """
    try:
        found = json.loads((state / "endpoint.json").read_text(encoding="utf-8"))
        if "start" in found and found["start"] != start_of(int(found["pid"])):
            raise NoControlPlane
        token = (state / "token").read_text(encoding="ascii").strip()
        return Endpoint(str(found["url"]).rstrip("/"), token, str(found.get("ca", "")))
    except FileNotFoundError:
        raise NoControlPlane from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoControlPlane(
            f"no control plane can be found in {state}: {error or type(error).__name__}"
        ) from error


def find_process(state: Path) -> int | None:
    """The process id of the control plane that a state folder names; None if it is gone."""
    try:
        found = json.loads((state / "endpoint.json").read_text(encoding="utf-8"))
        pid, start = int(found["pid"]), int(found["start"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if pid > 0 and start and start == start_of(pid) else None


def start_of(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The name, in brackets, may hold anything; the start is the 20th field after it.
    return int(text.rpartition(")")[2].split()[19])
