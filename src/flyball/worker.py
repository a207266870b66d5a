"""The worker process: follows the journal next to the control plane, and learns from it.

    python -m flyball.worker --state DIR

It runs at low priority; whatever happens to it, the control plane goes on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from flyball.control.ask.worker_loop import JournalWatch, serve
from flyball.control.ask.worker_state import MODEL_FOLDER, WorkerState
from flyball.control.journal.history import History
from flyball.core.units import US_PER_S
from flyball.learn.learner import JournalLearner
from flyball.monitor.contention import Contention
from flyball.monitor.reader import Telemetry

JOURNAL = "journal.db"
NICE = 10


def main() -> None:
    """Run the process."""
    os.nice(NICE)
    state = Path(sys.argv[sys.argv.index("--state") + 1])
    out = sys.stdout

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    with History(state / JOURNAL) as history:
        last_us = history.last().time_us
        ahead_us = max(0, last_us - round(time.time() * US_PER_S))

        def now_us() -> int:
            return round(time.time() * US_PER_S) + ahead_us

        models = state / MODEL_FOLDER
        learner = JournalLearner(models, Telemetry(state / "telemetry").series)
        worker = WorkerState(history, models, now_us, learner)
        # Measured on the control plane: this process runs at a lower priority than jobs do.
        worker.forecaster.slowdown = Contention(os.getppid()).slowdown
        try:
            serve(worker, sys.stdin.buffer, send, JournalWatch(state / JOURNAL).changed)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
