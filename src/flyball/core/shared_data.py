"""Where data too large or not ours to ship is looked for.

Checks against measured data use it; nothing in ordinary use needs it.
"""

from __future__ import annotations

import os
from pathlib import Path

from flyball.core.errors import DataAbsent

VARIABLE = "FLYBALL_DATA"
BESIDE_PROJECT = Path(__file__).resolve().parents[4] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """The path of a file or folder of the shared data.

    Looked for in the folder `FLYBALL_DATA` names, else in `../shared/data` as seen from
    the project's root.

    Raises:
        DataAbsent: it is not there.
    """
    root = Path(os.environ.get(VARIABLE) or BESIDE_PROJECT)
    path = root.joinpath(*parts)
    if not path.exists():
        raise DataAbsent(
            f"no {'/'.join(parts) or 'data'} in {root}", f"set {VARIABLE} to the folder that has it"
        )
    return path
