"""Jobs and nodes as the API shows them."""

from __future__ import annotations

from dataclasses import replace

from tests.control.live_cases import START_US, TWO_NODES, spec_of

from flyball.control.ask.views import job_view, node_views
from flyball.core.events import NodeChanged
from flyball.core.jobs import Job, JobState, Row

WAITING = Job(5, spec_of(name="train", cpus=3, array=4, array_index=1), START_US)
RUNNING = replace(
    WAITING, state=JobState.RUNNING, attempt=2, rows=(Row(0, 6), Row(1, 1)), preemptions=1,
    first_start_us=START_US + 1_500_000,
)  # fmt: skip


def test_a_job_that_waits() -> None:
    view = job_view(WAITING, TWO_NODES)
    assert (view["id"], view["label"], view["array_id"]) == (5, "4_1", 4)
    assert (view["state"], view["submit_time"]) == ("PENDING", START_US / 1e6)
    assert [view[name] for name in ("start_time", "end_time", "node", "exit_code")] == [None] * 4
    assert view["spec"]["cpus"] == view["cpus"] == 3


def test_a_job_that_runs_and_one_that_ended() -> None:
    view = job_view(RUNNING, TWO_NODES)
    assert (view["node"], view["attempts"], view["preemptions"]) == ("a,b", 2, 1)
    assert view["start_time"] == START_US / 1e6 + 1.5
    ended = replace(
        RUNNING, state=JobState.FAILED, rows=(), end_us=START_US + 2_000_000,
        values={"exit_code": 0, "signal": 11}, reason="why",
    )  # fmt: skip
    view = job_view(ended, TWO_NODES)
    assert (view["exit_code"], view["signal"], view["reason"]) == (0, 11, "why")
    assert (view["node"], view["end_time"]) == (None, START_US / 1e6 + 2)
    assert job_view(replace(ended, values={"signal": 0}), TWO_NODES)["signal"] is None


DOWN = NodeChanged(START_US, 1, False, "b", "drained", "a fan is loud")


def test_nodes_and_the_jobs_that_hold_them() -> None:
    other = replace(RUNNING, id=6, rows=(Row(0, 2),))
    first, second = node_views(TWO_NODES, [RUNNING, other], {1: DOWN}, {0: (1, 8, 512)})
    assert (first["used"], first["held"], first["jobs"]) == (2, [[], [5, 6], [5], []], [5, 6])
    assert (first["up"], second["up"]) == (True, False)
    assert [(node["state"], node["reason"]) for node in (first, second)] == [
        ("up", ""),
        ("drained", "a fan is loud"),
    ]
    assert (second["used"], second["jobs"], second["devices"]) == (1, [5], 4)
    assert first["others"] == {"devices": 1, "cpus": 8, "memory_mib": 512}
    assert not any(second["others"].values())
