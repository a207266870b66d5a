"""Integer codes for names that recur in a table of jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.workload import NOT_STATED


class NameCodes:
    """Assigns codes to names: the code of a name is its index in the list."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """Return the code of a name, -1 for an empty one."""
        if not name:
            return NOT_STATED
        if name not in self._codes:
            self._codes[name] = len(self.list)
            self.list.append(name)
        return self._codes[name]

    def settle(self, codes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        """Recode to alphabetical order, with only the names that occur; return codes and names.

        The codes assigned here depend on which name came first, also before a restart. A decision
        must not depend on that.
        """
        counts = np.bincount(codes + 1, minlength=len(self.list) + 1)
        occurring = np.flatnonzero(counts[1:]).tolist()
        in_order = sorted(occurring, key=lambda code: self.list[code])
        place = np.full(len(self.list) + 1, NOT_STATED, np.int64)
        place[in_order] = np.arange(len(in_order))
        return place[codes], tuple(self.list[code] for code in in_order)
