"""Typical headers of Slurm scripts: the job that each describes, or why it is refused."""

from __future__ import annotations

import shutil
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.jobs import parse_job
from flyball.cli.jobs.parse_job import Request, parse_command
from flyball.cli.main import run
from flyball.core.errors import BadInput

TASKS4 = {
    "SLURM_NTASKS": "4",
    "SLURM_NPROCS": "4",
    "SLURM_TASKS_PER_NODE": "4",
    "SLURM_CPUS_PER_TASK": "1",
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(tmp_path / "nobody-home"))
    monkeypatch.setattr(shutil, "which", {"python": "/bin/python"}.get)


def read(header: str, body: str = "python train.py", **options: str) -> Request:
    lines = "".join(f"#SBATCH {line}\n" for line in header.splitlines())
    Path("job.sh").write_text(f"#!/bin/bash\n{lines}\n{body}\n")
    return parse_command(["job.sh"], options, dashes=False)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("-J train\n-c 4\n--mem=8G\n-t 2-00:00:00",
         {"name": "train", "cpus": 4, "memory_mib": 8192, "limit_s": 172_800.0}),
        ("--nodes=1\n--ntasks=1\n--cpus-per-task=8", {"nodes": 1, "cpus": 8}),
        ("-N 1-1\n-n 4", {"nodes": 1, "cpus": 4, "env": TASKS4}),
        ("--nodes=1\n--ntasks-per-node=4\n--gpus-per-node=4",
         {"nodes": 1, "tasks_per_node": 4, "cpus": 4, "gpus": 4, "milli": 1000}),
        ("-N 2 -n 4 --ntasks-per-node=2",
         {"nodes": 2, "tasks_per_node": 2, "cpus": 4, "env": TASKS4}),
        ("--ntasks=4 --gpus-per-task=1 --cpus-per-task=2",
         {"cpus": 8, "gpus": 4, "milli": 1000, "env": {**TASKS4, "SLURM_CPUS_PER_TASK": "2"}}),
        ("--gpus=2\n--cpus-per-gpu=6\n--mem-per-gpu=16G",
         {"cpus": 12, "gpus": 2, "milli": 1000, "memory_mib": 32_768}),
        ("--tasks-per-node=4", {"cpus": 4, "tasks_per_node": 4}),
        ("--gpus=4 --ntasks-per-gpu=1", {"cpus": 4, "gpus": 4, "milli": 1000, "env": TASKS4}),
        ("--gres=gpu:a100:1", {"cpus": 1, "gpus": 1, "milli": 1000, "device_type": "a100"}),
        ("-G a100:2", {"cpus": 1, "gpus": 2, "milli": 1000, "device_type": "a100"}),
        ("--gres=gpu:1,tmpdisk:10", {"cpus": 1, "gpus": 1, "milli": 1000}),
        ("--gres=tmpdisk:100", {"cpus": 1, "gpus": 0, "milli": 1000}),
        ("-c 3 --mem-per-cpu=2G", {"cpus": 3, "memory_mib": 6144}),
        ("-c 3 --mem=0", {"cpus": 3, "memory_mib": 0}),
        ("-c 2 --elastic=1-4", {"cpus": 2, "least": 1, "most": 4}),
        ("-p gpu -A vision -q high",
         {"cpus": 1, "tenant": "vision", "partition": "gpu", "qos": "high"}),
        ("--deadline=2030-01-20T12:34:00 -C 'nvme&ib' --max-processes=5",
         {"cpus": 1, "deadline": datetime(2030, 1, 20, 12, 34).timestamp(),
          "features": ("nvme", "ib"), "max_processes": 5}),
        ("--signal=B:USR1@60",
         {"cpus": 1, "checkpoint_signal": int(signal.SIGUSR1), "grace_s": 60.0,
          "signal_before_s": 60.0}),
        ("--signal=USR2 --hold",
         {"cpus": 1, "checkpoint_signal": int(signal.SIGUSR2), "signal_before_s": 60.0,
          "signal_children": True, "hold": True}),
        ("--no-requeue", {"cpus": 1, "requeue": False}),
        ("--notify=http://localhost/x\n--notify './tell me' --notify=true",
         {"cpus": 1, "notify": ["http://localhost/x", "./tell me", "true"]}),
        ("--requeue --nice=5", {"cpus": 1, "nice": 5}),
        ("--mail-type=ALL\n--mail-user=me@example.org\n--exclusive", {"cpus": 1}),
        ("--hint=nomultithread --threads-per-core=1 -m block:block", {"cpus": 1}),
        ("--open-mode=append --comment 'a b' --parsable --get-user-env", {"cpus": 1}),
    ],
)  # fmt: skip
def test_headers_and_their_jobs(tmp_path: Path, header: str, values: dict[str, Any]) -> None:
    [draft] = read(header).drafts
    same = {"argv": ["/bin/bash", str(tmp_path / "job.sh")], "cwd": str(tmp_path), "name": "job.sh"}
    assert draft.values == same | values


