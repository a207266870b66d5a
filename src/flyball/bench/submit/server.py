"""Runs a real `flyball up` for measurements, and connects to it. No process is left behind."""

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
from flyball.engines.local.line import no_spawner
from flyball.sdk.client import Client
from flyball.sdk.endpoint import find_endpoint

START_S = 180.0
"""Timeout of a start; the first one on a machine compiles the decision kernel."""
STOP_S = 30.0
CALL_S = 120.0


class Up:
    """A running control plane.

    Attributes:
        state: its folder.
        process: the control plane, leader of the group of its agent and spawner.
    """

    def __init__(self, state: Path, process: subprocess.Popen[bytes]) -> None:
        self.state, self.process = state, process

    def client(self) -> Client:
        """Return the client that users have."""
        return Client(self.state, timeout_s=CALL_S)

    def connection(self) -> Connection:
        """Return a connection that costs the benchmark little CPU."""
        return Connection(self.state)

    def cpu_s(self) -> float:
        """Return the CPU time of the control plane so far, which other load hardly changes."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def fill(self) -> int:
        """Hold all cores with one job that sleeps, so that others stay pending; return its id."""
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
        """Stop all processes of Flyball meanwhile, so that they use no CPU."""

        def signal_all(number: signal.Signals) -> None:
            os.killpg(self.process.pid, number)
            for pid in supervisors:
                os.kill(pid, number)

        signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(signal.SIGCONT)


class Connection:
    """One keep-alive connection of the standard library, as httpx would add its own cost."""

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
        """Post a body and return the answer.

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
    """Create an empty state folder; at the end kill what still runs in it and remove it."""
    with tempfile.TemporaryDirectory(prefix="flyball-bench-", dir=base) as folder:
        state = Path(folder).resolve()
        try:
            yield state
        finally:
            end_attempts(state)


@contextlib.contextmanager
def running(state: Path, *options: str) -> Iterator[Up]:
    """Run `flyball up` on the folder, ready for calls.

    Raises:
        Unavailable: it did not start.
    """
    with started(state, *options) as process:
        up = Up(state, process)
        wait_until(lambda: _is_up(up), START_S, "flyball up to come up")
        yield up


@contextlib.contextmanager
def started(state: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `flyball up`; at the end terminate it, then kill its group."""
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
        log = (up.state / "up.log").read_text(errors="replace").strip()
        raise Unavailable(f"flyball up ended: {log[-500:]}", "try it by itself")
    return (up.state / "endpoint.json").exists()


def end_attempts(state: Path) -> None:
    """Kill the supervisors and jobs that a control plane has left in its folder."""
    engine = state / "engine"
    if not engine.is_dir():
        return
    # A supervisor that is just starting has no claim yet by which it could be found.
    wait_until(lambda: no_spawner(engine), STOP_S, "supervisors to claim their attempts")
    folder = os.open(engine, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in os.listdir(folder):
            token = claim.token_of(name)
            attempt = claim.read(folder, *token) if token else None
            if attempt is not None and attempt.exit is None and not attempt.void:
                signal_supervisor(attempt, signal.SIGKILL)
                while kill_leftovers(attempt, state, None):
                    time.sleep(0.02)
    finally:
        os.close(folder)


FAILED_STATES = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL")
LOG_END_LINES = 5


def refuse_failed(client: Client, job: int) -> bool:
    """Raise an error with the end of its log if a job has failed; else return False.

    Raises:
        Unavailable: it has failed.
    """
    seen = client.job(job)
    if seen["state"] not in FAILED_STATES:
        return False
    log = b"".join(client.logs(job, tail=LOG_END_LINES)) if seen["attempts"] else b""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    code = f" with exit code {seen['exit_code']}" if seen["exit_code"] else ""
    raise Unavailable(
        f"job {job} ended as {seen['state']}{code}: {' | '.join(lines) or 'it printed nothing'}",
        "fix what its log shows, then measure this part again",
    )


def wait_until(
    condition: Callable[[], bool], seconds: float, what: str, pause_s: float = 0.02
) -> None:
    """Poll a condition until it is true.

    Raises:
        Unavailable: the wait timed out.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Unavailable(f"waited {seconds:g} s for {what}", "is the machine very busy?")
        time.sleep(pause_s)
