"""What to ask for after a job was killed at its memory or time limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import ONE_NODE, START_US, Rig, spec_of

from flyball.control.ask.bills import Prices
from flyball.control.ask.receipts import Sampled, Seen, receipt
from flyball.control.jobs.request import cluster_of
from flyball.core.jobs import Job, JobState

CLUSTER = cluster_of(ONE_NODE, "live")
NODE_MIB = round(CLUSTER.groups[0].memory_gib * 1024)
S = 1_000_000


def ended(state: JobState, run_s: int = 1800, **spec: Any) -> Job:
    began_us = START_US + 10 * S
    return Job(
        7, spec_of(**spec), START_US, state, 1, started_us=began_us, first_start_us=began_us,
        end_us=began_us + run_s * S,
    )  # fmt: skip


def suggestion(job: Job, most_mib: float = 0.0, **progress: Any) -> Mapping[str, Any]:
    seen = Seen(memory=Sampled(most_mib, 9 if most_mib else 0), progress=progress)
    suggested: Mapping[str, Any] = receipt(job, CLUSTER, Prices(), job.end_us, seen)["suggestion"]
    return suggested


@pytest.mark.parametrize(
    ("limit_mib", "most_mib", "expected"),
    [
        (2048, 0.0, {"memory_mib": 4096, "text": "--mem 2G; next time: --mem 4G"}),
        (2048, 2048.0, {"memory_mib": 4096, "text": "--mem 2G; next time: --mem 4G"}),
        (100, 400.0, {"memory_mib": 500, "text": "--mem 100M; next time: --mem 500M"}),
    ],
)
def test_killed_at_its_memory_limit(
    limit_mib: int, most_mib: float, expected: dict[str, Any]
) -> None:
    job = ended(JobState.OUT_OF_MEMORY, memory_mib=limit_mib)
    expected["text"] = f"was killed at {expected['text']}"
    assert suggestion(job, most_mib) == expected


def test_no_more_memory_than_the_largest_node_has() -> None:
    suggested = suggestion(ended(JobState.OUT_OF_MEMORY, memory_mib=NODE_MIB - 1))
    assert suggested["memory_mib"] == NODE_MIB
    assert "all that the largest node has" in suggested["text"]
    suggested = suggestion(ended(JobState.OUT_OF_MEMORY, memory_mib=NODE_MIB))
    assert "memory_mib" not in suggested
    assert "have the job use less" in suggested["text"]
    assert "--mem" in suggestion(ended(JobState.OUT_OF_MEMORY))["text"]


@pytest.mark.parametrize(
    "progress",
    [
        {"step": 620, "total_steps": 1000.0},
        {"step": 62.0, "steps": 100, "loss": 0.1},
        {"epoch": 31, "epochs": 50},
        {"progress": 0.62},
        {"percent": 62},
    ],
)
def test_reached_its_time_limit_with_progress(progress: dict[str, float]) -> None:
    suggested = suggestion(ended(JobState.TIMEOUT, limit_s=1800.0), **progress)
    assert suggested == {
        "limit_s": 55 * 60,  # 30 min / 0.62 = 48.4 min, a tenth more, in steps of five
        "progress": 0.62,
        "text": "reached its limit of 30.0 min at 62% progress; next time: -t 55",
    }


@pytest.mark.parametrize(
    "progress",
    [{}, {"loss": 0.3}, {"step": 5}, {"step": -1, "steps": 9}, {"progress": 7}, {"step": "x"}],
)
def test_reached_its_time_limit_without_progress(progress: dict[str, Any]) -> None:
    suggested = suggestion(ended(JobState.TIMEOUT, run_s=300, limit_s=300.0), **progress)
    assert suggested["limit_s"] == 600
    assert suggested["text"] == (
        "reached its limit of 5.0 min and reported no progress; "
        "next time: -t 10, twice as long, which is a guess"
    )


def test_next_limit_is_never_below_the_one_it_reached() -> None:
    suggested = suggestion(ended(JobState.TIMEOUT, run_s=60, limit_s=60.0), step=9, steps=9)
    assert (suggested["limit_s"], suggested["progress"]) == (120, 1.0)
    started = suggestion(ended(JobState.TIMEOUT, run_s=60, limit_s=60.0), percent=0.1)
    assert (started["limit_s"], "progress" in started) == (120, False)
    assert "had done 0.1%" in started["text"]


def test_reported_progress_reaches_the_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(limit_s=1800.0)
    rig.plane.progress.hear(job, {"step": 620.0, "total_steps": 1000.0})
    rig.finish()
    timed_out = replace(ended(JobState.TIMEOUT, limit_s=1800.0), id=job)
    monkeypatch.setattr(rig.plane.ask, "job", lambda _number: timed_out)
    assert rig.plane.ask.receipt(job)["suggestion"]["limit_s"] == 55 * 60
