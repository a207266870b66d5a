"""`flyball bench placement` on a cluster and a trace small enough to know what must come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.cli.main import run
from flyball.core.workload import Mix
from flyball.experiments import placement

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{i},{cores}000,65536,4,T4\n" for i, cores in enumerate([8, 8, 32, 32, 32])
)
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time
a,1000,1024,1,500,0,10,0
b,8000,1024,1,1000,1,10,1
c,2000,1024,1,300,2,10,2
d,6000,2048,0,0,3,10,3
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return nodes, pods


def setting(files: tuple[Path, Path]) -> placement.PlacementSetting:
    return placement.load(*files, lambda _note: None)


def test_draws_reach_the_target_and_no_further(files: tuple[Path, Path]) -> None:
    place = setting(files)
    assert not place.published
    drawn = placement.draw(place, 1.3, 0)
    asked = drawn.devices * drawn.milli
    assert asked[:-1].sum() < 1.3 * 20 * 1000 <= asked.sum()
    assert np.array_equal(drawn.submit_us, placement.draw(place, 1.3, 0).submit_us)
    assert not np.array_equal(drawn.devices[:9], placement.draw(place, 1.3, 1).devices[:9])
    # The usual jobs are the file's, whatever was drawn.
    assert drawn.mix is not None
    assert drawn.mix.count.tolist() == Mix.of(place.trace).count.tolist() == [1, 1, 1, 1]


def test_a_rule_fills_what_fits(files: tuple[Path, Path]) -> None:
    place = setting(files)
    drawn = placement.draw(place, 0.2, 3)
    filled = placement.fill(place, drawn, "best-fit")
    assert filled["placed"] == filled["pods"] == len(drawn)  # a fifth of the cluster: all of them
    asked = int((drawn.devices * drawn.milli).sum())
    assert filled["unallocated"] == pytest.approx(1 - asked / 20_000)


def test_the_command_prints_json_and_a_table(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "placement", "--seeds", "2", "--nodes", str(files[0])]
    arguments += ["--pods", str(files[1]), "--rules", "fgd,best-fit"]
    assert run([*arguments, "--json"]) == 0
    figures: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (figures["nodes"], figures["devices"], figures["trace_pods"]) == (5, 20, 4)
    assert [rule["rule"] for rule in figures["rules"]] == ["fgd", "best-fit"]
    for rule in figures["rules"]:
        assert 0 <= rule["unallocated_least"] <= rule["unallocated_mean"] <= 1
        assert rule["published"] is None  # another cluster
        assert rule["pods_per_cpu_s"] > 0
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert "20 devices on 5 nodes" in shown.out
    assert "1 pods ask for no GPU" in shown.err


def test_without_the_data_it_says_so_and_exits_75(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYBALL_DATA", str(tmp_path))
    assert run(["bench", "placement"]) == 75
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "set FLYBALL_DATA" in shown.err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--rules", "bestfit"], "did you mean 'best-fit'?"),
        (["--rules", ","], "--rules names no rule"),
        (["--seeds", "0"], "--seeds 0 is out of range"),
        (["--over", "nan"], "--over nan is out of range"),
    ],
)
def test_bad_options_are_one_line(
    option: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "placement", *option]) == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert len(shown.splitlines()) == 1
