"""Finds data that is too large to ship, or not ours to ship.

Checks against measured data use it; nothing in ordinary use needs it.
"""

from __future__ import annotations

import os
from pathlib import Path

from flyball.core.errors import DataAbsent

VARIABLE = "FLYBALL_DATA"
DEFAULT_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """Return the path of a file or folder of the shared data.

    The shared data is in the folder that `FLYBALL_DATA` names, else in `../shared/data` as seen
    from the project's root.

    Raises:
        DataAbsent: it is not there.
    """
    root = Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)
    path = root.joinpath(*parts)
    if not path.exists():
        raise DataAbsent(
            f"no {'/'.join(parts) or 'data'} in {root}", f"set {VARIABLE} to the folder that has it"
        )
    return path
