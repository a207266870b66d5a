"""What an attempt was told since it began: one small file, replaced as a whole and never changed.

    {"resize": {"sequence", "devices", "cores"}, "cap": {"sequence", "share"},
     "checkpoint": {"sequence"}}

The engine writes it; the supervisor reads it when it is signalled, and the job itself whenever it
looks (`FLYBALL_ORDERS` names the file). Nobody waits for anybody, and what was told last counts.
Standard library only.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "orders"


def path_of(state: str, job: int, attempt: int) -> str:
    """Where the orders of an attempt are."""
    return os.path.join(state, FOLDER, f"{job}.{attempt}.json")


def read(path: str) -> dict[str, Any]:
    """All orders; none if nothing was ever said."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def put(path: str, what: str, order: dict[str, Any]) -> bool:
    """Say something; False if as much, or something later, was said before.

    Raises:
        OSError: it cannot be written.
    """
    said = read(path)
    if sequence_of(said, what) >= order["sequence"]:
        return False
    beside = f"{path}.new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump({**said, what: order}, file)
    os.replace(beside, path)
    return True


def sequence_of(said: dict[str, Any], what: str) -> int:
    """The number of the last order of a kind, 0 = there was none."""
    return int(said.get(what, {}).get("sequence", 0))


def remove(path: str) -> None:
    """The attempt is over."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
