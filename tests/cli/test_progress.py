"""Progress of long work: on stderr only, with an estimate, and silent with --json."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest
from tests.until import WAIT_S

from flyball.cli import progress as module
from flyball.cli.main import run
from flyball.cli.progress import Meter, progress

JOBS = "job,submit_s,duration_s,num_gpus\n" + "".join(f"j{i},{i},60,1\n" for i in range(6))


def test_the_estimate_follows_what_is_done() -> None:
    meter = Meter("replaying", 12, began_s=100.0)
    assert meter.line(130.0) == "replaying: 0 of 12 done, 30 s gone, no estimate yet"
    meter.done, meter.last = 3, "easy"
    assert meter.left_s(160.0) == pytest.approx(180.0)
    assert meter.line(160.0) == "replaying: 3 of 12 done (easy), 60 s gone, about 3.0 min left"
    meter.done = 12
    assert meter.left_s(200.0) == 0


def test_lines_come_while_a_single_piece_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.001)
    said: list[str] = []
    spoke = threading.Event()

    def echo(text: str, err: bool) -> None:
        assert err, "never on stdout"
        said.append(text)
        spoke.set()

    monkeypatch.setattr("typer.echo", echo)
    with progress("replaying", 4) as advance:
        assert spoke.wait(WAIT_S), "before anything is done"
        assert "0 of 4 done" in said[0]
        spoke.clear()
        advance("easy")
        while "1 of 4 done (easy)" not in said[-1]:
            spoke.clear()
            assert spoke.wait(WAIT_S)
    assert "left" in said[-1]


def test_nothing_with_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing may be shown")

    monkeypatch.setattr(module, "_lines", refuse)
    monkeypatch.setattr(module, "_bar", refuse)
    with progress("replaying", 4, quiet=True) as advance:
        advance("easy")


def test_a_terminal_gets_a_bar_with_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("replaying", 2) as advance:
        advance("easy")
        advance("srtf")
    shown = terminal.getvalue()
    assert "replaying srtf" in shown
    assert "left" in shown


@pytest.mark.parametrize(
    ("tuned", "runs"), [([], 1), (["--tune", "power"], 2), (["--without", "power"], 3)]
)
def test_replay_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    tuned: list[str],
    runs: int,
) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    seen: list[tuple[int, str]] = []

    class Counting(Meter):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "last" and value:
                seen.append((self.done, str(value)))

    monkeypatch.setattr(module, "Meter", Counting)
    command = ["replay", str(tmp_path / "jobs.csv"), "-c", "sia-mixed", "-p", "easy", *tuned]
    assert run([*command, "--workers", "1"]) == 0
    assert seen[-1][0] == len(seen) == runs
    capsys.readouterr()
    seen.clear()
    assert run([*command, "--workers", "1", "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert not seen, "a program asked"
