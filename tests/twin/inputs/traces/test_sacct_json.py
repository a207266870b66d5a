"""`sacct --json`: golden sample, layouts of several versions, faults."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.twin.inputs.traces import detect, json_text, read_trace

SAMPLE = Path(__file__).parent / "samples" / "sacct-json.json"
WEDNESDAY_8_H = 2 * 86_400 + 8 * 3_600  # 1714550400 is 8 h UTC on Wednesday, 1 May 2024


def job(**changes: Any) -> dict[str, Any]:
    return {
        "job_id": 7,
        "user": "ann",
        "account": "vision",
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1714550400, "elapsed": 60, "limit": {"set": True, "number": 5}},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}], "requested": []},
        **changes,
    }


def written(folder: Path, *jobs: Any) -> Path:
    path = folder / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}))
    return path


def test_sample() -> None:
    notes: list[str] = []
    got = read_trace(SAMPLE, notes=notes)
    assert got.ids.tolist() == ["100", "110_1", "110_2", "113+1"]
    assert (got.submit_us / 1e6 - WEDNESDAY_8_H).tolist() == [0, 600, 600, 1600]
    assert (got.duration_us / 1e6).tolist() == [7200, 615, 60, 30]
    assert got.devices.tolist() == [2, 1, 1, 4]
    assert [got.device_names[code] if code >= 0 else None for code in got.device] == [
        "A100", None, None, "V100",
    ]  # fmt: skip
    assert [got.tenants[code] for code in got.tenant] == ["vision", "vision", "vision", "speech"]
    assert [got.users[code] for code in got.user] == ["ann", "ann", "ann", "bob"]
    assert np.array_equal(got.estimate_us / 1e6, [86_400, 600, np.nan, np.nan], equal_nan=True)
    assert (got.limit_us / 1e6).tolist() == [0, 600, 0, 0]
    assert got.group.tolist() == [-1, 0, 0, -1]
    assert got.group_limits == (2,)
    assert got.outcome.tolist() == [
        Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED, Outcome.FAILED,
    ]  # fmt: skip
    assert got.row.tolist() == [1, 2, 3, 4]
    assert notes == [
        "sacct-json.json: 1 jobs left out: never started",
        "sacct-json.json: 1 jobs left out: no GPU, and the twin schedules devices",
        "sacct-json.json: 1 jobs left out: not ended (running)",
        "sacct-json.json: 1 jobs could start only later than submitted (dependency, array limit "
        "or begin time); the twin takes them from submission",
        "sacct-json.json: 1 parts of heterogeneous jobs taken as jobs of their own",
    ]


@pytest.mark.parametrize(
    ("limit", "estimate_s"),
    [
        ({"set": True, "infinite": False, "number": 5}, 300),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        (5, 300),
        (4294967295, None),
        (4294967294, None),
        (None, None),
    ],
)
def test_numbers_of_all_versions(tmp_path: Path, limit: Any, estimate_s: float | None) -> None:
    time = {"submission": {"set": True, "number": 1714550400}, "elapsed": 60, "limit": limit}
    got = read_trace(written(tmp_path, job(time=time)))
    assert got.submit_us[0] == WEDNESDAY_8_H * 1_000_000
    got_s = None if np.isnan(got.estimate_us[0]) else got.estimate_us[0] / 1e6
    assert got_s == estimate_s


@pytest.mark.parametrize("state", ["FAILED", {"current": "failed"}, {"current": ["FAILED", "X"]}])
def test_states_of_all_versions(tmp_path: Path, state: Any) -> None:
    assert read_trace(written(tmp_path, job(state=state))).outcome[0] == Outcome.FAILED


def test_unmeasured_start_does_not_matter(tmp_path: Path) -> None:
    # Old versions printed the eligible time as the start: the run time is `elapsed`.
    time = {"submission": 100, "start": 100, "end": 9000, "elapsed": 60}
    assert read_trace(written(tmp_path, job(time=time))).duration_us[0] == 60e6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "has no list `jobs`"),
        ("[]", "has no list `jobs`"),
        ('{"jobs": [', "row 1: is not JSON"),
        ('{\n"jobs": [\n{"job_id": 7,}]}', "row 3: is not JSON"),
        ('{"jobs": []}', "has no GPU job that ran and ended"),
        ('{"jobs": [{"job_id": 7, "job_state": "RUNNING"}]}', "squeue's jobs have not ended"),
        ('{"jobs": [NaN]}', "NaN is not a JSON number"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path, "sacct-json")
    assert says in str(caught.value)
    assert "bad.json" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"time": None}, "row 2: job 7 cannot be read"),
        ({"time": {"submission": "now", "elapsed": 1}}, "row 2: job 7 cannot be read"),
        (
            {"time": {"submission": 5, "elapsed": -1}},
            "row 2: job 7 cannot be read (-1 is negative)",
        ),
        ({"tres": {"allocated": [3]}}, "row 2: job 7 cannot be read"),
        ({"job_id": None}, "row 2: job None cannot be read"),
    ],
)
def test_faults_of_a_job(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, job(job_id=6), job(**changes)))
    assert says in str(caught.value)


def test_memory_stays_near_the_size_of_the_text(tmp_path: Path) -> None:
    steps = [{"step": {"id": f"7.{i}"}, "tres": {}, "time": {"elapsed": i}} for i in range(20)]
    path = tmp_path / "long.json"
    path.write_text(
        json.dumps({"jobs": [job(job_id=i, steps=steps) for i in range(2000)]}, indent=1)
    )
    tracemalloc.start()
    assert len(read_trace(path)) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * path.stat().st_size


def test_a_text_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_TEXT", 1000)
    with pytest.raises(BadInput, match="more than 1,000 characters"):
        read_trace(written(tmp_path, *[job(job_id=i) for i in range(9)]), "sacct-json")


def test_it_is_recognised(tmp_path: Path) -> None:
    assert detect(SAMPLE) == "sacct-json"
    assert detect(written(tmp_path, job())) == "sacct-json"
