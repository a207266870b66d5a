"""What Slurm 22.05's commands print is read as it was meant, whatever users call their jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.errors import BadInput
from flyball.engines.slurm.accounting import FIELDS, SEPARATOR, read_ended
from flyball.engines.slurm.queue_text import (
    COLUMNS,
    RECORD_BYTES,
    QueuedJob,
    gpus_of,
    instant_s,
    limit_s,
    memory_mib,
    read_queue,
)
from flyball.engines.slurm.records_text import (
    Share,
    expanded,
    read_nodes,
    read_partitions,
    read_settings,
    read_shares,
)

RECORDED = Path(__file__).parent / "recorded" / "22.05"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


@pytest.fixture
def queue() -> dict[str, QueuedJob]:
    return {job.label: job for job in read_queue(recorded("squeue.txt"))}


def row(**texts: str) -> bytes:
    """A record of squeue's with these texts, the rest as for a plain pending job."""
    usual = {
        "JobID": "7", "JobArrayID": "7", "StateCompact": "PD", "Reason": "Priority",
        "PriorityLong": "1", "SubmitTime": "100", "EligibleTime": "100", "StartTime": "N/A",
        "EndTime": "N/A", "TimeLimit": "1:00", "NumNodes": "1", "NumCPUs": "1", "NumTasks": "1",
        "OverSubscribe": "OK", "Partition": "main", "UserName": "ann",
    }  # fmt: skip
    cells = {name: (usual | texts).get(name, "N/A").encode() for name in COLUMNS}
    return b"".join(cells[name][:width].ljust(width) for name, width in COLUMNS.items()) + b"\n"


def test_all_jobs_and_tasks_are_read(queue: dict[str, QueuedJob]) -> None:
    labels = "1 2 3 4 5 6_0 6_1 6_2 6_3 7 8 9 10 11"
    assert sorted(queue) == sorted(labels.split())
    assert queue["11"].state == "CD" and queue["11"].end_s is not None


def test_requests_are_read(queue: dict[str, QueuedJob]) -> None:
    assert (queue["1"].gpus, queue["1"].cpus, queue["1"].limit_s) == (2, 2, 600.0)
    assert (queue["2"].gpus, queue["2"].gpu_type) == (1, "a100")
    assert queue["2"].limit_s == 26 * 3600 + 4 * 60  # Slurm rounds to minutes
    assert (queue["4"].gpus, queue["4"].nodes) == (6, 3)
    assert queue["10"].exclusive and queue["10"].partitions == ("main", "first")
    assert not queue["1"].exclusive
    assert queue["10"].limit_s is None


def test_states_and_reasons_are_read(queue: dict[str, QueuedJob]) -> None:
    assert queue["7"].reason == "JobHeldUser" and queue["7"].priority == 0
    assert queue["8"].dependency == "afterok:1(unfulfilled)"
    begins = queue["9"]
    assert begins.eligible_s is not None and begins.eligible_s - begins.submit_s == 3600
    assert queue["3"].node_list == "n[1,4]"
    assert queue["4"].start_s is not None and queue["4"].start_s > queue["4"].submit_s


def test_a_name_with_bars_newlines_and_forged_fields_is_only_a_name(
    queue: dict[str, QueuedJob],
) -> None:
    assert queue["5"].name == "bad|na me\nJobId=1 JobName=x\té"
    assert queue["5"].state == "R"


def test_a_long_name_is_cut_within_a_letter() -> None:
    (job,) = read_queue(row(Name="é" * 200))
    assert job.name == "é" * 64


def test_an_empty_queue_has_no_jobs() -> None:
    assert read_queue(b"") == []


@pytest.mark.parametrize(
    "output",
    [
        row()[:-2] + b"\n",
        row()[:-1] + b" \n",
        row() + b"JOBID NAME\n",
        row(StateCompact="??"),
        row(JobID="n/a"),
        row(TimeLimit="soon"),
        row(SubmitTime="N/A"),
        row(PriorityLong="high"),
    ],
)
def test_other_columns_are_a_clear_error(output: bytes) -> None:
    with pytest.raises(BadInput, match=r"squeue printed other columns.*22\.05"):
        read_queue(output)


def test_each_record_has_the_stated_length() -> None:
    assert len(recorded("squeue.txt")) % RECORD_BYTES == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("2:03:04", 7384.0), ("10:00", 600.0), ("UNLIMITED", None)],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert limit_s(text) == seconds


def test_instants_in_seconds_or_iso() -> None:
    assert instant_s("1795016410") == 1795016410.0
    assert instant_s("N/A") is None
    assert instant_s("2026-11-18T15:40:10") is not None


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=4,gres/gpu=2,gres/gpu:a100=2", (2, "a100")),
        ("gres:gpu:2", (2, "")),
        ("gres:gpu:a100:4", (4, "a100")),
        ("gres:gpu", (1, "")),
        ("gres/gpu:a100=1,gres/gpu:h100=2", (3, "")),
        ("cpu=4,mem=1G", (0, "")),
    ],
)
def test_gpus_in_a_list_of_resources(text: str, gpus: tuple[int, str]) -> None:
    assert gpus_of(text) == gpus


