"""`flyball submit`: from a command line to the request that the server gets."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from flyball.cli.jobs.job_file import Draft
from flyball.cli.jobs.parse_job import draft_of, merged, parse_command
from flyball.cli.jobs.submit import DASHES, Command, dry_run_text, exit_code
from flyball.cli.main import run
from flyball.core.errors import BadInput


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(tmp_path / "nobody-home"))


def one(command: list[str], **options: str) -> Draft:
    stated = {name.replace("_", "-"): value for name, value in options.items()}
    [draft] = parse_command(command, stated, dashes=True).drafts
    return draft


# Where options end and the command begins ------------------------------------------

probe = typer.Typer()


@probe.command(cls=Command)
def _probe(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument()],
    cpus: Annotated[str, typer.Option("-c")] = "1",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    SEEN.append((command, cpus, as_json, ctx.meta[DASHES]))


SEEN: list[tuple[list[str], str, bool, bool]] = []


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("-c 2 -- python x -c 3", (["python", "x", "-c", "3"], "2", False, True)),
        ("python x -c 3", (["python", "x", "-c", "3"], "1", False, False)),
        ("-c 2 train.sh --json", (["train.sh", "--json"], "2", False, False)),
        ("job.yaml --json", (["job.yaml"], "1", True, False)),
        ("--json job.yml", (["job.yml"], "1", True, False)),
        ("-- job.yaml --json", (["job.yaml", "--json"], "1", False, True)),
        ("python x --config c.yaml", (["python", "x", "--config", "c.yaml"], "1", False, False)),
        ("python -- x", (["python", "--", "x"], "1", False, False)),
    ],
)
def test_where_the_command_begins(line: str, seen: tuple[list[str], str, bool, bool]) -> None:
    probe(line.split(), standalone_mode=False)
    assert seen == SEEN[-1]


# What options mean -----------------------------------------------------------------


def test_a_plain_command(tmp_path: Path) -> None:
    assert one(["echo", "a b"]) == Draft({"argv": ["echo", "a b"], "cwd": str(tmp_path), "cpus": 1})


def test_every_option(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    draft = one(
        ["python", "train.py"],
        job_name="train", nodes="1", ntasks="2", cpus_per_task="3", gpus="0.25", mem="4G",
        time="1:30:00", estimate="20", dependency="afterok:3:4", array="0-9%4", chdir="sub",
        output="out-%j.txt", export="NONE", nice="5", account="vision", priority="2.5",
        signal="USR1@30", model="ResNet-50", no_requeue="", no_preempt="",
        **{"class": "mixed"},
    )  # fmt: skip
    assert draft.values == {
        "argv": ["python", "train.py"],
        "nodes": 1,
        "name": "train",
        "cwd": str(tmp_path / "sub"),
        "env": {
            "SLURM_NTASKS": "2",
            "SLURM_NPROCS": "2",
            "SLURM_TASKS_PER_NODE": "2",
            "SLURM_CPUS_PER_TASK": "3",
            "SLURM_SUBMIT_DIR": str(tmp_path),
        },
        "cpus": 6,
        "gpus": 1,
        "milli": 250,
        "memory_mib": 4096,
        "limit_s": 5400.0,
        "estimate_s": 1200.0,
        "stdout": str(tmp_path / "sub" / "out-%j.txt"),
        "nice": 5,
        "tenant": "vision",
        "priority": 2.5,
        "requeue": False,
        "preemptible": False,
        "checkpoint_signal": signal.SIGUSR1,
        "signal_before_s": 30.0,
        "grace_s": 30.0,
        "kind": "mixed",
        "model": "ResNet-50",
    }
    assert draft.after == [("afterok", "3"), ("afterok", "4")]
    assert draft.tasks is not None
    assert draft.tasks.text == "0-9%4"
    assert draft.export == "NONE"


def test_slurm_has_several_words_for_the_same(tmp_path: Path) -> None:
    options = {"gres": "gpu:a100:2", "ntasks-per-node": "4", "mem-per-cpu": "1G"}
    values = draft_of(["x"], options, tmp_path).values
    assert (values["gpus"], values["milli"], values["cpus"]) == (2, 1000, 4)
    assert values["memory_mib"] == 4096
    assert draft_of(["x"], {"gres": "gpu"}, tmp_path).values["gpus"] == 1


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("nodes", "65537", "--nodes: '65537' is not valid; use a whole number from 0 to 65536"),
        ("ntasks", "0", "--ntasks: '0' is not valid"),
        ("cpus_per_task", "x", "--cpus-per-task: 'x' is not valid"),
        ("time", "soon", "--time: 'soon' is not a time"),
        ("mem", "big", "--mem: 'big' is not a size"),
        ("array", "9-1", "--array: array '9-1'"),
        ("dependency", "after:3", "--dependency: dependency 'after' is not supported"),
        ("nice", "100", "--nice: '100' is not valid; use a whole number from 0 to 19"),
        ("chdir", "absent", "--chdir: no folder"),
        ("job_name", "a\x1b[2J", "is not a name"),
        ("class", "mixd", "--class: unknown class 'mixd'; did you mean 'mixed'?"),
    ],
)
def test_bad_values(name: str, value: str, why: str) -> None:
    with pytest.raises(BadInput) as refusal:
        one(["echo"], **{name: value})
    assert why in str(refusal.value)


# Commands, scripts, files ----------------------------------------------------------


def test_a_script(tmp_path: Path) -> None:
    Path("train.sh").write_text("#!/bin/bash\n#SBATCH -c 4 --time=5 --mem-per-cpu=1G\necho\n")
    options = {"time": "1:00", "mem": "2G"}
    [draft] = parse_command(["train.sh", "--fast"], options, dashes=False).drafts
    assert draft.values == {
        "argv": ["/bin/bash", str(tmp_path / "train.sh"), "--fast"],
        "name": "train.sh",
        "cwd": str(tmp_path),
        "cpus": 4,
        "limit_s": 60.0,
        "memory_mib": 2048,
    }
    # After `--` it is a command like any other, and must be executable.
    Path("train.sh").chmod(0o755)
    assert one(["./train.sh"]).values["argv"] == ["./train.sh"]


def test_the_command_line_wins() -> None:
    script = {"requeue": "", "gres": "gpu:2", "time": "5", "array": "0-3"}
    line = {"no-requeue": "", "gpus": "1", "time": "9"}
    assert merged(script, line) == {"array": "0-3", **line}


def test_a_job_file() -> None:
    Path("two.yaml").write_text("jobs: [{command: [a]}, {command: [b]}]")
    drafts, notes, *_rest = parse_command(["two.yaml"], {}, False)
    assert [draft.name for draft in drafts] == ["a", "b"]
    assert notes == []
    with pytest.raises(BadInput, match="'--time' does not go with a job file"):
        parse_command(["two.yaml"], {"time": "5"}, False)
    with pytest.raises(BadInput, match="'more' does not go with a job file"):
        parse_command(["two.yaml", "more"], {}, False)


def test_what_is_not_there() -> None:
    with pytest.raises(BadInput, match="no such script"):
        parse_command(["absent.sh"], {}, False)
    with pytest.raises(BadInput, match="cannot be read"):
        parse_command(["absent.yaml"], {}, False)
    notes = parse_command(["nosuchprogram-7"], {}, True).notes
    assert notes == ["no program 'nosuchprogram-7' on your PATH"]


def test_refused_before_the_server_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["submit", "-t", "soon", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("flyball: --time: 'soon' is not a time; use minutes")
    assert run(["submit"]) == 2
    capsys.readouterr()


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["submit", "--hint", "x", "--comment", "x", "--", "true"]) == 75
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "note: --hint has no effect: a job has exclusive use of its cores",
        "note: --comment has no effect",
        "flyball: no control plane is running; start one with `flyball up`",
    ]


# Answers ---------------------------------------------------------------------------


def ended(state: str, code: int | None = None, number: int | None = None) -> dict[str, Any]:
    return {"state": state, "exit_code": code, "signal": number}


def test_exit_codes() -> None:
    assert exit_code(ended("COMPLETED", 0)) == 0
    assert exit_code(ended("FAILED", 7)) == 7
    assert exit_code(ended("TIMEOUT", None, 15)) == 124
    assert exit_code(ended("CANCELLED", None, 15)) == 143
    assert exit_code(ended("CANCELLED")) == 1
    assert exit_code(ended("BOOT_FAIL", 127)) == 127


def test_dry_run_in_words() -> None:
    row = {"name": "x", "would_start": True, "devices": 2, "device": "V100", "p50_s": 40.0}
    assert dry_run_text(row | {"p90_s": 90.0, "method": "estimates"}) == (
        "x: would start in 40 s on 2 x V100, 9 times out of 10 within 90 s (estimates)."
    )
    assert dry_run_text(row | {"p50_s": 0.0, "p90_s": 0.0}) == "x: would start now on 2 x V100."
    assert dry_run_text({"name": "x", "would_start": False}) == (
        "x: would not start as things stand."
    )


def test_python_is_found_where_it_was() -> None:
    assert parse_command([sys.executable, "-V"], {}, True).notes == []
