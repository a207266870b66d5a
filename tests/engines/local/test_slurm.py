"""What a script written for Slurm finds in its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Launch, LiveNode
from flyball.engines.local.request import KEPT_LOGS, request_line

CORES = LiveNode("box", "CPU1", 4, 4, 1000)
GPUS = LiveNode("box", "V100", 2, 16, 1000, ("GPU-0", "GPU-1"))


def seen(node: LiveNode, mask: int, attempt: int = 1, **spec: Any) -> dict[str, str]:
    """The variables with Slurm's names that a job is started with."""
    launch = Launch(17, attempt, JobSpec(("true",), **spec), (Row(0, mask),))
    line = request_line(launch, Path("/s"), node, [0, 1, 2, 3], KEPT_LOGS, (0, 0))
    env: dict[str, str] = json.loads(line.partition(b" ")[2])["env"]
    return {name: value for name, value in env.items() if name.startswith("SLURM")}


def test_a_job_that_says_nothing_is_one_process_with_its_cores() -> None:
    assert seen(CORES, 0b0110, name="train", cwd="/work", cpus=2) == {
        "SLURM_JOB_ID": "17",
        "SLURM_JOBID": "17",
        "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS": "1",
        "SLURM_NPROCS": "1",
        "SLURM_TASKS_PER_NODE": "1",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_JOB_CPUS_PER_NODE": "2",
        "SLURM_SUBMIT_DIR": "/work",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_JOB_NODELIST": "box",
        "SLURM_NODELIST": "box",
        "SLURMD_NODENAME": "box",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }


def test_the_submitter_knows_the_tasks_but_not_who_the_job_is() -> None:
    stated = {"SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "1", "SLURM_SUBMIT_DIR": "/elsewhere"}
    forged = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_CPUS_ON_NODE": "99"}
    variables = seen(CORES, 0b1111, cpus=4, env={**stated, **forged})
    assert stated.items() <= variables.items()
    assert (variables["SLURM_JOB_ID"], variables["SLURM_PROCID"]) == ("17", "0")
    assert variables["SLURM_CPUS_ON_NODE"] == "4"


def test_a_task_and_a_second_attempt() -> None:
    variables = seen(CORES, 1, attempt=3, array=15, array_index=2, memory_mib=64)
    assert (variables["SLURM_ARRAY_JOB_ID"], variables["SLURM_ARRAY_TASK_ID"]) == ("15", "2")
    assert variables["SLURM_RESTART_COUNT"] == "2"
    assert variables["SLURM_MEM_PER_NODE"] == "64"


def test_devices_are_counted_apart_from_cores() -> None:
    variables = seen(GPUS, 0b10, cpus=8, gpus=1)
    assert variables["SLURM_GPUS_ON_NODE"] == "1"
    assert (variables["SLURM_CPUS_PER_TASK"], variables["SLURM_CPUS_ON_NODE"]) == ("8", "8")


def test_an_elastic_job_is_told_the_cores_that_it_begins_with() -> None:
    variables = seen(CORES, 0b0111, cpus=2, least=1, most=4)
    assert (variables["SLURM_CPUS_PER_TASK"], variables["SLURM_CPUS_ON_NODE"]) == ("3", "3")


def test_fields_that_slurm_passes_on_as_variables() -> None:
    named: dict[str, Any] = {"partition": "gpu", "qos": "high", "tenant": "vision"}
    forged = {"SLURM_JOB_PARTITION": "forged"}
    variables = seen(CORES, 0b1111, cpus=4, tasks_per_node=2, env=forged, **named)
    for name in ("NTASKS", "NPROCS", "TASKS_PER_NODE", "NTASKS_PER_NODE", "CPUS_PER_TASK"):
        assert variables[f"SLURM_{name}"] == "2"
    assert [variables[f"SLURM_JOB_{name}"] for name in ("PARTITION", "QOS", "ACCOUNT")] == [
        "gpu", "high", "vision",
    ]  # fmt: skip