def test_memory_in_a_list_of_resources() -> None:
    assert memory_mib("cpu=2,mem=20M,node=1") == 20
    assert memory_mib("cpu=2,mem=1.50T") == 1_572_864
    assert memory_mib("cpu=2") == 0


def test_nodes_are_read() -> None:
    nodes = {node.name: node for node in read_nodes(recorded("nodes.txt"))}
    assert list(nodes) == ["n1", "n2", "n3", "n4"]
    first = nodes["n1"]
    assert (first.cpus, first.memory_mib, first.gpus, first.gpu_type) == (4, 1000, 2, "a100")
    assert first.available and set(first.partitions) == {"main", "first"}
    assert nodes["n2"].partitions == ("main",)
    used = [(node.cpus_used, node.gpus_used, node.memory_used_mib) for node in nodes.values()]
    assert used == [(3, 2, 30), (2, 2, 20), (1, 1, 10), (4, 0, 40)], "GPUs are not in AllocTRES"


@pytest.mark.parametrize(
    ("state", "available"),
    [
        ("IDLE", True), ("MIXED", True), ("IDLE+CLOUD+POWERED_DOWN", True), ("DOWN*", False),
        ("IDLE+DRAIN", False), ("MIXED+DRAIN", False), ("IDLE*", False),
        ("DOWN+NOT_RESPONDING", False),
    ],
)  # fmt: skip
def test_nodes_on_which_no_job_may_start(state: str, available: bool) -> None:
    text = recorded("nodes.txt").splitlines()[0].decode()
    current = read_nodes(text.encode())[0].state
    (node,) = read_nodes(text.replace(f"State={current} ", f"State={state} ").encode())
    assert node.available is available


def test_partitions_and_settings_are_read() -> None:
    main, first = read_partitions(recorded("partitions.txt"))
    assert (main.name, main.up, main.tier, main.max_s) == ("main", True, 1, None)
    assert (first.tier, first.max_s) == (2, 3600.0)
    settings = read_settings(recorded("config.txt"))
    assert settings["schedulertype"] == "sched/backfill"
    assert settings["slurm_version"] == "22.05.8"


def test_a_version_with_other_fields_is_a_clear_error() -> None:
    with pytest.raises(BadInput, match="has no CPUTot"):
        read_nodes(b"NodeName=n1 State=IDLE RealMemory=5\n")
    with pytest.raises(BadInput, match="has no SchedulerType"):
        read_settings(b"nothing\n")


def test_where_a_job_on_several_nodes_runs() -> None:
    shares = read_shares(recorded("job3.txt"), 3)
    assert shares is not None
    assert {share.node for share in shares} == {"n1", "n4"}
    assert sum(share.cpus for share in shares) == 6
    assert Share("n4", 4, 40, 0) in shares


def test_a_job_whose_name_forges_a_record_is_not_trusted() -> None:
    assert read_shares(recorded("job5.txt"), 5) is None
    assert read_shares(recorded("job3.txt"), 4) is None


def test_host_lists() -> None:
    assert expanded("n[1-3,07],login") == ["n1", "n2", "n3", "n07", "login"]
    assert expanded("r[1-2]n[08-09]") == ["r1n08", "r1n09", "r2n08", "r2n09"]
    assert expanded("") == []


def ended_row(**texts: str) -> str:
    usual = {
        "JobID": "7", "User": "ann", "Account": "lab", "Partition": "main", "Submit": "100",
        "Start": "200", "End": "260", "ElapsedRaw": "60", "TimelimitRaw": "10",
        "State": "COMPLETED", "ReqCPUS": "4", "ReqTRES": "", "JobName": "train",
        "AllocTRES": "cpu=4,gres/gpu=2,mem=8G", "Priority": "5",
    }  # fmt: skip
    return SEPARATOR.join((usual | texts)[name] for name in FIELDS) + "\n"


def test_ended_jobs_are_read() -> None:
    cancelled = ended_row(JobID="8", State="CANCELLED by 1000")
    never_ran = ended_row(JobID="9", Start="None", End="None")
    jobs = read_ended((ended_row() + cancelled + never_ran).encode())
    assert [job.label for job in jobs] == ["7", "8"]
    assert jobs[0].limit_s == 600.0 and jobs[0].gpus == 2 and jobs[0].memory_mib == 8192
    assert jobs[1].state == "CANCELLED"


def test_names_in_accounts_may_hold_anything() -> None:
    name = f"a|b{SEPARATOR}c\nd e"
    jobs = read_ended((ended_row(JobName=name) + ended_row(JobID="8")).encode())
    assert [job.name for job in jobs] == [name, "train"]


def test_accounts_with_other_fields_are_a_clear_error() -> None:
    with pytest.raises(BadInput, match="sacct printed 1 fields instead of"):
        read_ended(b"7|ann\n")
    with pytest.raises(BadInput, match="sacct: job '7'"):
        read_ended(ended_row(ElapsedRaw="long").encode())
