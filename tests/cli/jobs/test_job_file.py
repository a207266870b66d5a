"""Job files: what their keys mean, and how they are refused."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flyball.cli.jobs.job_file import Draft, read_jobs
from flyball.core.errors import BadInput


def jobs(folder: Path, text: str) -> list[Draft]:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_jobs(path)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(BadInput) as refusal:
        jobs(folder, text)
    return str(refusal.value)


def test_one_job(tmp_path: Path) -> None:
    [draft] = jobs(
        tmp_path,
        """
name: train
command: [python, train.py, --epochs, 3, --fast, no]
cpus: 2
gpus: 0.5
memory: 4G
limit: 1:30:00
estimate: 20
priority: 1.5
class: mixed
model: ResNet-50
tenant: vision
nice: 5
requeue: no
preemptible: false
signal: USR1@30
hold: yes
begin_time: 1893456000
output: out/%j.txt
notify: [http://localhost/x, ./tell me, [tell, a b]]
env: {OMP_NUM_THREADS: 2, MODE: on}
export: NONE
array: 0-9%4
after: 12
""",
    )
    assert draft.values == {
        "name": "train",
        "argv": ["python", "train.py", "--epochs", "3", "--fast", "no"],
        "cpus": 2,
        "gpus": 1,
        "milli": 500,
        "memory_mib": 4096,
        "limit_s": 5400.0,
        "estimate_s": 1200.0,
        "priority": 1.5,
        "kind": "mixed",
        "model": "ResNet-50",
        "tenant": "vision",
        "nice": 5,
        "requeue": False,
        "preemptible": False,
        "checkpoint_signal": signal.SIGUSR1,
        "signal_before_s": 30.0,
        "hold": True,
        "notify": ["http://localhost/x", "./tell me", ["tell", "a b"]],
        "begin_time": 1893456000.0,
        "grace_s": 30.0,
        "cwd": str(tmp_path),
        "stdout": str(tmp_path / "out/%j.txt"),
        "env": {"OMP_NUM_THREADS": "2", "MODE": "on"},
    }
    assert draft.tasks is not None
    assert (len(draft.tasks.indices), draft.tasks.limit) == (10, 4)
    assert draft.after == [("afterok", "12")]
    assert draft.export == "NONE"


def test_fields_of_the_interface_are_keys_too(tmp_path: Path) -> None:
    [draft] = jobs(
        tmp_path,
        "{argv: [sleep, 5], limit_s: 90, estimate_s: 2.5, memory_mib: 64, kind: mixed, grace_s: 1,"
        " stdout: /tmp/x}",
    )
    wanted = {"limit_s": 90.0, "estimate_s": 2.5, "memory_mib": 64, "kind": "mixed", "grace_s": 1.0}
    assert wanted.items() <= draft.values.items()
    assert draft.values["stdout"] == "/tmp/x"


def test_a_command_as_a_line(tmp_path: Path) -> None:
    [draft] = jobs(tmp_path, """command: python -c 'print("a b")' $HOME""")
    assert draft.values["argv"] == ["python", "-c", 'print("a b")', "$HOME"]
    assert draft.name == "python"


def test_jobs_that_wait_for_each_other(tmp_path: Path) -> None:
    drafts = jobs(
        tmp_path,
        """
jobs:
  - {name: prepare, command: [a], cwd: data}
  - {name: train, command: [b], after: prepare, array: 0-1}
  - {name: check, command: [c], after: [afterany:train, 7, [afternotok, prepare]]}
  - {command: [d], after: {afterok: [train, 12_3], afterany: prepare}}
""",
    )
    assert drafts[0].values["cwd"] == str(tmp_path / "data")
    assert [draft.after for draft in drafts[1:]] == [
        [("afterok", "prepare")],
        [("afterany", "train"), ("afterok", "7"), ("afternotok", "prepare")],
        [("afterok", "train"), ("afterok", "12_3"), ("afterany", "prepare")],
    ]


def test_a_list_without_a_name(tmp_path: Path) -> None:
    assert len(jobs(tmp_path, "[{command: [a]}, {command: [b]}]")) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("comand: [a]", "unknown key in {}: 'comand'; did you mean 'command'?"),
        ("jobs: [{command: [a], cpu: 1}]", "key in {}: jobs[0]: 'cpu'; did you mean 'cpus'?"),
        ("{jobs: [], more: 1}", "unknown key in {}: 'more'"),
        ("name: x", "{} has no 'command'; e.g."),
        ("jobs: []", "{}: 0 jobs; list 1 to 10,000"),
        ("just words", "{} is not a job"),
        ("", "{} is not a job"),
        ("jobs: [5]", "{}: jobs[0] is not a job"),
        ("{command: [a], cpus: two}", "{}: cpus: 'two' is not valid; use a whole number"),
        ("{command: [a], cpus: 0}", "{}: cpus: '0' is not valid"),
        ("{command: [a], cpus: [1]}", "{}: cpus: is a list; write a single value"),
        ("{command: [a], priority: nan}", "{}: priority: 'nan' is not valid"),
        ("{command: [a], priority: high}", "{}: priority: 'high' is not valid"),
        ("{command: [a], limit: soon}", "{}: limit: 'soon' is not a time"),
        ("{command: [a], limit: 5, limit_s: 5}", "{}: limit_s: limit_s is stated twice"),
        ("{command: [a], argv: [b]}", "{}: argv: argv is stated twice"),
        ("{command: [a], requeue: maybe}", "{}: requeue: 'maybe' is neither true nor false"),
        ("{command: [a], class: mixd}", "{}: class: unknown class 'mixd'; did you mean 'mixed'?"),
        ("{command: [[a]]}", "{}: command: is not a list of words"),
        ("command: []", "{}: command: is empty"),
        ("command: 'a \"b'", "{}: command: No closing quotation"),
        ("{command: [a], env: [A]}", "{}: env: is not a list of variables"),
        ("{command: [a], env: {1A: 2}}", "{}: env: is not a list of variables"),
        ("{command: [a], name: ''}", "{}: name: '' is not a name"),
        ("{command: [a], after: [[a, b, c]]}", "{}: after: holds a list"),
        ("{command: [a], after: {aftrok: 1}}", "did you mean 'afterok'?"),
        ("{command: [a], after: later}", "{}: unknown earlier job 'later'"),
        ("{command: [a], command: [b]}", "{}: 'command' appears twice below line 1"),
        ("{command: [a]", "{} line 1: not YAML"),
        ("a: &a [*a]", "{} line 1: not YAML: found unconstructable recursive node"),
        ("[" * 3000, "{}: not a YAML text file"),
        ("\x00", "{}: not a YAML text file"),
    ],
)
def test_refusals(tmp_path: Path, text: str, why: str) -> None:
    assert why.format(tmp_path / "job.yaml") in refused(tmp_path, text)


def test_names_must_tell_jobs_apart(tmp_path: Path) -> None:
    two = "{name: a, command: [x]}, {name: a, command: [y]}"
    assert len(jobs(tmp_path, f"jobs: [{two}]")) == 2
    said = refused(tmp_path, f"jobs: [{two}, {{command: [z], after: a}}]")
    assert "jobs[2]: two earlier jobs are named 'a'" in said
    said = refused(tmp_path, "jobs: [{command: [z], after: prepar}, {name: prepare, command: [x]}]")
    assert "unknown earlier job 'prepar'" in said


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_jobs(tmp_path / "absent.yaml")
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        read_jobs(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not a YAML text file"):
        read_jobs(tmp_path / "bytes.yaml")
    with (tmp_path / "vast.yaml").open("wb") as file:
        file.truncate(5 * 2**20)
    with pytest.raises(BadInput, match="larger than a job file"):
        read_jobs(tmp_path / "vast.yaml")


def test_notify_takes_one_target_or_a_list(tmp_path: Path) -> None:
    [draft] = jobs(tmp_path, "command: a\nnotify: http://localhost/x")
    assert draft.values["notify"] == ["http://localhost/x"]
    assert "notify: is empty" in refused(tmp_path, "command: a\nnotify: [[]]")
    assert "notify: is not a list of words" in refused(tmp_path, "command: a\nnotify: {a: b}")
