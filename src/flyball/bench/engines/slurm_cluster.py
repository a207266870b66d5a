"""A private Slurm cluster on this machine: real munged, slurmctld and several slurmd.

    with SlurmCluster(nodes=4) as slurm:
        slurm.submit("--gpus=1", "--time=1", seconds=5)

Everything is in one temporary folder with ports of its own, needs no root, and is ended by process
id. Nodes are names on this machine (Debian's slurmd can run several); their GPUs are character
devices that everybody has, which Slurm only counts. Benchmarks and tests use it.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from flyball.core.errors import DataAbsent, FlyballError
from flyball.engines.local import proc

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "squeue")
HOW_TO_GET = "run `make servers`, or: apt install slurmctld slurmd slurm-client munge"
GPU_FILES = ("/dev/zero", "/dev/full")
"""Character devices that stand for the GPUs of a node."""
READY_S, END_S = 120.0, 30.0
"""How long daemons may take to come up and to end, on a busy machine."""
SYSTEM_PATH = "/usr/sbin:/sbin"
MAX_FOLDER_LETTERS = 60
"""Longest folder in which munged's socket has a path that the system accepts."""
STARTS = 3
"""How often a start is tried: another program may take a port that was free a moment ago."""


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if _which(name) is None]


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}")


class SlurmCluster:
    """Runs a cluster of its own while it is open.

    Attributes:
        folder: holds configuration, state and logs.
        environment: for Slurm's commands, ours included.
    """

    def __init__(
        self,
        nodes: int = 4,
        cpus: int = 4,
        gpus: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            gpus: on each node, at most as many as `GPU_FILES`.
            settings: lines of slurm.conf that replace or extend the usual ones.

        Raises:
            DataAbsent: a daemon is not installed.
        """
        if absent := missing():
            raise DataAbsent(f"{', '.join(absent)} not installed", HOW_TO_GET)
        assert 0 <= gpus <= len(GPU_FILES)
        self._nodes, self._cpus, self._gpus = nodes, cpus, gpus
        self._settings = dict(settings or {})
        self.folder = Path()
        self.environment: dict[str, str] = {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    # Starting and ending -----------------------------------------------------------------

    def __enter__(self) -> Self:
        for attempt in range(1, STARTS + 1):
            self.folder = Path(tempfile.mkdtemp(prefix="fb-slurm-", dir=_short_folder()))
            try:
                self._begin()
                return self
            except FlyballError:
                self.close()
                if attempt == STARTS:
                    raise
        raise AssertionError("unreachable")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        self._write_files()
        munge = self.folder / "munge"
        self._start(
            "munged", "--foreground", "--force", "--num-threads=2",
            *(f"--{name}={munge / name}" for name in ("key-file", "pid-file", "log-file")),
            f"--seed-file={munge / 'seed'}", f"--socket={munge / 'socket'}",
        )  # fmt: skip
        self._await(lambda: (munge / "socket").exists(), "munged's socket")
        self.start_controller()
        for node in self.node_names:
            self.start_node(node)
        self._await(self._nodes_ready, "all nodes idle")

    def start_controller(self) -> None:
        """Start slurmctld, again if it was stopped; its saved state is kept."""
        self._start("slurmctld", "-D", "-i")

    def stop_controller(self, with_signal: int = signal.SIGTERM) -> None:
        """End slurmctld and wait until it has ended."""
        self._end("slurmctld", with_signal)

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node, again if it was killed."""
        self._start(f"slurmd {name}", "-D", "-N", name)

    def resume_nodes(self) -> None:
        """Resume drained nodes, as an administrator would.

        Slurm drains a node on which it finds a job that it forgot, under a number given again.
        """
        with contextlib.suppress(FlyballError):
            names = ",".join(self.node_names)
            self.run("scontrol", "update", f"NodeName={names}", "State=RESUME")

    def kill_node(self, name: str) -> None:
        """Kill the slurmd of a node, and every process of the jobs that run there."""
        self._end(f"slurmd {name}", signal.SIGKILL)
        conf, node = f"SLURM_CONF={self.folder / 'slurm.conf'}", f"SLURMD_NODENAME={name}"
        for pid in proc.pids():
            if {conf, node} <= set(proc.environment(pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def frozen_controller(self) -> Iterator[None]:
        """Stop slurmctld's process meanwhile, so that commands hang."""
        process = self._daemons["slurmctld"]
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End all jobs and daemons, by process id, and remove the folder."""
        if "slurmctld" in self._daemons:
            with contextlib.suppress(FlyballError):
                self.cancel_all()
        for name in reversed(list(self._daemons)):
            self._end(name)
        deadline_s = time.monotonic() + END_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Return processes of this cluster: those with its configuration in their environment."""
        mark = f"SLURM_CONF={self.folder / 'slurm.conf'}"
        return [pid for pid in proc.pids() if pid != os.getpid() and mark in proc.environment(pid)]

    def _start(self, name: str, *arguments: str) -> None:
        path = _which(name.partition(" ")[0])
        assert path is not None
        with (self.folder / f"{name.replace(' ', '-')}.out").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                cwd=self.folder,
            )

    def _end(self, name: str, with_signal: int = signal.SIGTERM) -> None:
        process = self._daemons.pop(name)
        if process.poll() is None:
            process.send_signal(with_signal)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + READY_S
        while not condition():
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline_s:
                why = f"{', '.join(ended)} ended" if ended else f"not within {READY_S:g} s"
                raise FlyballError(f"no {what}: {why}: {self._last_words(ended)}", "see its log")
            time.sleep(0.05)

    def _last_words(self, names: Sequence[str]) -> str:
        lines = []
        for name in names:
            output = self.folder / f"{name.replace(' ', '-')}.out"
            lines += output.read_text("utf-8", "replace").splitlines()[-2:]
        return "; ".join(lines)

    def _nodes_ready(self) -> bool:
        try:
            text = self.run("scontrol", "-o", "show", "node")
        except FlyballError:
            return False
        return text.count("State=IDLE ") == self._nodes

    # Files -------------------------------------------------------------------------------

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self._nodes + 1)]

    @property
    def controller_pid(self) -> int:
        """The process id of slurmctld."""
        return self._daemons["slurmctld"].pid

    def _write_files(self) -> None:
        folder, ports = self.folder, _free_ports(self._nodes + 1)
        for name in ("state", "munge", *self.node_names):
            (folder / name).mkdir(mode=0o755)
        key = folder / "munge" / "key-file"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        user, host = getpass.getuser(), socket.gethostname().partition(".")[0]
        lines = {
            "ClusterName": "flyballtest",
            "SlurmctldHost": "localhost(127.0.0.1)",
            "SlurmctldPort": str(ports[0]),
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket,cred_expire=5",
            "CredType": "cred/munge",
            "StateSaveLocation": f"{folder}/state",
            "SlurmdSpoolDir": f"{folder}/%n",
            "SlurmctldPidFile": f"{folder}/slurmctld.pid",
            "SlurmdPidFile": f"{folder}/%n/slurmd.pid",
            "SlurmctldLogFile": f"{folder}/slurmctld.log",
            "SlurmdLogFile": f"{folder}/%n/slurmd.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "SwitchType": "switch/none",
            "ReturnToService": "2",
            "SlurmdParameters": "config_overrides",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "bf_interval=1,bf_resolution=1,sched_interval=1,"
            "sched_min_interval=0,bf_max_job_test=2000,default_queue_depth=2000",
            "PriorityType": "priority/basic",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core_Memory",
            "GresTypes": "gpu",
            "DefMemPerCPU": "10",
            "MinJobAge": "300",
            "AccountingStorageType": "accounting_storage/none",
            "JobAcctGatherType": "jobacct_gather/none",
        }
        lines |= self._settings
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        gres = f" Gres=gpu:a100:{self._gpus}" if self._gpus else ""
        for name, port in zip(self.node_names, ports[1:], strict=True):
            text += (
                f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} "
                f"CPUs={self._cpus} RealMemory=1000{gres}\n"
            )
        names = ",".join(self.node_names)
        text += f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP\n"
        text += "PartitionName=first Nodes=n1 MaxTime=60 PriorityTier=2 State=UP\n"
        (folder / "slurm.conf").write_text(text)
        files = ",".join(GPU_FILES[: self._gpus])
        devices = f"NodeName={names} Name=gpu Type=a100 File={files}\n" if self._gpus else ""
        (folder / "gres.conf").write_text(devices)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))
        }
        conf = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.environment = {**inherited, **conf, "PATH": f"{os.environ['PATH']}:{SYSTEM_PATH}"}

    # Commands ----------------------------------------------------------------------------

    def run(self, name: str, *arguments: str) -> str:
        """Return what one of Slurm's commands printed.

        Raises:
            FlyballError: it failed.
        """
        done = subprocess.run(
            [name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            check=False,
        )
        if done.returncode:
            raise FlyballError(f"{name}: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout.decode("utf-8", "replace")

    def submit(self, *options: str, seconds: float = 1.0) -> int:
        """Submit a job that sleeps; return Slurm's number of it."""
        text = self.run(
            "sbatch", "--parsable", "--export=NONE", "--output=/dev/null", *options,
            f"--wrap=exec sleep {seconds:g}",
        )  # fmt: skip
        return int(text.split(";")[0])

    def cancel_all(self) -> None:
        """Cancel all jobs and wait until none is left."""
        self.run("scancel", f"--user={getpass.getuser()}")
        deadline_s = time.monotonic() + END_S
        while self.run("squeue", "--noheader", "--format=%i") and time.monotonic() < deadline_s:
            time.sleep(0.05)


def _short_folder() -> str:
    """Return where temporary folders go: sockets' paths must be short."""
    default = tempfile.gettempdir()
    return default if len(default) < MAX_FOLDER_LETTERS else f"{os.sep}tmp"


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
