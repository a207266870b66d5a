"""`flyball submit --profile`: what a report of an optimised model fills in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.control.live_cases import Rig, env
from torch import nn

from flyball.cli.jobs.parse_job import parse_command
from flyball.cli.jobs.profile import is_profile, profile_options
from flyball.core.errors import BadInput
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode
from flyball.models import optimize
from flyball.models.report import write


def report(folder: Path, **changes: Any) -> Path:
    """Write a report."""
    path = folder / "report.json"
    values = {"model": "net", "threads": 2, "optimised_s": 0.02, "memory_bytes": 400 * 2**20}
    path.write_text(json.dumps({**values, **changes}))
    return path


def test_a_report_becomes_cores_memory_and_run_time(tmp_path: Path) -> None:
    options = profile_options(report(tmp_path), 100_000, {})
    assert options == {
        "model": "net",
        "cpus-per-task": "2",
        "mem": "1268M",
        "estimate": "2000s",
    }
    (draft,) = parse_command(["/bin/true"], options, True).drafts
    assert draft.values["cpus"] == 2
    assert draft.values["memory_mib"] == 1268
    assert draft.values["estimate_s"] == 2000
    assert draft.values["model"] == "net"


def test_placement_and_start_forecasts_use_a_measured_profile(tmp_path: Path) -> None:
    # 1. A model is optimised, and its report becomes the demand of two jobs of a million calls.
    module = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
    result = optimize(module, torch.randn(8, 256), backends=("fused",), threads=2, use_cache=False)
    write(result, tmp_path)
    figures = json.loads((tmp_path / "report.json").read_text())
    calls = 1e6
    options = profile_options(tmp_path / "report.json", calls, {})
    (draft,) = parse_command(["/bin/true"], options, True).drafts
    demand = {name: draft.values[name] for name in ("cpus", "memory_mib", "estimate_s", "model")}
    expected_s = math.ceil(calls * figures["optimised_s"])
    assert demand["estimate_s"] == expected_s
    # 2. The twin has a node of two cores whose memory holds one such job, and a smaller one.
    nodes = (
        LiveNode("a", "CPU1", 2, 2, demand["memory_mib"] + 1),
        LiveNode("b", "CPU1", 2, 2, demand["memory_mib"] - 1),
    )
    (tmp_path / "state").mkdir()
    rig = Rig(tmp_path / "state", nodes=nodes)
    running = rig.submit(**demand, env=env(float(expected_s)))
    rig.settle()
    waiting = rig.submit(**demand, env=env(float(expected_s)))
    rig.settle()
    # 3. The second does not fit beside the first, so it starts when the first is expected to end.
    assert rig.states(running, waiting) == [JobState.RUNNING, JobState.PENDING]
    forecast = rig.plane.forecaster.starts(rig.now)[waiting]
    assert forecast.p50_s == pytest.approx(expected_s, rel=0.01)
    # 4. A model twice as fast would let it start in half the time.
    faster = profile_options(
        report(tmp_path, **{**figures, "optimised_s": figures["optimised_s"] / 2}), calls, {}
    )
    assert int(faster["estimate"].removesuffix("s")) == pytest.approx(expected_s / 2, abs=1)
    rig.finish()
    assert rig.states(running, waiting) == [JobState.COMPLETED] * 2
    assert rig.start_s(waiting) - rig.start_s(running) == pytest.approx(expected_s, rel=0.01)


def test_what_is_stated_takes_precedence(tmp_path: Path) -> None:
    stated = {"mem-per-cpu": "1G", "cpus-per-task": "8", "estimate": "5"}
    assert profile_options(report(tmp_path), 10, stated) == {"model": "net"}


def test_without_calls_there_is_no_run_time(tmp_path: Path) -> None:
    assert "estimate" not in profile_options(report(tmp_path, memory_bytes=None), None, {})


def test_slurms_own_profile_is_none_of_ours() -> None:
    assert is_profile("out/report.json")
    assert not is_profile("all")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 1.5}, "threads is 1.5"),
        ({"threads": "2"}, "threads is '2'"),
        ({"optimised_s": float("nan")}, "optimised_s is nan"),
        ({"memory_bytes": -1}, "memory_bytes is -1"),
    ],
)
def test_numbers_out_of_range_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        profile_options(report(tmp_path, **changes), 10, {})


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(BadInput, match="No such file"):
        profile_options(path, None, {})
    path.write_text("{")
    with pytest.raises(BadInput, match="is not JSON"):
        profile_options(path, None, {})
    path.write_text("[]")
    with pytest.raises(BadInput, match="not a report"):
        profile_options(path, None, {})
    with pytest.raises(BadInput, match="out of range"):
        profile_options(report(tmp_path), 0, {})
