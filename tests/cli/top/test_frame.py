"""`flyball top`: what a frame shows."""

from __future__ import annotations

from typing import Any

from tests.cli.jobs.test_queue import job, task

from flyball.cli.top.frame import (
    LETTERS,
    MAX_RATED,
    Rates,
    Snapshot,
    blocks,
    frame,
    letters_of,
    rates_of,
    sensors_text,
)


def node(held: list[list[int]], up: bool = True) -> dict[str, Any]:
    used = sum(map(bool, held))
    return {
        "name": "vm", "device": "CPU1", "up": up, "held": held, "used": used, "devices": len(held),
        "cpus": len(held),
    }  # fmt: skip


def seen(queue: list[dict[str, Any]], *nodes: dict[str, Any]) -> Snapshot:
    waiting = sum(row["state"] == "PENDING" for row in queue)
    rates, sensors = Rates(3, 2, 1, 4.5), {"compute.total_percent": 93.4}
    return Snapshot(1100.0, nodes, queue, len(queue), waiting, rates, sensors)


def test_a_frame() -> None:
    queue = [
        job(3, "RUNNING", progress={"step": 40, "loss": 0.5}),
        job(4, "COMPLETING"),
        task(10, 0, token="behind-head"),
        task(10, 1, token="behind-head"),
        job(20, gpus=2, reason="requeued-lost"),
    ]
    lines = [line.plain for line in frame(seen(queue, node([[3], [3], [4], []])), 24)]
    assert lines[0].startswith("flyball top  ")
    assert lines[0].endswith("3 of 4 cores busy, 2 running, 3 waiting")
    assert lines[1:4] == [
        "last 5 min: 3 submitted, 2 started, 1 ended, mean wait 4.5 s",
        "cores 93 %",
        "vm  CPU1 DDE. 3/4",
    ]
    assert [line.split() for line in lines[4:]] == [
        ["running", "(2)"],
        ["D", "3", "job3", "1", "cpu", "1:30", "step", "40,", "loss", "0.5"],
        ["E", "4", "job4", "1", "cpu", "1:30", "COMPLETING"],
        ["waiting", "(3)"],
        ["10_[0-1]", "sweep", "1", "cpu", "1:40", "behind-head"],
        ["20", "job20", "2", "gpu", "1:40", "requeued-lost"],
    ]


def test_what_does_not_fit_is_counted() -> None:
    queue = [job(number, "RUNNING") for number in range(1, 31)] + [
        job(number) for number in range(31, 91)
    ]
    lines = [line.plain for line in frame(seen(queue, node([[]] * 4)), 20)]
    assert len(lines) <= 20 + 1
    assert "    and 24 more" in lines
    assert sum("more" in line for line in lines) == 2


def test_jobs_that_are_not_on_the_page_are_counted() -> None:
    part = seen([job(1, "RUNNING"), job(2), job(3)])._replace(total=5001, waiting=4990)
    lines = [line.plain for line in frame(part, 24)]
    assert lines[0].endswith("11 running, 4,990 waiting")
    assert "running (11)" in lines
    assert "waiting (4,990)" in lines
    assert ("    and 10 more" in lines, lines[-1]) == (True, "    and 4,988 more")


def test_what_devices_and_jobs_use() -> None:
    gib = 2**30
    sensors = {
        "nvidia.gpu10.use_percent": 0.0,
        "nvidia.gpu0.use_percent": 87.4,
        "nvidia.gpu0.memory_used_bytes": 12.0 * gib,
        "nvidia.gpu0.memory_bytes": 80.0 * gib,
        "nvidia.gpu0.power_w": 311.6,
        "nvidia.gpu0.outsiders_bytes": 2.0 * gib,
        "nvidia.gpu2.memory_used_bytes": 0.0,
        "nvidia.gpu2.memory_bytes": 80.0 * gib,
        "nvidia.gpu2.outsiders_bytes": 0.0,
        "nvidia.gpu2.power_w": None,
        "amd.gpu0.power_w": 90.0,
        "jobs.3.cpu_s_per_s": 1.8,
        "jobs.3.memory_bytes": 3.2 * gib,
    }
    queue = [job(3, "RUNNING", progress={"step": 4}), job(4, "RUNNING")]
    lines = [line.plain for line in frame(seen(queue)._replace(sensors=sensors), 24)]
    assert lines[2:6] == [
        "amd gpu0  90 W",
        "nvidia gpu0  87 %, memory 12.0G of 80.0G, 312 W, outsiders hold 2.0G",
        "nvidia gpu2  memory 0M of 80.0G",
        "nvidia gpu10  0 %",
    ]
    assert lines[7].endswith(" 1.8 cores, 3.2G  step 4")
    assert lines[8].split() == ["E", "4", "job4", "1", "cpu", "1:30"]


def test_nothing_runs_and_nothing_waits() -> None:
    lines = [line.plain for line in frame(seen([]), 24)]
    assert lines[-2:] == ["running (0)", "waiting (0)"]


def test_blocks() -> None:
    letters = letters_of([1, 2])
    assert blocks(node([[1], [1, 2], [], [99]]), letters).plain == "B+.*"
    assert blocks(node([[1], []], up=False), letters).plain == "xx"


def test_letters_stay_and_differ() -> None:
    assert letters_of([5]) == {5: "F"}
    assert letters_of([5, 57])[5] == "F"
    assert letters_of([5, 57])[57] == "G"
    many = letters_of(list(range(60)))
    assert sorted(many.values(), key=(LETTERS + "*").index)[: len(LETTERS)] == list(LETTERS)
    assert list(many.values()).count("*") == 8


def test_rates() -> None:
    jobs = [
        job(1, "COMPLETED", end_time=1090.0),
        job(2, "RUNNING", submit_time=700.0, start_time=810.0),
        job(3, "RUNNING", submit_time=100.0, start_time=200.0),
        job(4),
    ]
    assert rates_of(jobs, 1100.0) == Rates(2, 2, 1, 60.0)
    assert rates_of([], 0.0) == Rates(0, 0, 0, None)
    many = seen([])._replace(rates=rates_of([job(4)] * MAX_RATED, 1100.0))
    assert frame(many, 24)[1].plain == (
        "last 5 min, the newest 1,000 jobs: 1,000 submitted, 0 started, 0 ended"
    )


def test_sensors() -> None:
    assert sensors_text({}) == ""
    values = {
        "compute.total_percent": 50.2,
        "memory.total_bytes": 16 * 2**30,
        "memory.available_bytes": 12 * 2**30,
        "power.package_w": 45.4,
        "power.dram_w": None,
    }
    assert sensors_text(values) == "cores 50 %, memory 4.0G of 16.0G, package 45 W"
