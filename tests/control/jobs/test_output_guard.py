"""A job's output may not go into the files of the control plane itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.core.errors import BadInput


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    state = tmp_path / "state"
    for name in ("engine", "logs", "telemetry"):
        (state / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(state)
    (tmp_path / "journal.txt").symlink_to(state / "journal.db")
    (tmp_path / "1").symlink_to(state / "engine")
    return Rig(state)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    "path",
    [
        "state/journal.db",
        "state/token",
        "state/engine/1.1",
        "state/telemetry/new/file",
        "state",
        "state/logs",
        "state/logs/../journal.db-wal",
        "link/endpoint.json",
        "journal.txt",
        "%j/2.1",
        "elsewhere/../state/%x",
    ],
)
def test_output_into_the_state_folder_is_refused(
    rig: Rig, tmp_path: Path, stream: str, path: str
) -> None:
    with pytest.raises(BadInput) as refused:
        rig.submit(**{stream: f"{tmp_path}/{path}"})
    option = "-o" if stream == "stdout" else "-e"
    assert f"output {option} {tmp_path}/" in str(refused.value)
    assert "lies in the state folder" in str(refused.value)
    assert f"leave {option} out, or name a file elsewhere or in {tmp_path}/state/logs" in str(
        refused.value
    )
    # A pattern is filled with a number that was given, and a number is given once.
    assert rig.submit() == (2 if "%j" in path else 1)


@pytest.mark.parametrize("path", ["out.txt", "state/logs/mine.out", "state.txt", "link/logs/%j"])
def test_output_elsewhere_and_into_the_logs_is_accepted(
    rig: Rig, tmp_path: Path, path: str
) -> None:
    assert rig.submit(stdout=f"{tmp_path}/{path}", stderr=f"{tmp_path}/errors") == 1
