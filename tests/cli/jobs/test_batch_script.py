"""Batch scripts: interpreter, `#SBATCH` lines, and calls of srun."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.cli.jobs import batch_script
from flyball.cli.jobs.slurm_options import EVERY, IGNORED, SHORT, notes_of, take
from flyball.core.errors import BadInput

SCRIPT = """\
#!/bin/bash -e
# A comment.
#SBATCH --job-name=train -c4
#SBATCH -t 1:30:00   # an hour and a half
#SBATCH --mem 4G --requeue
#SBATCH\t--hint=compute_bound
##SBATCH --mem=1G

#SBATCH -o "logs/out %j.txt"
echo training
#SBATCH --time=5
"""


def written(folder: Path, text: str, name: str = "train.sh") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_script(tmp_path: Path) -> None:
    script = batch_script.read_script(written(tmp_path, SCRIPT))
    assert script.interpreter == ("/bin/bash", "-e")
    assert script.path == (tmp_path / "train.sh").resolve()
    assert script.options == {
        "job-name": "train",
        "cpus-per-task": "4",
        "time": "1:30:00",
        "mem": "4G",
        "requeue": "",
        "hint": "compute_bound",
        "output": "logs/out %j.txt",
    }
    [late] = script.notes
    [ignored] = notes_of(script.options, script.origins)
    assert ignored.endswith("line 6: --hint has no effect: a job has exclusive use of its cores")
    assert late.endswith("1 #SBATCH lines after the first command have no effect")


def test_script_without_interpreter(tmp_path: Path) -> None:
    script = batch_script.read_script(written(tmp_path, "echo hello\n"))
    assert script.interpreter == ("/bin/sh",)
    assert script.options == {}


def test_options_that_slurm_knows_and_this_does_not(tmp_path: Path) -> None:
    text = "#!/bin/sh\n#SBATCH --mail-type END --exclusive -w a1 -L=x\n#SBATCH --exclusive=user\n"
    script = batch_script.read_script(written(tmp_path, text))
    assert script.options == {
        "mail-type": "END",
        "exclusive": "",
        "nodelist": "a1",
        "licenses": "x",
    }
    notes = notes_of(script.options, script.origins)
    assert [text.rpartition(": --")[2].split()[0] for text in notes] == list(script.options)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--tiem=5", r"line 2: '--tiem'; did you mean '--time'"),
        ("-Z 5", "line 2: '-Z'"),
        ("word", "line 2: 'word'"),
        ("--time", "line 2: --time needs a value"),
        ('--job-name="x', "line 2: No closing quotation"),
        ("--begin", "line 2: --begin needs a value"),
        ("hetjob", "line 2: heterogeneous jobs are not supported; submit a script for each"),
    ],
)
def test_lines_that_are_not_understood(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        batch_script.read_script(written(tmp_path, f"#!/bin/sh\n#SBATCH {line}\n"))


def test_what_is_a_script(tmp_path: Path) -> None:
    assert batch_script.is_script(written(tmp_path, "echo hello\n"))
    assert batch_script.is_script(written(tmp_path, "#!/usr/bin/env python3\n", "tool"))
    assert batch_script.is_script(written(tmp_path, "#SBATCH -c 2\necho\n", "job"))
    assert not batch_script.is_script(written(tmp_path, "print('hello')\n", "plain.py"))
    assert not batch_script.is_script(Path("/bin/sh"))
    assert not batch_script.is_script(tmp_path)
    assert not batch_script.is_script(tmp_path / "absent.sh")


def test_a_script_has_a_size(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    with path.open("wb") as file:
        file.truncate(batch_script.MAX_SCRIPT_BYTES + 1)
    with pytest.raises(BadInput, match="larger than a script can be"):
        batch_script.read_script(path)


def test_line_ends_of_windows_are_refused_as_slurm_does(tmp_path: Path) -> None:
    path = tmp_path / "dos.sh"
    path.write_bytes(b"#!/bin/sh\r\n#SBATCH -c 2\r\necho\r\n")
    with pytest.raises(BadInput, match="Windows line ends; try sed"):
        batch_script.read_script(path)


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("srun python train.py", True),
        ("  srun --ntasks=4 ./a.out", True),
        ("OMP_NUM_THREADS=4 srun ./a.out", True),
        ("time srun ./a.out", True),
        ("cd here && srun ./a.out &", True),
        ("for i in 1 2; do srun ./a.out; done", True),
        ("x=$(srun hostname)", True),
        ("# srun ./a.out", False),
        ("echo srun", False),
        ("mpirun ./a.out", False),
        ("./srun-like", False),
        ("if command -v srun; then", False),
    ],
)
def test_calls_of_srun(tmp_path: Path, line: str, calls: bool) -> None:
    script = batch_script.read_script(written(tmp_path, f"#!/bin/sh\n#SBATCH -c 2\n{line}\n"))
    assert script.srun == (f"{tmp_path}/train.sh line 3" if calls else "")


# On the command line -----------------------------------------------------------------

OWN = {"-c": True, "--cpus-per-task": True, "--wait": False, "-W": False}


@pytest.mark.parametrize(
    ("line", "left", "taken"),
    [
        ("-c 2 -- a -p b", "-c 2 -- a -p b", {}),
        ("-p gpu -c 2 a.sh -p x", "-c 2 a.sh -p x", {"partition": "gpu"}),
        ("--gres=gpu:2 --mem-per-cpu 1G a.sh", "a.sh", {"gres": "gpu:2", "mem-per-cpu": "1G"}),
        ("-c -p -Cfast a", "-c -p a", {"constraint": "fast"}),
        ("--exclusive --parsable -W a", "-W a", {"exclusive": "", "parsable": ""}),
        ("--exclusive=user a", "a", {"exclusive": ""}),
        ("--tasks-per-node 4 --test-only a", "a", {"ntasks-per-node": "4", "dry-run": ""}),
        ("--nonsense 4 -p x", "--nonsense 4 -p x", {}),
        ("- -p x", "- -p x", {}),
    ],
)
def test_options_that_the_command_does_not_list(
    line: str, left: str, taken: dict[str, str]
) -> None:
    assert take(line.split(), OWN) == (left.split(), taken)


def test_what_is_taken_needs_its_value() -> None:
    with pytest.raises(BadInput, match="the command line: --gres needs a value"):
        take(["--gres"], OWN)
    with pytest.raises(
        BadInput, match="the command line: --input: a job's standard input is empty"
    ):
        take(["--input", "data"], OWN)


def test_every_letter_is_an_option() -> None:
    assert set(SHORT.values()) <= set(EVERY)
    assert len(set(EVERY)) == len(EVERY)
    assert set(IGNORED) <= set(EVERY)
