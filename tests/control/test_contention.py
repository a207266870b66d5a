"""How much slower jobs run because of other work on the machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.control.live_cases import START_US, spec_of

from flyball.control.foresight.contention import MOST, RUNNABLE, slowdown
from flyball.core.jobs import Job
from flyball.core.results import Floats


def series_of(values: list[float]) -> object:
    def series(name: str, seconds: float) -> tuple[Floats, Floats]:
        assert name == RUNNABLE
        return np.arange(len(values), dtype=float), np.array(values)

    return series


@pytest.mark.parametrize(
    ("runnable", "cpus", "factor"),
    [
        ([1.0, 1.0], 0, 1.0),  # the monitor alone
        ([3.0, 3.0], 0, 2.0**0.5),  # two others on two cores
        ([3.0, 3.0], 2, 1.0),  # they are the job's own tasks
        ([5.0, 5.0], 2, 2.0**0.5),
        ([1000.0], 0, MOST),
        ([], 0, 1.0),  # nothing measured yet
    ],
)
def test_slowdown_counts_tasks_that_belong_to_no_job(
    runnable: list[float], cpus: int, factor: float
) -> None:
    running = [Job(1, spec_of(cpus=cpus), START_US)] if cpus else []
    assert slowdown(series_of(runnable), 2, running) == factor  # type: ignore[arg-type]


def test_no_monitor_means_no_slowdown() -> None:
    assert slowdown(None, 2, []) == 1.0
