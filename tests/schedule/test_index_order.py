"""Order = index: its key worked out by hand, and what it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.twin.twin_cases import group, make

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.units import to_us
from flyball.schedule import diagnose
from flyball.twin.twin import Twin

pytestmark = pytest.mark.nojit


def index_knobs(**knobs: Any) -> Knobs:
    return Knobs(order=Order.INDEX, preempt=Preempt.ROUNDS, **knobs)


def keys(twin: Twin) -> list[float]:
    size = len(twin.state.jobs)
    keys, ends = np.full(size, np.nan), np.zeros(size, np.int64)
    diagnose.list_keys(twin.state, twin.knobs.pack(), keys, ends)
    return keys.tolist()


def test_the_key_of_pending_jobs() -> None:
    # One device is taken; the others wait: 100 s on 1, 100 s on 4 (4 ** 0.5 = 2) and on half a one.
    twin = make(
        [group(1, 4)], [0, 0, 0, 0], [500, 100, 100, 100], [4, 1, 4, 1],
        knobs=index_knobs(index_size=0.5), priority=[1.0, 0.0, 0.0, 0.0],
        milli=[1000, 1000, 1000, 250],
    )  # fmt: skip
    twin.run(0)
    assert keys(twin)[1:] == [100.0, 200.0, 50.0]


def test_the_key_of_a_running_job_falls_to_its_floor_and_grows_when_it_is_outlived() -> None:
    shape = {"index_size": 0.0, "index_slope": 0.5, "index_floor": 0.6, "index_running": 0.75}
    knobs = index_knobs(round_s=20.0, **shape)
    twin = make([group()], [0, 0], [1000, 1000], knobs=knobs)
    twin.state.jobs.estimate_us[:] = 100e6
    seen = []
    for seconds in (0, 60, 100, 240):
        twin.run(to_us(seconds))
        seen.append(keys(twin)[0])
    # 100, 100 - 30, 60 (the floor, as 100 - 50 is less), 0.6 * 240; all times 0.75.
    assert seen == pytest.approx([75.0, 52.5, 45.0, 108.0])
    assert keys(twin)[1] == 100.0


def test_size_and_running_decide_who_is_preempted() -> None:
    # At 60 s the wide job has 440 s left. The narrow one, of 300 s, is before it only if size
    # counts: 440 * 0.75 = 330 is behind 300 by less than the margin, 440 * 0.75 * 2 is not.
    for size, preempted in ((0.0, 0), (0.5, 1)):
        twin = make(
            [group(1, 4)], [0, 30], [500, 300], [4, 1],
            knobs=index_knobs(index_size=size, margin_s=50.0, round_s=60.0),
        )  # fmt: skip
        twin.run(to_us(60))
        assert twin.state.runs.preemptions[0] == preempted
