"""Fields that have no effect, or cannot be served: what the submitter reads, whichever way."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.world import World, calling

from flyball.cli.main import run
from flyball.sdk.client import Client

JOBS = "/api/v1/jobs"
QUEUE = "there is only one queue"
FIELDS: dict[str, Any] = {"partition": "gpu", "qos": "high"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    plane_world = World(tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(plane_world.folder))
    with plane_world.server():
        yield plane_world
    plane_world.plane.close()


def test_over_http(tmp_path: Path) -> None:
    world = World(tmp_path / "state")
    with world.server() as server, calling(server, world.token) as client:
        _check_http(client)
    world.plane.close()


def _check_http(client: httpx.Client) -> None:
    job = {"argv": ["true"], **FIELDS}
    notes = [
        {"field": "partition", "why": QUEUE, "jobs": 1},
        {"field": "qos", "why": "use --priority or --account", "jobs": 1},
    ]
    answer = client.post(JOBS, json=job).json()
    assert answer["notes"] == notes
    spec = client.get(f"{JOBS}/{answer['id']}").json()["spec"]
    assert spec.items() >= FIELDS.items(), "a field without effect is kept"
    assert client.post(f"{JOBS}/dry-run", json=job).json()["notes"] == notes
    batch = {"jobs": [{"argv": ["true"]}, {"argv": ["true"], "qos": "a"}]}
    assert client.post(f"{JOBS}/batch", json=batch).json()["notes"] == [notes[1]]
    assert client.post(JOBS, json={"argv": ["true"]}).json()["notes"] == []
    refused = client.post(JOBS, json={"argv": ["true"], "nodes": 9})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "9 nodes requested, and there are only 2"
    assert refused.json()["remedy"] == "use -N 2"


def test_a_python_client_warns(world: World) -> None:
    with Client() as client:
        with pytest.warns(UserWarning, match=f"^partition has no effect: {QUEUE}$"):
            client.submit(["true"], partition="gpu")
        with pytest.warns(UserWarning, match="qos"):
            client.submit_many([{"argv": ["true"], "qos": "high"}])
        notes: list[Any] = []
        client.on_note = notes.append
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client.submit(["true"], partition="gpu")
            client.submit(["true"], cpus=1)
        assert notes == [{"field": "partition", "why": QUEUE, "jobs": 1}]


def test_a_command_line_prints_notes_by_the_names_of_options(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["submit", "-p", "gpu", "--hint=x", "--", "true"]
    assert run(line) == 0
    printed = capsys.readouterr()
    hint = "--hint has no effect: a job has exclusive use of its cores"
    partition = f"--partition has no effect: {QUEUE}"
    assert printed.out == "1\n"
    assert printed.err == f"note: {hint}\nnote: {partition}\n"
    assert run([*line[:-2], "--json", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 2, "notes": [hint, partition]}
    assert run(["submit", "--json", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 3}
    assert run(["submit", "--dry-run", "-q", "high", "--", "true"]) == 0
    assert "note: --qos has no effect: use --priority" in capsys.readouterr().err
    assert run(["submit", "-N", "2", "--", "true"]) == 0
    assert "note: --nodes has no effect: a job gets as few nodes as" in capsys.readouterr().err
    assert run(["submit", "-N", "3", "--", "true"]) == 2
    assert "3 nodes requested, and there are only 2; use -N 2" in capsys.readouterr().err


def test_a_script_and_a_job_file(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.sh").write_text("#!/bin/sh\n#SBATCH -c 1\n#SBATCH -p gpu\ntrue\n")
    assert run(["submit", "job.sh"]) == 0
    said = capsys.readouterr().err
    assert said == f"note: job.sh line 3: --partition has no effect: {QUEUE}\n"
    row = "{command: 'true', partition: gpu}"
    Path("jobs.yaml").write_text(f"jobs: [{row}, {row}]")
    assert run(["submit", "jobs.yaml", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["notes"] == [f"--partition has no effect: {QUEUE}"]
    assert run(["show", "1"]) == 0
    assert "  partition    gpu\n" in capsys.readouterr().out
    assert run(["show", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["partition"] == "gpu"
