"""Attained service: three queues, first starts, promotion; worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.twin.twin_cases import ends, group, make, run, starts

from flyball.core.codes import Status
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.schedule import diagnose
from flyball.schedule.explain import explain
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

FREE = Effects(restart_s=(0.0, 0.0, 0.0))
LAS: dict[str, Any] = {
    "order": Order.ATTAINED,
    "preempt": Preempt.ROUNDS,
    "margin_s": 1e9,
    "round_s": 10.0,
    "attained_s": 10.0,
}


def one_device(submit_s: list[float], duration_s: list[float], **knobs: Any) -> Twin:
    return make([group()], submit_s, duration_s, knobs=Knobs(**{**LAS, **knobs}), effects=FREE)


@pytest.mark.nojit
def test_a_demoted_job_gives_way_to_a_new_one() -> None:
    # At 10 s the first has its 10 s of device time; the second takes the device and ends at 15 s.
    twin = run([group()], [0, 5], [100, 5], knobs=Knobs(**LAS), effects=FREE)
    assert starts(twin) == [0, 10]
    assert ends(twin) == [105, 15]


@pytest.mark.nojit
def test_a_second_threshold_makes_a_third_queue() -> None:
    # Two queues: the second job, demoted at 20 s, is not set aside for the first, demoted before.
    two = one_device([0, 5], [100, 100])
    two.run()
    assert ends(two) == [200, 110]
    # Three: at 40 s the second has received 30 s and falls below the first, which has 10 s. That
    # one falls to the same queue at 60 s and keeps the device to its end.
    three = one_device([0, 5], [100, 100], attained2_s=30.0)
    three.run()
    assert ends(three) == [130, 200]
    assert three.state.runs.preemptions.tolist() == [1, 1]


@pytest.mark.nojit
def test_within_a_queue_by_first_start_if_there_is_a_second_threshold() -> None:
    # The first job starts last: it waits for the second, which came with a higher priority.
    for second_s, key in ((0.0, 0.0), (1e12, 5.0)):
        knobs = Knobs(**{**LAS, "attained2_s": second_s, "attained_s": 100.0, "priority_s": 1.0})
        twin = make([group()], [0, 0], [50, 5], knobs=knobs, effects=FREE, priority=[0.0, 1.0])
        twin.run(6_000_000)
        keys, keys_end = np.zeros(2), np.zeros(2, np.int64)
        diagnose.list_keys(twin.state, knobs.pack(), keys, keys_end)
        assert twin.state.runs.first_start_us.tolist() == [5_000_000, 0]
        assert keys[0] == key


def running(twin: Twin) -> list[int]:
    return np.flatnonzero(twin.state.runs.status == Status.RUNNING).tolist()


@pytest.mark.nojit
def test_a_starved_job_is_promoted() -> None:
    # A new job every 10 s. The first is set aside at 10 s having run for 10; at 30 s it has waited
    # twice as long as it ran, and comes before the fourth.
    jobs = ([0.0, 5.0, 15.0, 25.0], [100.0] * 4)
    for promote, at_30, at_40 in ((0.0, 3, 3), (2.0, 0, 1)):
        twin = one_device(*jobs, promote=promote)
        twin.run(20_000_000)
        assert running(twin) == [2]
        twin.run(30_000_000)
        assert running(twin) == [at_30]
        if promote:
            assert twin.state.memos.promoted_us.tolist() == [10e6, 0.0, 0.0, 0.0]
            assert twin.state.memos.queued_us[0] == 10_000_000
        # Promoted, it is demoted again by 10 s more; then it is the second job's turn.
        twin.run(40_000_000)
        assert running(twin) == [at_40]
        twin.run()
        assert twin.finished


def test_a_starved_job_is_told_when_it_is_promoted() -> None:
    twin = one_device([0.0, 5.0, 15.0, 25.0], [100.0] * 4, promote=2.0)
    twin.run(15_000_000)
    # Set aside at 10 s having run for 10: at 30 s it will have waited for 20.
    answer = explain(twin.state, twin.knobs, 0)
    assert answer.token == "not-far-enough-ahead"
    assert "wait: in about 15 s it goes back to the first queue (promote)" in answer.remedy.lower()
    assert answer.numbers["promoted_in_s"] == 15.0


def test_las_is_tiresias_with_one_threshold_and_no_promotion() -> None:
    las, tiresias = get_policy("las").knobs, get_policy("tiresias").knobs
    assert (las.attained_s, las.attained2_s, las.promote) == (3600.0, 0.0, 0.0)
    assert (tiresias.attained_s, tiresias.attained2_s, tiresias.promote) == (3250.0, 7200.0, 0.0)
