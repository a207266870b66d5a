"""The stream of gangs and its fluid model, on cases known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.workload import Workload
from flyball.experiments.gavel_stream import FIRST, fluid_s, stream


def test_longer_streams_begin_with_the_same_jobs() -> None:
    short, speeds = stream(1.0, FIRST)
    long, more = stream(1.0, 2 * FIRST)
    assert short.submit_us.tolist() == long.submit_us[:FIRST].tolist()
    assert short.devices.tolist() == long.devices[:FIRST].tolist()
    assert speeds.tolist() == more[:FIRST].tolist()


def test_twice_the_load_is_twice_the_rate() -> None:
    slow, fast = (stream(load, 1000)[0].submit_us for load in (0.5, 1.0))
    assert slow[1:] / fast[1:] == pytest.approx(2.0, rel=1e-6)


def test_the_fluid_model_by_hand() -> None:
    # Four devices. A gang of 4 alone does 100 s of its 200 s; then a job of 1 takes its device and
    # leaves 3 of 4 to the gang: 100 s of work at 3/4. The job of 1 is done after 50 s, so the gang
    # did 37.5 s by then and needs another 62.5 s.
    workload = Workload.of("case", [0, 100], [200, 50], [4, 1])
    assert fluid_s(workload, np.ones(2), 4).tolist() == pytest.approx([212.5, 50.0])


def test_speed_scales_the_work() -> None:
    workload = Workload.of("case", [0], [100], [1])
    assert fluid_s(workload, np.array([0.5]), 4).tolist() == pytest.approx([200.0])
