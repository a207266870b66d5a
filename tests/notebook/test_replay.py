"""`flyball.replay`: the same numbers as the command line, in any form a notebook has."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import flyball
from flyball.cli.main import run
from flyball.core.errors import BadInput, DataAbsent, FlyballError, UnknownName
from flyball.core.state import State
from flyball.notebook.inputs import in_python

JOBS = "job,submit_s,duration_s,num_gpus\na,0,3600,8\nb,0,1800,8\nlong,60,7200,8\nshort,60,900,2\n"
CLUSTER = "nodes: [{name: n, count: 2, device: V100, devices: 8}]"
COLUMNS = {
    "job": ["a", "b", "long", "short"],
    "submit_s": [0, 0, 60, 60],
    "duration_s": [3600, 1800, 7200.0, 900],
    "num_gpus": [8, 8, 8, 2],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "mine.yaml").write_text(CLUSTER)
    return tmp_path


def untimed(report: Any) -> Any:
    for result in report["results"]:
        del result["run_s"]
    return report


def printed(capsys: pytest.CaptureFixture[str], *options: object) -> Any:
    """Return what `flyball replay --json` prints."""
    capsys.readouterr()
    command = ["replay", "jobs.csv", "-c", "mine.yaml", *map(str, options), "--json"]
    assert run(command) == 0
    return untimed(json.loads(capsys.readouterr().out))


# The same numbers ---------------------------------------------------------------------------


def test_summary_has_the_numbers_of_the_command_line(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    report = printed(capsys, "-p", "fifo,easy,srtf")
    result = flyball.replay("jobs.csv", "mine.yaml", ["fifo", "easy", "srtf"])
    assert untimed(result.as_dict()) == report
    assert result.summary["policy"] == ["fifo", "easy", "srtf"]
    for row, theirs in zip(result.summary, report["results"], strict=True):
        for key, value in row.items():
            name, _, part = key.removesuffix("_s").partition("_p")
            spread = theirs.get(f"{name}_s")
            if isinstance(spread, dict):
                assert value == spread[f"p{part}" if part else "mean"]
            else:
                assert value == theirs[key]


def test_seeds_settings_and_effects_are_those_of_the_command_line(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    options = ("--set", "depth=3", "--estimates", "noisy:0.5", "--seeds", 3, "--mtbf-h", 5)
    report = printed(capsys, "-p", "sjf,easy", *options, "--load", 0.9, "--skip-unfit")
    result = flyball.replay(
        "jobs.csv", "mine.yaml", "sjf,easy", settings={"depth": 3}, estimates="noisy:0.5", seeds=3,
        mtbf_h=5, load=0.9, skip_unfit=True,
    )  # fmt: skip
    assert untimed(result.as_dict()) == report
    gap = report["differences"][0]["completion_s"]["percent"]
    assert list(result.differences[0].values())[2:5] == gap
    assert "interval" in result.differences.title
    assert len(result.jobs) == 2 * 3 * 4


def test_tuners(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    options = ("--tune", "power", "--tune-set", "power.round_s=120", "--tune-every", 120)
    report = printed(capsys, *options)
    result = flyball.replay(
        "jobs.csv", "mine.yaml", tune=["power"], tune_set={"power.round_s": 120}, tune_every=120
    )
    assert untimed(result.as_dict()) == report
    assert result.policies == ["easy", "easy+power"]
    assert result.differences["against"] == ["easy"]
    with pytest.raises(BadInput, match="without tuners; ask for policy='easy'"):
        result.why("long", "easy+power")


def test_jobs_are_the_rows_of_the_command_line(folder: Path) -> None:
    assert run(["replay", "jobs.csv", "-c", "mine.yaml", "-p", "easy", "--per-job", "o.csv"]) == 0
    rows = list(csv.DictReader((folder / "o.csv").read_text().splitlines()))
    jobs = flyball.replay("jobs.csv", "mine.yaml", "easy").jobs
    assert jobs.columns == list(rows[0])
    for ours, theirs in zip(jobs, rows, strict=True):
        assert ours["job"] == theirs["job"]
        for key in ("submit_s", "start_s", "end_s", "wait_s", "devices", "energy_kwh"):
            assert ours[key] == pytest.approx(float(theirs[key]), rel=1e-5)


def test_why_says_what_explain_says(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    result = flyball.replay("jobs.csv", "mine.yaml", ["easy", "fifo"])
    for policy, job, at in (("fifo", "short", "2m"), ("easy", "long", "60")):
        command = ["explain", "jobs.csv", "-c", "mine.yaml", "-p", policy, "--at", at]
        capsys.readouterr()
        assert run([*command, "--job", job, "--json"]) == 0
        theirs = json.loads(capsys.readouterr().out)["jobs"][0]
        ours = result.why(job, policy, at=at)
        assert (ours.token, ours.sentence, ours.remedy) == (
            *(theirs["token"], theirs["sentence"], theirs["remedy"]),
        )
        assert ours.as_dict()["moments"][0]["numbers"] == theirs["numbers"]


def test_why_a_job_waited(folder: Path) -> None:
    result = flyball.replay("jobs.csv", "mine.yaml", ["easy", "fifo"])
    why = result.why("long")
    assert (why.submit_s, why.start_s) == (60, 1800)
    assert [moment.at_s for moment in why.moments] == [60, 930]
    assert why.token == "no-free-devices"
    assert "long under easy: 8 GPUs, submitted at 60 s, waited 29.0 min" in repr(why)
    assert "<code>no-free-devices</code>" in why._repr_html_()
    assert "started at once" in repr(result.why("a", policy="fifo"))
    with pytest.raises(BadInput, match="did you mean 'long'"):
        result.why("lng")
    with pytest.raises(UnknownName, match="did you mean 'easy'"):
        result.why("long", "eazy")
    with pytest.raises(BadInput, match="seed=1 was not run; use 0 to 0"):
        result.why("long", seed=1)
    with pytest.raises(BadInput, match="at='noon' is not a time"):
        result.why("long", at="noon")


# What may be given --------------------------------------------------------------------------


def test_traces_and_clusters_in_any_form(folder: Path) -> None:
    by_name = flyball.replay("jobs.csv", "mine.yaml", "easy")
    expected = by_name.summary.rows
    cluster = flyball.load_cluster("mine.yaml")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    content = {"nodes": [{"name": "n", "count": 2, "device": "V100", "devices": 8}]}
    for trace, on in (
        (folder / "jobs.csv", cluster),
        (flyball.read_trace("jobs.csv"), folder / "mine.yaml"),
        (COLUMNS, content),
        (rows, cluster),
        ({name: COLUMNS[name] for name in list(COLUMNS)[1:]}, cluster),
    ):
        assert flyball.replay(trace, on, "easy").summary.rows == expected


def test_a_data_frame_is_a_trace(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**COLUMNS, "estimate_s": [None, 1800, None, 900]})
    result = flyball.replay(frame, "mine.yaml", "easy")
    assert (
        result.summary["completion_s"]
        == (flyball.replay("jobs.csv", "mine.yaml", "easy").summary["completion_s"])
    )


def test_a_workload_per_seed() -> None:
    weeks = [flyball.generate("mixed", seed, jobs=30, load=0.9, devices=40) for seed in range(3)]
    result = flyball.replay(weeks, "five-mixed", ["fifo", "easy"], keep="first")
    assert len(result.runs) == 6
    assert result.case.seeds == 3
    assert len(result.jobs) == 2 * 30
    with pytest.raises(BadInput, match="3 workloads and seeds=2; give one workload per seed"):
        flyball.replay(weeks, "five-mixed", "easy", seeds=2)
    with pytest.raises(BadInput, match="keep='all'"):
        result.why("j3", seed=1)


def greedy(state: State, outlook: Any) -> Any:
    free, chosen = flyball.free_devices(state), []
    for job in flyball.pending_jobs(state):
        count = int(state.jobs.devices[job])
        for node, devices in enumerate(free):
            if len(devices) >= count and flyball.can_run(state, job, node):
                chosen.append((job, node, devices[:count]))
                del devices[:count]
                break
    return flyball.starts(state, chosen)


class Greedy:
    """The same as a class."""

    def decide(self, state: State, outlook: Any) -> Any:
        return greedy(state, outlook)


def test_policies_in_any_form(folder: Path) -> None:
    result = flyball.replay("jobs.csv", "mine.yaml", [greedy, Greedy, {"backfill": "skip"}])
    assert result.policies == ["greedy", "Greedy", "backfill=skip"]
    first, second, third = ({**row, "policy": ""} for row in result.summary)
    assert first == second == third
    assert result.why("long", greedy).token == "no-free-devices"
    with pytest.raises(BadInput, match=r"greedy is defined here.*'greedy.py', or workers=1"):
        flyball.replay("jobs.csv", "mine.yaml", greedy, workers=2)


def failing(state: State, outlook: Any) -> Any:
    return 1 / 0


def test_a_failing_policy_keeps_its_traceback(folder: Path) -> None:
    with pytest.raises(FlyballError, match="failing failed: ZeroDivisionError") as caught:
        flyball.replay("jobs.csv", "mine.yaml", failing)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trace": "gone.csv"}, "gone.csv"),
        ({"trace": 3}, "3 is not a trace; give a file, a workload"),
        ({"trace": []}, "is not a trace"),
        ({"trace": {"submit_s": [0]}}, "duration_s"),
        ({"trace": {"submit_s": [0], "duration_s": [1, 2]}}, "different lengths"),
        (
            {"trace": {"submit_s": [0], "duration_s": [-1], "num_gpus": [1]}},
            "^rows row 2: duration_s = '-1'",
        ),
        ({"cluster": "five-mixd"}, "did you mean 'five-mixed'"),
        ({"cluster": 4}, "4 is not a cluster"),
        ({"policies": "eazy"}, "did you mean 'easy'"),
        ({"settings": {"dept": 3}}, "did you mean 'depth'"),
        ({"estimates": "perfect"}, "^estimates='perfect' is not understood"),
        ({"load": 0}, "^load=0 is out of range"),
        ({"seeds": 0}, "^seeds=0 is out of range"),
        ({"limit_jobs": 0}, "^limit_jobs=0 is out of range"),
        ({"tune_every": 60}, "^tune_every needs tuners; add e.g. tune='elastic,power'"),
        ({"tune": "powr"}, "did you mean 'power'"),
        ({"keep": "some"}, "use all or first"),
        ({"workers": -1}, "workers"),
    ],
)
def test_errors_name_arguments_and_a_remedy(
    folder: Path, arguments: dict[str, Any], words: str
) -> None:
    given = {"trace": "jobs.csv", "cluster": "mine.yaml", "policies": "easy", **arguments}
    with pytest.raises(FlyballError, match=words) as caught:
        flyball.replay(**given)
    assert "--" not in str(caught.value)


def test_options_in_messages_become_arguments() -> None:
    assert in_python("see --estimates noisy:SIGMA and --mtbf-h") == (
        "see estimates='noisy:SIGMA' and mtbf_h"
    )
    assert in_python("with --recorded-on TYPE or x") == "with recorded_on='TYPE' or x"
    assert in_python("--share-limit needs the tuner") == "share_limit needs the tuner"


def test_notes_and_progress(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = flyball.replay("jobs.csv", "five-mixed", "easy", seeds=2, progress=True)
    assert any("recorded_on='TYPE'" in note for note in result.notes)
    assert any("nothing here is random" in note for note in result.notes)
    assert "note: nothing here is random" in repr(result)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "replaying: 1 of 1 done (easy)" in shown.err


# Frames -------------------------------------------------------------------------------------


def test_frames(folder: Path) -> None:
    pytest.importorskip("pandas")
    result = flyball.replay("jobs.csv", "mine.yaml", ["fifo", "easy"])
    frame = result.to_frame()
    assert list(frame["policy"]) == ["fifo", "easy"]
    assert frame["completion_s_mean"].tolist() == result.summary["completion_s"]
    assert len(result.jobs.to_frame()) == 8
    assert list(result.summary.to_frame().columns) == result.summary.columns
    assert list(result.differences.to_frame()["policy"]) == ["easy"]


def test_without_pandas_the_error_says_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = flyball.replay("jobs.csv", "mine.yaml", "easy")
    for frame in (result.to_frame, result.jobs.to_frame, result.summary.to_frame):
        with pytest.raises(DataAbsent, match=r"not installed; pip install pandas, or use .rows"):
            frame()
