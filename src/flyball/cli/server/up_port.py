"""The API's port: stored in the state folder, and reused by the next start."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.cli.output import note

if TYPE_CHECKING:
    from flyball.api.serve import Server

NAME = "port"
MAX_PORT = 65_535


def serve_on_kept_port(folder: Path, port: int | None, serve_at: Callable[[int], Server]) -> Server:
    """Serve on the requested port, else on that of the last start, else on any; store the port.

    Args:
        port: as requested, 0 = any free one; None = the one stored in the folder.
        serve_at: starts the server on a port, 0 = any free one.

    Raises:
        PortTaken: the requested port is in use.
    """
    from flyball.api.serve import PortTaken

    kept_port = read_port(folder)
    try:
        server = serve_at(kept_port if port is None else port)
    except PortTaken:
        if port is not None:
            raise
        server = serve_at(0)
        note(
            f"port {kept_port} of the last start is taken; {server.port} is used from now on "
            f"(--port {kept_port} switches back)"
        )
    with contextlib.suppress(OSError):  # a full disk: the next start takes any free port
        _keep_port(folder, server.port)
    return server


def read_port(folder: Path) -> int:
    """Return the port stored in a state folder; 0 if there is none, or it is not a port."""
    try:
        text = (folder / NAME).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return 0
    port = int(text) if text.isdecimal() and len(text) <= len(str(MAX_PORT)) else 0
    return port if port <= MAX_PORT else 0


def _keep_port(folder: Path, port: int) -> None:
    """Store the port for the next start, atomically."""
    if read_port(folder) == port:
        return
    draft = folder / f"{NAME}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{port}\n")
    os.replace(draft, folder / NAME)
