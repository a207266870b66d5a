"""What a decision could have been: other policies on what it saw."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.control.decide.weigh import Weighed, weigh
from flyball.core.codes import ActionKind
from flyball.schedule.policies.registry import get_policy

OTHERS = {name: get_policy(name).knobs for name in ("fifo", "srtf")}


def weighed(rig: Rig, number: int) -> Weighed:
    events = rig.events()
    out = weigh([events[:7], events[7:]], number, OTHERS)
    assert out is not None
    return out


def test_a_short_job_behind_a_long_one(tmp_path: Path) -> None:
    """First come, first served starts the long one; shortest first would start the short one."""
    rig = Rig(tmp_path)
    first = rig.submit(cpus=4, estimate_s=10.0)
    rig.pass_s(1)
    long = rig.submit(cpus=4, estimate_s=900.0)
    short = rig.submit(cpus=4, estimate_s=20.0)
    rig.pass_s(1)
    rig.plane.cancel(first)
    rig.settle()
    assert rig.start_s(long) > 0
    number = rig.plane.decider.number
    out = weighed(rig, number)
    assert out.waiting == 2
    decided, srtf = out.alternatives
    assert (decided.policy, srtf.policy) == ("fifo", "srtf")
    assert decided.is_same
    assert decided.change_s is None
    assert not srtf.is_same
    assert [row[1] for row in srtf.plan if row[0] == ActionKind.START] == [short]
    assert decided.wait_s is not None
    assert srtf.wait_s is not None
    assert srtf.change_s is not None
    mean, low, high = srtf.change_s
    assert low <= mean <= high < 0
    assert srtf.wait_s - decided.wait_s == pytest.approx(mean)
    assert [(job, token) for job, token, _text in out.waits] == [(short, out.waits[0][1])]
    assert rig.verdict().differing == [], "weighing changes nothing"


def test_a_decision_that_is_not_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=1)
    rig.settle()
    assert weigh([rig.events()], 99, OTHERS) is None