def test_headers_about_files_tasks_and_variables(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    asked = read(
        "--chdir=run\n-o logs/%x-%A_%a.out -e logs/%x-%A_%a.err\n"
        "--array=1,3,5-9:2%2\n--export=ALL,A=b\n-d afterok:12:13,afterany:14"
    )
    [draft] = asked.drafts
    assert draft.values["stdout"] == str(tmp_path / "run/logs/%x-%A_%a.out")
    assert draft.values["env"] == {"SLURM_SUBMIT_DIR": str(tmp_path)}
    assert draft.tasks is not None
    assert (draft.tasks.indices, draft.tasks.limit) == ((1, 3, 5, 7, 9), 2)
    assert draft.export == "ALL,A=b"
    assert draft.after == [("afterok", "12"), ("afterok", "13"), ("afterany", "14")]
    assert draft.values["stderr"] == str(tmp_path / "run/logs/%x-%A_%a.err")
    assert asked.notes == []


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("--gres=gpu:1,tmpdisk:10", "--gres: tmpdisk not managed here, and ignored"),
        ("-t 1 --signal=USR1@60",
         "--signal: sent at the start: its limit of 60 s is not above 60 s"),
        ("--signal=USR1@60", "--signal: without --time, sent only when the job is preempted"),
        ("--exclusive", "--exclusive has no effect: a job has exclusive use of its"
         " cores and GPUs; request them with -c and -G"),
        ("--hint=nomultithread", "--hint has no effect: a job has exclusive use of its cores"),
    ],
)  # fmt: skip
def test_what_does_less_than_in_slurm_is_said_with_its_line(header: str, note: str) -> None:
    assert read(header).notes == [f"job.sh line 2: {note}"]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("-c 2\n--nodes=many", "job.sh line 3: --nodes: 'many' is not a number of nodes; use e.g."),
        ("-C 'a|b'", "job.sh line 2: --constraint: 'a|b': alternatives are not supported; use"),
        ("--gres=gpu:a100:1,gpu:v100:1", "several types of GPU; ask for one type"),
        ("-n 60000 -c 2", "cpus: 120000 is not valid; use a whole number from 1 to 65536"),
        ("--mem-per-cpu=1000000G -c 1000", "memory_mib: "),
        ("--time=tomorrow", "job.sh line 2: --time: 'tomorrow' is not a time; use minutes"),
        ("--mem=lots", "job.sh line 2: --mem: 'lots' is not a size; use MiB"),
        ("--cpus-per-task=x",
         "job.sh line 2: --cpus-per-task: 'x' is not valid; use a whole number"),
        ("--cpus-per-gpu=4", "job.sh line 2: --cpus-per-gpu: no GPUs are requested; add --gpus"),
        ("--begin=now-1hour", "job.sh line 2: --begin: 'now-1hour' is not a start time"),
        ("--dependency=singleton",
         "job.sh line 2: --dependency: dependency 'singleton' is not supported; use afterany:ID"),
        ("--nice=1000", "for a later place in the queue use --priority=-1"),
        ("--array=9-1", "job.sh line 2: --array: array '9-1'"),
        ("--gres=gpu:2x", "job.sh line 2: --gres: '2x' is not a number of GPUs"),
        ("--ntask=4", "unknown option in job.sh line 2: '--ntask'; did you mean '--ntasks'?"),
        ("--chdir=absent", "job.sh line 2: --chdir: no folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_said_with_its_line_and_a_remedy(header: str, why: str) -> None:
    with pytest.raises(BadInput) as refusal:
        read(header)
    assert why in str(refusal.value)


def test_an_option_of_the_command_line_is_not_blamed_on_the_script() -> None:
    with pytest.raises(BadInput) as refusal:
        read("--time=5", time="soon")
    assert str(refusal.value).startswith("--time: 'soon'")


def test_scripts_may_say_that_the_submission_waits() -> None:
    assert read("--wait").flags == {"wait"}
    assert read("-W\n--test-only").flags == {"wait", "dry-run"}
    assert read("-c 2").flags == frozenset()


def test_srun_is_missed_before_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = f"job.sh line 4 calls srun, and there is none on your PATH; {parse_job.NO_SRUN}"
    assert read("-n 2", "srun python train.py").notes == [warning]
    assert read("-n 2", "mpirun python train.py").notes == []
    monkeypatch.setattr(shutil, "which", {"srun": "/usr/bin/srun"}.get)
    assert read("-n 2", "srun python train.py").notes == []


# On the command line -----------------------------------------------------------------


def test_slurms_other_options_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = "submit --gres=gpu:1,tmpdisk:1 --mem-per-cpu 1G -e err.txt --ntasks-per-node=2 -- python"
    assert run(line.split()) == 75
    assert capsys.readouterr().err.splitlines()[:-1] == [
        "note: --gres: tmpdisk not managed here, and ignored",
    ]
    assert run(["submit", "--gres"]) == 2
    assert "the command line: --gres needs a value" in capsys.readouterr().err
    assert run(["submit", "--begin=whenever", "--", "python"]) == 2
    assert "--begin: 'whenever' is not a start time" in capsys.readouterr().err


def test_a_line_for_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [draft] = parse_job.parse_wrapped("echo $HOME | wc", {"cpus-per-task": "2"}).drafts
    assert draft.values == {
        "argv": ["/bin/sh", "-c", "echo $HOME | wc"],
        "name": "wrap",
        "cwd": str(tmp_path),
        "cpus": 2,
    }
    assert run(["submit", "--wrap", "echo"]) == 75
    capsys.readouterr()
    assert run(["submit", "--wrap", "echo", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("flyball: both a command and --wrap; e.g.")
    assert run(["submit"]) == 2
    assert capsys.readouterr().err.startswith("flyball: no command; e.g. flyball submit -- python")
