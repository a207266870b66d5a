"""Two small programs whose use of a core is recorded; run as `workloads.py KIND SEED`.

They do real work: a step spins until its thread has had a given CPU time, so that it takes longer
on a busy machine, as real work does. They run as separate processes and use only the standard
library.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

STEP_S, STEP_JITTER = 0.17, 0.03
PAUSE_S, PAUSE_JITTER = 0.08, 0.08
CHECK_EVERY, CHECK_S = 40, 0.4
ON_S, OFF_S, SPREAD = 0.25, 0.30, 0.6


def spin(cpu_s: float) -> None:
    """Work until this thread has used `cpu_s` of CPU time."""
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        sum(range(200))


def iterative(draw: random.Random) -> None:
    """Run like a training loop: a step of work, a short wait for data, at times a checkpoint."""
    step = 0
    while True:
        spin(STEP_S * draw.gauss(1.0, STEP_JITTER))
        time.sleep(PAUSE_S * max(0.1, draw.gauss(1.0, PAUSE_JITTER)))
        step += 1
        if step % CHECK_EVERY == 0:
            time.sleep(CHECK_S)


def bursty(draw: random.Random) -> None:
    """Run like bursts of requests: log-normal times of work and idleness (given by medians)."""
    while True:
        spin(ON_S * draw.lognormvariate(0.0, SPREAD))
        time.sleep(OFF_S * draw.lognormvariate(0.0, SPREAD))


KINDS: dict[str, Callable[[random.Random], None]] = {"bursty": bursty, "iterative": iterative}

if __name__ == "__main__":
    KINDS[sys.argv[1]](random.Random(int(sys.argv[2])))
