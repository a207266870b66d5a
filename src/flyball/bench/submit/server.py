"""A real `flyball up` for measurements, and connections to it. Nothing of it is left behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import psutil

from flyball.core.errors import Unavailable
from flyball.engines.local import claim
from flyball.engines.local.leftovers import kill_leftovers, signal_supervisor
from flyball.engines.local.line import nobody_spawns
from flyball.sdk.client import Client
from flyball.sdk.endpoint import find_endpoint

START_S = 180.0
"""The first start on a machine compiles the decision kernel."""
STOP_S = 30.0
CALL_S = 120.0


class Up:
    """A running control plane.

    Attributes:
        state: its folder.
        process: the control plane, leader of a group that its agent and spawner are in too.
    """

    def __init__(self, state: Path, process: subprocess.Popen[bytes]) -> None:
        self.state, self.process = state, process

    def client(self) -> Client:
        """As its users have it."""
        return Client(self.state, timeout_s=CALL_S)

    def connection(self) -> Connection:
        """One that costs the measuring side little."""
        return Connection(self.state)

    def cpu_s(self) -> float:
        """CPU time of the control plane so far. Others on the machine do not change it much."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def fill(self) -> int:
        """Hold all cores with one job that sleeps, so that everything else pends; its id."""
        with self.client() as client:
            cores = sum(int(node["devices"]) for node in client.nodes())
            job = client.submit(["sleep", "86400"], cpus=cores, cwd="/")
            wait_until(
                lambda: bool(client.job(job)["start_time"]) or refuse_failed(client, job),
                60.0,
                "a job to start",
            )
        return job

    @contextlib.contextmanager
    def paused(self, *supervisors: int) -> Iterator[None]:
        """As if Flyball were not there: none of its processes gets any CPU."""

        def all_get(number: signal.Signals) -> None:
            os.killpg(self.process.pid, number)
            for pid in supervisors:
                os.kill(pid, number)

        all_get(signal.SIGSTOP)
        try:
            yield
        finally:
            all_get(signal.SIGCONT)


class Connection:
    """One kept-alive connection. The standard library's: httpx would be measured with it."""

    def __init__(self, state: Path) -> None:
        endpoint = find_endpoint(state)
        self._http = http.client.HTTPConnection(urlsplit(endpoint.url).netloc, timeout=CALL_S)
        self._headers = {
            "Authorization": f"Bearer {endpoint.token}",
            "Content-Type": "application/json",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def post(self, path: str, body: bytes, key: str) -> Any:
        """What is answered.

        Raises:
            Unavailable: another status than 201.
        """
        headers = {**self._headers, "Idempotency-Key": key}
        self._http.request("POST", f"/api/v1{path}", body, headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise Unavailable(f"{path} answered {answer.status}: {text[:300]!r}", "try again")
        return json.loads(text)


@contextlib.contextmanager
def state_folder(base: Path) -> Iterator[Path]:
    """An empty one; removed in the end, with whatever still runs in it."""
    with tempfile.TemporaryDirectory(prefix="flyball-bench-", dir=base) as folder:
        state = Path(folder).resolve()
        try:
            yield state
        finally:
            end_attempts(state)


@contextlib.contextmanager
def running(state: Path, *options: str) -> Iterator[Up]:
    """`flyball up` on the folder, ready for calls.

    Raises:
        Unavailable: it did not come up.
    """
    with started(state, *options) as process:
        up = Up(state, process)
        wait_until(lambda: _is_up(up), START_S, "flyball up to come up")
        yield up


@contextlib.contextmanager
def started(state: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process; ended in order if it can be, and all of its group in any case."""
    command = [sys.executable, "-m", "flyball", "up", "--state", str(state), *options]
    with open(state / "up.log", "ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_up(up: Up) -> bool:
    if up.process.poll() is not None:
        said = (up.state / "up.log").read_text(errors="replace").strip()
        raise Unavailable(f"flyball up ended: {said[-500:]}", "try it by itself")
    return (up.state / "endpoint.json").exists()


def end_attempts(state: Path) -> None:
    """Kill what supervisors and jobs a control plane has left in its folder."""
    engine = state / "engine"
    if not engine.is_dir():
        return
    # A supervisor on its way has no claim yet by which it could be found.
    wait_until(lambda: nobody_spawns(engine), STOP_S, "supervisors to claim their attempts")
    folder = os.open(engine, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in os.listdir(folder):
            token = claim.token_of(name)
            found = claim.read(folder, *token) if token else None
            if found is not None and found.exit is None and not found.void:
                signal_supervisor(found, signal.SIGKILL)
                while kill_leftovers(found, state, None):
                    time.sleep(0.02)
    finally:
        os.close(folder)


FAILED_STATES = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL")
LOG_END_LINES = 5


def refuse_failed(client: Client, job: int) -> bool:
    """Say that a job has failed, with the end of its log; False if it has not.

    Raises:
        Unavailable: it has failed.
    """
    seen = client.job(job)
    if seen["state"] not in FAILED_STATES:
        return False
    said = b"".join(client.logs(job, tail=LOG_END_LINES)) if seen["attempts"] else b""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    code = f" with exit code {seen['exit_code']}" if seen["exit_code"] else ""
    raise Unavailable(
        f"job {job} ended as {seen['state']}{code}: {' | '.join(lines) or 'it printed nothing'}",
        "mend what its log names and measure this part again",
    )


def wait_until(true: Callable[[], bool], seconds: float, what: str, pause_s: float = 0.02) -> None:
    """Ask again and again, with pauses in which the asking takes nothing.

    Raises:
        Unavailable: the time is up.
    """
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise Unavailable(f"waited {seconds:g} s for {what}", "is the machine very busy?")
        time.sleep(pause_s)
