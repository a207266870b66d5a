"""Jobs submitted from Python get what the command line gives them; the guide's example runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.world import World
from tests.until import WAIT_S

import flyball
from flyball.cli.main import run
from flyball.sdk.client import ApiError, Client
from flyball.sdk.submitter import user_name

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "client.md"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    created = World(tmp_path / "state")
    yield created
    created.plane.close()


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[Path]:
    """Run `flyball up`; the state folder."""
    state = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, "-m", "flyball", "up", "--state", str(state), "--no-agent",
         "--no-foresight"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"flyball is up")
        yield state
    finally:
        process.kill()
        process.communicate()


def test_job_gets_the_same_as_from_the_command_line(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("SECRET", "not to be passed on")
    monkeypatch.chdir(tmp_path)
    with world.server(), Client(world.folder) as client:
        job = client.job(client.submit(["true"]))["spec"]
        assert run(["submit", "--state", str(world.folder), "--", "true"]) == 0
        line = client.job(2)["spec"]
        for field in ("env", "user", "cwd"):
            assert job[field] == line[field], field
        assert (job["user"], job["env"]["PATH"]) == (user_name(), os.environ["PATH"])
        assert "SECRET" not in job["env"]
        other = client.submit(
            ["true"], env={"A": "1", "PATH": "/bin"}, user="ada", cwd=str(tmp_path.parent)
        )
        spec = client.job(other)["spec"]
        assert (spec["user"], spec["cwd"]) == ("ada", str(tmp_path.parent))
        assert (spec["env"]["A"], spec["env"]["PATH"]) == ("1", "/bin")
        assert spec["env"]["PYTHONPATH"] == "/somewhere"


def test_text_as_command_is_refused(world: World) -> None:
    with world.server(), Client(world.folder) as client:
        for command in ("python train.py --lr '1 e'", b"python train.py", "it's"):
            with pytest.raises(ApiError, match="not a list of arguments") as refusal:
                client.submit(command)  # type: ignore[arg-type]
            assert (refusal.value.status, refusal.value.token) == (422, "bad-input")
            assert "submit([" in refusal.value.remedy
        with pytest.raises(ApiError, match="not a list"):
            client.submit(argv="sleep 5")
        assert client.queue() == []


def test_first_example_of_the_guide_runs(control_plane: Path, tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert example is not None
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", example.group(1)],
        cwd=folder, capture_output=True, text=True, timeout=WAIT_S,
        env={**os.environ, "FLYBALL_STATE": str(control_plane), "PATH": path},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["trained", "COMPLETED"], done.stderr


def test_dir_lists_what_is_public_and_imports_nothing() -> None:
    assert set(flyball.__all__) <= set(dir(flyball))
    code = (
        "import sys, flyball; names = dir(flyball);"
        "print(set(names) == set(flyball.__all__), 'Client' in names, 'replay' in names);"
        "print([m for m in ('httpx', 'numpy', 'torch', 'flyball.sdk') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True True True", "[]"]
