"""The code of the guides runs as printed, and the notebook shows what it stores."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flyball.cli.main import run

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
EXECUTE = Path(__file__).with_name("execute.py")
MOST_BYTES = 200_000


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (GUIDE / page).read_text("utf-8"), re.DOTALL)


def test_the_page_of_notebooks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "guide"}
    for number, block in enumerate(blocks("notebooks.md")):
        exec(compile(block, f"notebooks.md block {number}", "exec"), namespace)
    assert namespace["result"].policies == ["fifo", "easy", "srtf"]
    assert namespace["why"].policy == "fifo"
    assert len(namespace["waits"]) == 900
    assert namespace["mine"].policies == ["fifo-skip", "widest_first"]
    assert {path.name for path in tmp_path.iterdir()} == {"gantt.png", "policies.png"}


def test_every_argument_of_the_page_exists() -> None:
    import inspect

    import flyball

    arguments = set(inspect.signature(flyball.replay).parameters)
    page = (GUIDE / "notebooks.md").read_text("utf-8")
    named = re.findall(r"`(\w+)=[^`]*`", page.replace('`at="6h"`', ""))
    assert named
    assert set(named) <= arguments


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook as a fresh interpreter executes it."""
    command = [sys.executable, "-W", "error", str(EXECUTE), str(GUIDE / "replay.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def outputs(notebook: Any, form: str) -> list[str]:
    return [
        "".join(output["data"][form])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if form in output["data"]
    ]


def test_the_notebook_shows_what_it_stores(executed: Any) -> None:
    """After a change of the numbers: python tests/notebook/execute.py FILE --write."""
    stored = json.loads((GUIDE / "replay.ipynb").read_text("utf-8"))
    for form in ("text/plain", "text/html"):
        assert outputs(stored, form) == outputs(executed, form)
    assert len(outputs(executed, "image/png")) == len(outputs(stored, "image/png")) == 2
    assert len(outputs(executed, "text/html")) == 4


def test_the_notebook_is_small_and_names_no_machine() -> None:
    text = (GUIDE / "replay.ipynb").read_text("utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"/home/|/tmp/|/root/|/work/|[A-Z]:\\\\", text)
    assert '"output_type": "error"' not in text


def test_the_page_of_own_policies_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    widest, knobs, steps = blocks("own-policy.md")
    (tmp_path / "widest.py").write_text(widest)
    (tmp_path / "knobs.py").write_text(knobs)
    page = (GUIDE / "own-policy.md").read_text("utf-8")
    commands = re.findall(r"^    flyball ((?:trace|replay|explain) .*)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["trace", "replay", "explain"]
    for command in (*commands, "replay week.csv -c five-mixed -p knobs.py"):
        assert run(command.split()) == 0, command
    assert "widest.py" in capsys.readouterr().out
    exec(compile(steps, "own-policy.md", "exec"), {"__name__": "guide"})
    assert re.fullmatch(r"Twin\(State\(at .*\)\nSummary\(300 jobs: .*\)\n", capsys.readouterr().out)
