"""Fits the run-time trees in a process of its own, which is killed when it exceeds its budget.

    python -m flyball.learn.fit_process FOLDER

reads `training.npz` in FOLDER and writes `new/`, a model as `RunTimes.save` does. The parent
replaces the old model once the new one is complete; a failed fit changes nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.predict.runtime.estimator import RunTimes

TRAINING, NEW, CURRENT = "training.npz", "new", "runtime"
BUDGET_S = 60.0
"""CPU time that a fit may use."""
WALL_FACTOR = 10.0
"""Wall-clock limit as a multiple of the CPU budget, since other work shares the machine."""
NICE = 10


class FitProcess:
    """Runs one fit at a time and enforces its limits.

    Args:
        folder: where models are kept in the state folder.
        budget_s: CPU seconds.
        command: run with the folder as its last argument; tests pass a failing one.
    """

    def __init__(
        self, folder: Path, budget_s: float = BUDGET_S, command: tuple[str, ...] = ()
    ) -> None:
        self._folder, self._budget_s = folder, budget_s
        self._command = command or (sys.executable, "-m", __name__)
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline_s = 0.0
        self.failures = 0
        self.last_error = ""

    @property
    def busy(self) -> bool:
        """Whether a fit is running."""
        return self._process is not None

    def start(self, training: tuple[Floats, Floats, Floats]) -> None:
        """Start a fit on these rows."""
        shutil.rmtree(self._folder / NEW, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        rows, logs, age_s = training
        np.savez(self._folder / TRAINING, rows=rows.astype(np.float32), logs=logs, age_s=age_s)
        self._process = subprocess.Popen(
            [*self._command, str(self._folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "FLYBALL_FIT_S": f"{self._budget_s:g}"},
        )
        self._deadline_s = time.monotonic() + WALL_FACTOR * self._budget_s

    def poll(self) -> Any | None:
        """Return new trees once after a successful fit; None while it runs or if it failed."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None:
            if time.monotonic() < self._deadline_s:
                return None
            self.stop()
            self._failed(f"over its time of {WALL_FACTOR * self._budget_s:g} s")
            return None
        self._process = None
        if code:
            self._failed(f"ended with {code}")
            return None
        try:
            trees = RunTimes.load(self._folder / NEW).trees
        except Exception as error:  # the files are not a model
            self._failed(str(error))
            return None
        self.failures, self.last_error = 0, ""
        return trees

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.last_error = f"a fit failed: {why}"

    def stop(self) -> None:
        """Kill a running fit."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def keep(run_times: RunTimes, folder: Path) -> None:
    """Replace the stored model atomically."""
    saving, current, old = folder / "saving", folder / CURRENT, folder / "old"
    shutil.rmtree(saving, ignore_errors=True)
    run_times.save(saving)
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        os.replace(current, old)
    os.replace(saving, current)
    shutil.rmtree(old, ignore_errors=True)


def fit(folder: Path) -> None:
    """Fit trees to the training rows in the folder, and save the model."""
    with np.load(folder / TRAINING, allow_pickle=False) as file:
        rows, logs, age_s = (file[name].astype(float) for name in ("rows", "logs", "age_s"))
    run_times = RunTimes()
    run_times.trees.fit(rows, logs, age_s)
    run_times.save(folder / NEW)


def main() -> None:
    """Run a fit at low priority within its CPU budget."""
    os.nice(NICE)
    budget_s = max(1, int(float(os.environ.get("FLYBALL_FIT_S", BUDGET_S))))
    resource.setrlimit(resource.RLIMIT_CPU, (budget_s, budget_s + 5))
    fit(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
