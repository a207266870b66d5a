"""`flyball replay --report` and `flyball report`: one file each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.api.world import World
from tests.experiments.pages.test_document import check_alone

from flyball.cli.main import run
from flyball.core.jobs import JobSpec

ROWS = [f"{n},{60 * n},600,{1 + n % 2}\n" for n in range(80)]
TRACE = "job,submit_s,duration_s,num_gpus\n" + "".join(ROWS)


def test_report_of_a_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "<jobs>.csv", tmp_path / "report.html"
    trace.write_text(TRACE)
    words = ["replay", str(trace), "-c", "five-mixed", "-p", "fifo,srtf", "--report", str(out)]
    assert run(words) == 0
    outline = check_alone(out.read_text("utf-8"))
    texts = "\n".join(outline.texts)
    for words_ in ("In short", "How long jobs take", "fifo", "srtf", "How this was computed",
                   "The shortest mean completion time:", "1,000 draws over 9 blocks"):  # fmt: skip
        assert words_ in texts, words_
    assert run([*words, "--seeds", "3", "--estimates", "noisy:0.5"]) == 0
    assert "paired by seed" in out.read_text("utf-8")
    assert run([*words[:-1], "report.pdf"]) == 2
    assert "html" in capsys.readouterr().err


def test_report_of_a_live_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path / "state", int((time.time() - 6 * 3600) * 1e6))
    for number in range(12):
        user = ("ada", "bob")[number % 2]
        spec = JobSpec(("true",), name=f"job{number}", user=user, cpus=4, estimate_s=1200.0)
        world.plane.submit([spec])
        world.step(300)
    for _ in range(8):
        world.step(600)
    world.plane.close()
    out = tmp_path / "report.html"
    words = ["report", "--state", str(world.folder), "--out", str(out), "--last", "1d"]
    prices = ["--energy-price", "0.3", "--currency", "EUR", "--carbon", "350"]
    assert run([*words, *prices, "-p", "fifo,srtf", "--other-cluster", "five-mixed"]) == 0
    assert f"wrote {out}" in capsys.readouterr().err
    outline = check_alone(out.read_text("utf-8"))
    texts = "\n".join(outline.texts)
    for words_ in ("Who used it", "Longest waits", "Other policies", "Other hardware: five-mixed",
                   "cost EUR", "kg CO2", "recorded", "electricity",
                   "The span begins with the record"):  # fmt: skip
        assert words_ in texts, words_
    assert run([*words, "-p", "none"]) == 0
    assert "Other policies" not in out.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--last", "soon"], "not a span"),
        (["--out", "report.pdf"], "html"),
        (["--price", "-1"], "not a price"),
        (["--state", "/nowhere"], "does not exist"),
    ],
)
def test_refused_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out = ["--out", str(tmp_path / "a.html")]
    assert run(["report", *out, *words]) == 2
    assert message in capsys.readouterr().err
