"""A journal's history as a trace that can be replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.control.journal.cases import (
    START_US,
    Kept,
    cancelled,
    ended,
    intended,
    requeued,
    spec,
    started,
    submitted,
)

from flyball.control.jobs.request import Demand
from flyball.control.journal.export import to_workload
from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.events import Event, Opened
from flyball.core.jobs import Job, JobState
from flyball.core.live import LiveNode
from flyball.twin.inputs.traces import read_trace

S = 1_000_000
CORES = LiveNode("here", "CPU1", 8, 8, 16_000)
GPUS = LiveNode("there", "A100", 4, 32, 64_000, ("GPU-0", "GPU-1", "GPU-2", "GPU-3"))
OPENED = Opened(START_US, "0.1.0", "easy", {}, "live", 0.0, ())
MONDAY_US = 1_699_833_600 * S  # 2023-11-13 00:00, before START_US (a Tuesday)


def run(job: int, start_s: int, end_s: int, **values: object) -> list[Event]:
    """One attempt that ends; seconds count from START_US."""
    start, end = START_US + start_s * S, START_US + end_s * S
    return [intended(job, 1, start), started(job, 1, start), ended(job, 1, end, **values)]


def test_a_history_is_read_back_as_a_trace(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db")
    nodes = [{**CORES._asdict(), "uuids": []}]
    kept.journal.append([
        replace(OPENED, nodes=nodes),
        submitted(1, START_US, estimate_s=90.0, memory_mib=512, kind="memory-bound", model="bert"),
        submitted(2, START_US + 5 * S, user="bob", tenant="", priority=2, after=(("afterok", 1),)),
        submitted(3, START_US + 6 * S, array=3, array_index=0, array_limit=1, limit_s=0.0),
        submitted(4, START_US + 6 * S, array=3, array_index=1, array_limit=1, limit_s=30.0),
        submitted(5, START_US + 7 * S),
        submitted(6, START_US + 8 * S, after=(("afterany", 5),)),
        submitted(7, START_US + 9 * S),
        *run(1, 10, 70),
        *run(2, 80, 95, state="FAILED"),
        *run(3, 100, 107),
        *run(4, 110, 141, state="TIMEOUT"),
        cancelled(5, START_US + 120 * S),
        *run(6, 130, 131, state="CANCELLED"),
    ]).wait()  # fmt: skip
    notes = kept.journal.export(tmp_path / "history.jsonl")
    kept.journal.close()
    assert notes == [
        "1 jobs left out: not ended",
        "1 jobs left out: ended before they started",
        "1 waits on jobs left out dropped",
    ]
    trace_notes: list[str] = []
    read = read_trace(tmp_path / "history.jsonl", notes=trace_notes)
    assert trace_notes == []
    assert read.ids.tolist() == ["1", "2", "3_0", "3_1", "6"]
    assert (read.duration_us / S).tolist() == [60, 15, 7, 31, 1]
    assert ((read.submit_us + MONDAY_US - START_US) / S).tolist() == [0, 5, 6, 6, 8]
    assert read.devices.tolist() == [2] * 5
    assert read.host_mib.tolist() == [512, 0, 0, 0, 0]
    assert (read.limit_us / S).tolist() == [3600, 3600, 0, 30, 3600]
    assert read.estimate_us[0] == 90 * S
    assert np.isnan(read.estimate_us[1:]).all()
    assert read.outcome.tolist() == [
        Outcome.COMPLETED,
        Outcome.FAILED,
        Outcome.COMPLETED,
        Outcome.FAILED,
        Outcome.CANCELLED,
    ]
    assert (read.group.tolist(), read.group_limits) == ([-1, -1, 0, 0, -1], (1,))
    assert (read.after_job.tolist(), read.after_on.tolist()) == ([1], [0])
    assert [read.users[code] for code in read.user] == ["ada", "bob", "ada", "ada", "ada"]
    assert (read.tenant.tolist(), read.tenants) == ([0, -1, 0, 0, 0], ("vision",))
    assert (read.device.tolist(), read.device_names) == ([0] * 5, ("CPU1",))
    assert (read.models, read.model.tolist()) == (("bert",), [0, -1, -1, -1, -1])
    assert read.kind.tolist() == [1, -1, -1, -1, -1]
    assert read.priority.tolist() == [0, 2, 0, 0, 0]


def test_time_of_several_attempts(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db")

    def twice(job: int, why: str) -> list[Event]:
        at = [START_US + second * S for second in (0, 10, 20, 50, 60)]
        return [
            submitted(job, at[0]),
            *(intended(job, 1, at[1]), started(job, 1, at[1]), requeued(job, 1, at[2], why=why)),
            *(intended(job, 2, at[3]), started(job, 2, at[3]), ended(job, 2, at[4] + 5 * S)),
        ]

    kept.journal.append([*twice(1, "preempt"), *twice(2, "lost")]).wait()
    demand = Demand([CORES])
    workload = to_workload(kept.journal.ended(), demand.device, demand.of, [])
    assert (workload.duration_us / S).tolist() == [10 + 15, 15]
    kept.journal.close()


def test_accelerators_are_the_devices_where_there_are_any() -> None:
    demand = Demand([GPUS])
    specs = (spec(gpus=2, milli=500, cpus=4), spec(cpus=3, memory_mib=64))
    jobs = [
        Job(at, spec, START_US, JobState.COMPLETED, started_us=START_US, first_start_us=START_US)
        for at, spec in enumerate(specs, 1)
    ]
    workload = to_workload(jobs, demand.device, demand.of, [])
    assert workload.devices.tolist() == [2, 0]
    assert workload.milli.tolist() == [500, 1000]
    assert workload.cpu_milli.tolist() == [4000, 3000]
    assert workload.device_names == ("A100",)


def test_nothing_to_export(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db")
    with pytest.raises(BadInput, match="no control plane has used it"):
        kept.journal.export(tmp_path / "history.jsonl")
    kept.journal.append([replace(OPENED, nodes=[CORES._asdict()]), submitted(1)]).wait()
    with pytest.raises(BadInput, match="no job that ran and ended"):
        kept.journal.export(tmp_path / "history.jsonl")
    assert not (tmp_path / "history.jsonl").exists()
    kept.journal.close()
