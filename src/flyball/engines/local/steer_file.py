"""The orders of a running attempt: one small file that is replaced atomically.

    {"resize": {"sequence", "devices", "cores"}, "cap": {"sequence", "share"},
     "checkpoint": {"sequence"}}

The engine writes it; the supervisor reads it when it is signalled, and the job polls it
(`FLYBALL_ORDERS` is its path). Neither side waits for the other, and the latest order of each kind
counts. Standard library only.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "orders"


def path_of(state: str, job: int, attempt: int) -> str:
    """Return the path of an attempt's orders."""
    return os.path.join(state, FOLDER, f"{job}.{attempt}.json")


def read(path: str) -> dict[str, Any]:
    """Return all orders; empty if there were none."""
    try:
        with open(path, encoding="utf-8") as file:
            orders = json.load(file)
    except (OSError, ValueError):
        return {}
    return orders if isinstance(orders, dict) else {}


def put(path: str, what: str, order: dict[str, Any]) -> bool:
    """Write an order; False if this one or a later one is there already.

    Raises:
        OSError: the file cannot be written.
    """
    orders = read(path)
    if sequence_of(orders, what) >= order["sequence"]:
        return False
    draft = f"{path}.new"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump({**orders, what: order}, file)
    os.replace(draft, path)
    return True


def sequence_of(orders: dict[str, Any], what: str) -> int:
    """Return the sequence number of the last order of a kind, 0 = none."""
    return int(orders.get(what, {}).get("sequence", 0))


def remove(path: str) -> None:
    """Remove the orders of an attempt that is over."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
