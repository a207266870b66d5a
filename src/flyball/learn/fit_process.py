"""Growing trees in a process of its own, with a budget: it is killed when it is over it.

    python -m flyball.learn.fit_process FOLDER

reads `training.npz` in FOLDER and writes `new/`, a model as `RunTimes.save` does. Whoever started
it puts that in the place of the old one when it is whole; a fit that fails changes nothing.
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
"""CPU time that a fit may take."""
PATIENCE = 10.0
"""Times the budget that it may take on a clock: others use the machine too."""
NICE = 10


class Fitting:
    """One fit at a time, watched from outside.

    Args:
        folder: of the models in the state folder.
        budget_s: CPU seconds.
        command: what is run with the folder as its last argument; tests put a bad one here.
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
        """Whether a fit is under way."""
        return self._process is not None

    def start(self, training: tuple[Floats, Floats, Floats]) -> None:
        """Begin a fit of these rows."""
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
        self._deadline_s = time.monotonic() + PATIENCE * self._budget_s

    def poll(self) -> Any | None:
        """New trees, once, when a fit has ended well; None while it runs or if it failed."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None:
            if time.monotonic() < self._deadline_s:
                return None
            self.stop()
            self._failed(f"over its time of {PATIENCE * self._budget_s:g} s")
            return None
        self._process = None
        if code:
            self._failed(f"ended with {code}")
            return None
        try:
            trees = RunTimes.load(self._folder / NEW).trees
        except Exception as error:  # whatever it wrote, it is no model
            self._failed(str(error))
            return None
        self.failures, self.last_error = 0, ""
        return trees

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.last_error = f"a fit failed: {why}"

    def stop(self) -> None:
        """End a fit that is under way."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def keep(run_times: RunTimes, folder: Path) -> None:
    """Save a model where the next worker finds it: whole, or not at all."""
    made, current, old = folder / "saving", folder / CURRENT, folder / "old"
    shutil.rmtree(made, ignore_errors=True)
    run_times.save(made)
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        os.replace(current, old)
    os.replace(made, current)
    shutil.rmtree(old, ignore_errors=True)


def fit(folder: Path) -> None:
    """Grow trees from what lies in the folder."""
    with np.load(folder / TRAINING, allow_pickle=False) as file:
        rows, logs, age_s = (file[name].astype(float) for name in ("rows", "logs", "age_s"))
    run_times = RunTimes()
    run_times.trees.fit(rows, logs, age_s)
    run_times.save(folder / NEW)


def main() -> None:
    """The process: nice, and no longer than its budget."""
    os.nice(NICE)
    budget_s = max(1, int(float(os.environ.get("FLYBALL_FIT_S", BUDGET_S))))
    resource.setrlimit(resource.RLIMIT_CPU, (budget_s, budget_s + 5))
    fit(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
