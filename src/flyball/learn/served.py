"""Lets a policy file govern whole runs by the same forward pass that serves it live."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.learn.env.spaces import RESIDUALS, Vector, strategy_mask
from flyball.learn.policy.artifact import PolicyFile, read
from flyball.learn.policy.forward import Net
from flyball.learn.rivals.bandit import LinUcb
from flyball.learn.training.folder import KEPT, POLICY
from flyball.learn.whole_runs import RunPolicy


class ServedPolicy:
    """Governs whole runs by a policy file.

    Attributes:
        file: the policy.
    """

    def __init__(self, file: PolicyFile) -> None:
        self.file = file

    def begin(self, runs: int) -> ServedPolicy._Runs:
        """Return what chooses for so many runs; nets with a memory have one for each."""
        return self._Runs([Net(self.file) for _ in range(runs)])

    class _Runs:
        def __init__(self, nets: list[Net]) -> None:
            self._nets = nets

        def choose(self, rows: Ints, seen: Vector, pools: Ints) -> tuple[Ints, Floats]:
            """Choose for some of the runs."""
            strategies = np.zeros(len(rows), np.int64)
            residuals = np.zeros((len(rows), len(RESIDUALS)))
            for at, row in enumerate(rows.tolist()):
                mask = strategy_mask(int(pools[at]))
                out = self._nets[row].forward(seen[at], mask)
                strategies[at] = int(np.argmax(np.where(mask, out.q, -np.inf)))
                residuals[at] = out.residuals
            return strategies, residuals


def load_policy(path: Path) -> RunPolicy:
    """Return the policy of a file, or the one kept in the folder of a training run.

    Raises:
        BadInput: there is none, or the file is damaged.
    """
    if path.is_dir() and (path / KEPT).exists():
        with np.load(path / KEPT, allow_pickle=False) as file:
            return LinUcb(file["precision"], file["rewarded"], 0.0)
    return ServedPolicy(read(path / POLICY if path.is_dir() else path))
