"""What is asked of Slurm for an attempt, and how its answers are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flyball.core.errors import BadInput
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Launch, LiveNode
from flyball.engines.slurm.own_attempts import mask_of
from flyball.engines.slurm.own_jobs import COLUMNS, OwnJob, read_own
from flyball.engines.slurm.own_nodes import parts_of
from flyball.engines.slurm.own_request import SlurmSettings, options_of, request_of, script_of
from flyball.engines.slurm.rank import variables
from flyball.engines.slurm.shared_folder import SharedFolder

CORES = LiveNode("c1", "CPU1", 8, 8, 4096)
GPUS = LiveNode("g1", "A100", 4, 32, 4096, ("g1:0", "g1:1", "g1:2", "g1:3"))
NODES = {"c1": CORES, "g1": GPUS, "g2": GPUS._replace(name="g2")}
SETTINGS = SlurmSettings(partition="gpu", account="lab", options=("--qos=high",), python="/py")
CLUSTER = "0123456789ab"


def options(names: tuple[str, ...], *masks: int, **asked: Any) -> list[str]:
    rows = tuple(Row(at, mask) for at, mask in enumerate(masks))
    launch = Launch(7, 2, JobSpec(("work",), **asked), rows, names)
    return options_of(launch, NODES, SETTINGS)


def test_a_job_is_pinned_to_its_node_and_gets_what_it_asks_for() -> None:
    got = options(("g1",), 0b0110, gpus=2, cpus=6, memory_mib=1001, limit_s=90.0, grace_s=5.0)
    assert {"--nodes=1", "--nodelist=g1", "--gres=gpu:2", "--cpus-per-task=6"} <= set(got)
    assert {"--mem=1001M", "--time=4", "--partition=gpu", "--account=lab"} <= set(got)
    assert got[-1] == "--qos=high", "what the user adds comes last"


def test_a_gang_is_spread_as_it_was_decided() -> None:
    even = options(("g1", "g2"), 0b1111, 0b1111, gpus=8, cpus=9, memory_mib=1001)
    assert {"--nodes=2", "--nodelist=g1,g2", "--gres=gpu:4", "--cpus-per-task=5"} <= set(even)
    assert "--mem=501M" in even
    assert "--gpus=5" in options(("g1", "g2"), 0b1111, 0b1, gpus=5)


def test_an_elastic_job_on_cores_gets_as_many_as_it_was_given() -> None:
    assert "--cpus-per-task=5" in options(("c1",), 0b11111, cpus=2, least=1, most=8)


def test_a_share_of_a_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="50 % of a GPU requested: Slurm gives whole GPUs only"):
        options(("g1",), 1, gpus=1, milli=500)


def test_the_request_has_identity_access_and_where_a_gang_meets(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path)
    rows = (Row(0, 15), Row(1, 15))
    spec = JobSpec(("train", "-x"), gpus=8, env={"LR": "1"}, cwd="/w")
    launch = Launch(7, 2, spec, rows, ("g1", "g2"))
    addresses = {"g1": "10.0.0.1"}
    request = request_of(
        launch, shared, SETTINGS, addresses, lambda token: {"FLYBALL_TOKEN": f"t{token}"}
    )
    env = request["env"]
    assert (env["LR"], env["FLYBALL_JOB_ID"], env["FLYBALL_ATTEMPT"]) == ("1", "7", "2")
    assert (env["MASTER_ADDR"], env["FLYBALL_DEVICES"]) == ("10.0.0.1", "8")
    assert env["FLYBALL_TOKEN"] == "t(7, 2)"
    assert "CUDA_VISIBLE_DEVICES" not in env, "Slurm sets it"
    assert request["argv"][0] == "srun"
    assert request["argv"][-5:] == ["/py", "-m", "flyball.engines.slurm.rank", "train", "-x"]
    script = script_of(shared, (7, 2), SETTINGS)
    assert script == f"#!/bin/sh\nexec /py -m flyball.engines.slurm.keeper {shared.path} 7.2\n"
    shared.close()


def test_torchruns_variables_of_a_node() -> None:
    given = {
        "SLURM_NODEID": "1", "SLURM_NNODES": "2", "MASTER_ADDR": "h", "MASTER_PORT": "5",
        "CUDA_VISIBLE_DEVICES": "0,3",
    }  # fmt: skip
    got = variables(given)
    assert (got["RANK"], got["WORLD_SIZE"], got["LOCAL_RANK"]) == ("1", "2", "0")
    assert (got["PET_NNODES"], got["PET_NODE_RANK"], got["PET_NPROC_PER_NODE"]) == ("2", "1", "2")
    assert (got["PET_MASTER_ADDR"], got["PET_MASTER_PORT"]) == ("h", "5")


@pytest.mark.parametrize(
    ("text", "mask"), [("0", 1), ("0-1,3", 0b1011), ("", 0), ("1-x", 0), ("0,0", 1)]
)
def test_indices_of_gpus(text: str, mask: int) -> None:
    assert mask_of(text) == mask


def record(**stated: str) -> bytes:
    usual = {"JobID": "5", "StateCompact": "R", "Reason": "None", "NodeList": "g1"}
    usual |= {"NumNodes": "1", "tres-alloc": "cpu=2,mem=20M,node=1,billing=2"}
    usual |= {"tres-per-job": "N/A", "tres-per-node": "gres:gpu:1"}
    usual |= {"Comment": f"flyball:{CLUSTER}:7.2", "Name": "fly-7.2"} | stated
    texts = (usual[name].ljust(width)[:width] for name, width in COLUMNS.items())
    return "".join(texts).encode() + b"\n"


def test_only_jobs_with_our_comment_and_name_are_ours() -> None:
    others = [
        record(Comment="flyball:ffffffffffff:7.2"),
        record(Name="fly-7.3"),
        record(Name="theirs\n"),
        record(Comment=f"flyball:{CLUSTER}:7.2x"),
        record(Comment="(null)"),
        record(JobID="5_1"),
    ]
    job = OwnJob(5, (7, 2), "R", "", "g1", cpus=2, gpus=1, memory_mib=20)
    assert read_own(b"".join([*others, record()]), CLUSTER) == [job]


def test_what_jobs_of_ours_have_of_each_node() -> None:
    jobs = [
        OwnJob(5, (7, 2), "R", "", "g[1-2]", cpus=6, gpus=3, memory_mib=40),
        OwnJob(6, (8, 1), "R", "", "g2", cpus=1, gpus=0, memory_mib=10),
    ]
    assert parts_of(jobs) == {"g1": (2, 3, 20), "g2": (2, 4, 30)}


def test_other_columns_are_refused() -> None:
    with pytest.raises(BadInput, match="other columns than were asked for"):
        read_own(b"5 R\n", CLUSTER)
