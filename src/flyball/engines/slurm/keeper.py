"""The batch script of a job on Slurm: keeps its supervisor, shows that it lives, passes orders on.

    python -m flyball.engines.slurm.keeper SHARED JOB.ATTEMPT

The supervisor is that of the local engine: it claims the attempt in the shared folder, runs the job
and records its end there. This process counts up a file as a sign of life. If it cannot for half of
the lease, it kills the job: after the whole lease the control plane may take the attempt as lost.
Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

from flyball.engines.local import cgroup, proc, program, signals, supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOT_SHARED, LATE = 3, 4
"""Exit codes: the shared folder is not seen here; the attempt was claimed before."""
FROM_SLURM = ("SLURM_", "CUDA_", "GPU_", "ROCR_", "HIP_", "ZE_", "TMPDIR")
"""Prefixes of variables that Slurm sets for the job."""
ORDERS = {"cancel": signals.CANCEL, "preempt": signals.PREEMPT}


def main(arguments: list[str]) -> int:
    """Keep one attempt; returns the exit code of the batch script."""
    shared, name = arguments
    try:
        with open(f"{shared}/requests/{name}", encoding="utf-8") as file:
            request = json.load(file)
        folder = os.open(f"{shared}/claims", os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, ValueError) as error:
        say(f"{os.uname().nodename} does not see the shared folder: {error}")
        return NOT_SHARED
    keeper = Keeper(shared, name, request)
    keeper.begin(folder)
    return keeper.keep()


class Keeper:
    """Keeps one attempt."""

    def __init__(self, shared: str, name: str, request: dict[str, Any]) -> None:
        self._shared, self._name, self._request = shared, name, request
        self._beats = 0
        self._beat_file = -1
        self._ordered = ""
        self._stop_asked = False
        self._steered = 0
        self._child = 0

    def begin(self, folder: int) -> None:
        """Fork the supervisor. Slurm's signal to end reaches it through this process only."""
        signal.signal(signal.SIGTERM, self._asked)
        for number in (signal.SIGHUP, signal.SIGINT, *ORDERS.values(), signals.ORDERS):
            signal.signal(number, signal.SIG_IGN)
        self._beat()
        self._write("starts", json.dumps(place()))
        self._child = os.fork()
        if self._child == 0:
            code = 1
            try:
                os.setsid()
                program.prctl(program.PR_SET_PDEATHSIG, signal.SIGKILL)
                wake = signals.hear()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self._supervise(folder, wake)
                code = 0
            finally:
                os._exit(code)

    def _supervise(self, folder: int, wake: int) -> None:
        now = time.time_ns() // 1000, time.monotonic_ns() // 1000
        request = {**self._request, "time_us": now[0], "mono_us": now[1]}
        given = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(FROM_SLURM) and name != "SLURM_EXPORT_ENV"
        }
        request["env"] = {**given, **request["env"]}
        boot = proc.boot_id()

        def refuse(why: str) -> None:
            say(f"cannot be claimed: {why}")

        place: cgroup.Place | None = None
        supervisor.supervise(request, folder, boot, place, wake, lambda: None, refuse)

    def keep(self) -> int:
        """Beat and pass orders on until the supervisor has ended."""
        beat_s, lease_s = self._request["beat_s"], self._request["lease_s"]
        last_s = time.monotonic()
        while True:
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                self._beat()
                return os.waitstatus_to_exitcode(status)
            if self._beat():
                last_s = time.monotonic()
            elif time.monotonic() - last_s > lease_s / 2:
                self._kill()
                return 1
            self._obey()
            time.sleep(beat_s)

    def _beat(self) -> bool:
        """Show a sign of life; return whether it could be written."""
        self._beats += 1
        try:
            if self._beat_file < 0:
                self._beat_file = os.open(
                    f"{self._shared}/beats/{self._name}", os.O_WRONLY | os.O_CREAT, 0o600
                )
            # Always the same bytes of the same file: a full disk has room for them.
            os.pwrite(self._beat_file, b"%-20d" % self._beats, 0)
            os.fsync(self._beat_file)
        except OSError:
            if self._beat_file >= 0:
                with contextlib.suppress(OSError):
                    os.close(self._beat_file)
                self._beat_file = -1
            return False
        return True

    def _write(self, part: str, text: str) -> bool:
        try:
            file = os.open(
                f"{self._shared}/{part}/{self._name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
            )
            try:
                os.write(file, text.encode())
            finally:
                os.close(file)
        except OSError:
            return False
        return True

    def _asked(self, _number: int, _frame: object) -> None:
        """Note that Slurm asks the job to end."""
        self._stop_asked = True

    def _obey(self) -> None:
        order = "cancel" if self._stop_asked else ""
        try:
            with open(f"{self._shared}/orders/{self._name}", encoding="utf-8") as file:
                order = order or file.read().strip()
        except OSError:  # there is none
            pass
        try:
            changed = os.stat(self._request["orders"]).st_mtime_ns
        except OSError:
            changed = 0
        if changed != self._steered:
            self._steered = changed
            signals.send(self._child, signals.ORDERS)
        if order in ORDERS and order != self._ordered:
            self._ordered = order
            signals.send(self._child, ORDERS[order])

    def _kill(self) -> None:
        """Kill the job and its supervisor, without a record: nobody may believe that it lives."""
        signals.send(self._child, signal.SIGSTOP)  # it must not record an end, nor fork
        for _ in range(3):
            for pid in proc.descendants(self._child):
                signals.send(pid, signal.SIGKILL)
        signals.send(self._child, signal.SIGKILL)


def say(text: str) -> None:
    """Print to the batch script's output, which the control plane reads."""
    os.write(1, f"{text}\n".encode())


def place() -> dict[str, Any]:
    """Return where this is: host, Slurm's number, nodes and GPUs of this node."""
    variables = os.environ
    return {
        "host": os.uname().nodename,
        "id": variables.get("SLURM_JOB_ID", ""),
        "nodes": variables.get("SLURM_JOB_NODELIST", ""),
        "node": variables.get("SLURMD_NODENAME", ""),
        "gpus": variables.get("SLURM_JOB_GPUS", ""),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
