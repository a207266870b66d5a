"""The state folder's disk is full: nothing is accepted that cannot be kept, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.until import until

from flyball.sdk.client import Client
from flyball.sdk.errors import ApiError

PROCESS = Path(__file__).with_name("plane_process.py")
SIZE = "6m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    options = f"size={SIZE},mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_refuses_jobs_and_loses_none(small_disk: Path, tmp_path: Path) -> None:
    log = open(tmp_path / "log", "wb")  # noqa: SIM115
    command = [sys.executable, str(PROCESS), str(small_disk), "0", "0.0"]
    plane = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until((small_disk / "endpoint.json").exists, "up")
        with Client(small_disk) as client:
            began, go, ran = (tmp_path / name for name in ("began", "go", "ran"))
            script = f"touch {began}; while [ ! -e {go} ]; do sleep 0.02; done; touch {ran}"
            running = client.submit(["sh", "-c", script], name="running")
            until(began.exists, "the start of the job")
            fill(small_disk / "filler")
            accepted, refused = [], 0
            for number in range(300):
                try:
                    accepted.append(client.submit(["true"], name=f"n{number}"))
                except ApiError as error:
                    assert error.status == 503, error
                    refused += 1
                    if refused >= 3:
                        break
            assert refused, "a full disk should refuse"
            go.touch()  # the running job ends while nothing can be written
            until(ran.exists, "the end of the running job")
            until(lambda: is_noticed(client, running, tmp_path / "log"), "a cycle after its end")
            (small_disk / "filler").unlink()
            until(lambda: not client.queue(), "all done")
            states = {client.job(job)["state"] for job in [running, *accepted]}
            assert states == {"COMPLETED"}
            assert client.job(client.submit(["true"]))["id"] > running
    finally:
        plane.kill()
        plane.wait()
        log.close()


def is_noticed(client: Client, job: int, log: Path) -> bool:
    """Whether the control plane has recorded the end of a job, or failed to."""
    return "a cycle failed" in log.read_text() or client.job(job)["state"] == "COMPLETED"


def fill(path: Path) -> None:
    """Fill the disk."""
    with open(path, "wb", buffering=0) as file:
        block = b"x" * 65536
        while block:
            try:
                file.write(block)
            except OSError:
                block = block[: len(block) // 2]
