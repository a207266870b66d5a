"""What is asked of Slurm for an attempt, and what its keeper is told to run."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flyball.core.errors import BadInput
from flyball.core.jobs import JobSpec
from flyball.core.live import Launch, LiveNode
from flyball.core.units import MILLI_PER_DEVICE, S_PER_MIN
from flyball.engines.local import steer_file
from flyball.engines.local.request import FIRST_PORT, KEPT_LOGS, PORTS, usual_variables
from flyball.engines.slurm.own_jobs import Token
from flyball.engines.slurm.shared_folder import SharedFolder

SPARE_MIN = 2
"""Minutes of Slurm's time limit beyond the job's own, which its supervisor enforces."""
WHOLE_GPUS = "Slurm gives whole GPUs only"


@dataclass(frozen=True)
class SlurmSettings:
    """How attempts are submitted.

    Attributes:
        partition, account, qos: of every job; "" = Slurm's default.
        options: further options of sbatch, as written.
        python: interpreter on the nodes.
        queue_s: how long Slurm may let a job wait before it is withdrawn and placed anew.
        begin_s: how long it may take to begin once it runs by Slurm's word, at least `queue_s`.
        beat_s: time between two signs of life of a job.
        lease_s: without one for this long, a job that Slurm does not know counts as lost.
        poll_s: time between two `squeue`.
        nodes_s: time between two readings of the nodes.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    options: tuple[str, ...] = ()
    python: str = sys.executable
    queue_s: float = 60.0
    begin_s: float = 60.0
    beat_s: float = 1.0
    lease_s: float = 30.0
    poll_s: float = 2.0
    nodes_s: float = 10.0


def options_of(launch: Launch, nodes: Mapping[str, LiveNode], settings: SlurmSettings) -> list[str]:
    """Return sbatch's options for an attempt, pinned to the nodes that it was given.

    Raises:
        BadInput: Slurm cannot give what it asks for.
    """
    spec, count = launch.spec, len(launch.nodes)
    if spec.gpus and spec.milli < MILLI_PER_DEVICE:
        raise BadInput(f"{spec.milli / 10:g} % of a GPU requested: {WHOLE_GPUS}", "ask for one")
    options = [f"--nodes={count}", f"--nodelist={','.join(launch.nodes)}", "--ntasks-per-node=1"]
    options.append(f"--cpus-per-task={_cores(launch, nodes)}")
    per_node = [row.mask.bit_count() for row in launch.rows]
    if spec.gpus and len(set(per_node)) == 1:
        options.append(f"--gres=gpu:{per_node[0]}")
    elif spec.gpus:
        options.append(f"--gpus={sum(per_node)}")
    if spec.memory_mib:
        options.append(f"--mem={-(-spec.memory_mib // count)}M")
    if spec.limit_s:
        limit_min = math.ceil((spec.limit_s + 2.0 * spec.grace_s) / S_PER_MIN) + SPARE_MIN
        options.append(f"--time={limit_min}")
    named = (
        ("partition", settings.partition),
        ("account", settings.account),
        ("qos", settings.qos),
    )
    options += [f"--{name}={value}" for name, value in named if value]
    return [*options, "--export=FLYBALL=1", "--chdir=/", "--open-mode=append", *settings.options]


def _cores(launch: Launch, nodes: Mapping[str, LiveNode]) -> int:
    """Return the cores per node: of an elastic job on cores, as many as it was given."""
    spec, count = launch.spec, len(launch.nodes)
    node = nodes.get(launch.nodes[0])
    if spec.elastic and not spec.gpus and node is not None and not node.uuids:
        each = max(1, node.cpus // node.devices)
        return max(1, max(row.mask.bit_count() for row in launch.rows) * each)
    return max(1, -(-spec.cpus // count))


def request_of(
    launch: Launch,
    shared: SharedFolder,
    settings: SlurmSettings,
    addresses: Mapping[str, str],
    access: Callable[[Token], Mapping[str, str]],
) -> dict[str, Any]:
    """Return what the supervisor of an attempt is told, as `engines/local/request.py` does.

    Args:
        addresses: of nodes by name: where the processes of a gang meet.
        access: returns the variables with which a job reports over HTTP.
    """
    spec, token = launch.spec, (launch.job, launch.attempt)
    name = f"{launch.job}.{launch.attempt}"
    log = spec.stdout or str(shared.file("logs", f"{name}.out"))
    return {
        "job": launch.job,
        "attempt": launch.attempt,
        "argv": _program(launch, settings),
        "cwd": spec.cwd,
        "env": {
            **usual_variables(os.environ),
            **_variables(launch, shared, addresses),
            **access(token),
        },
        "cores": [],
        "orders": steer_file.path_of(str(shared.path), *token),
        "quota": False,
        "nice": spec.nice,
        "memory_mib": spec.memory_mib if len(launch.nodes) == 1 else 0,
        "max_processes": spec.max_processes,
        "limit_s": spec.limit_s,
        "grace_s": spec.grace_s,
        "checkpoint_signal": spec.checkpoint_signal,
        "signal_before_s": spec.signal_before_s,
        "signal_children": spec.signal_children,
        "checkpoint_dir": str(shared.file("checkpoints", str(launch.job))),
        "log": log,
        "error_log": spec.stderr if spec.stderr != log else "",
        "log_bytes": KEPT_LOGS.most_bytes,
        "log_keep": KEPT_LOGS.keep,
        "beat_s": settings.beat_s,
        "lease_s": settings.lease_s,
        "gpus": spec.gpus,
    }


def _program(launch: Launch, settings: SlurmSettings) -> list[str]:
    """Return the job's program; a gang's runs once on each of its nodes."""
    argv, count = list(launch.spec.argv), len(launch.nodes)
    if count == 1:
        return argv
    return [
        *("srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"),
        *("--kill-on-bad-exit=1", "--export=ALL", f"--chdir={launch.spec.cwd}"),
        *(settings.python, "-m", "flyball.engines.slurm.rank", *argv),
    ]


def _variables(
    launch: Launch, shared: SharedFolder, addresses: Mapping[str, str]
) -> dict[str, str]:
    spec, token = launch.spec, (launch.job, launch.attempt)
    first = launch.nodes[0]
    meet = addresses.get(first, first) if len(launch.nodes) > 1 else "127.0.0.1"
    return {
        "PYTHONUNBUFFERED": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": meet,
        "MASTER_PORT": str(FIRST_PORT + launch.job % PORTS),
        **spec.env,
        **_task(spec),
        "FLYBALL_JOB_ID": str(launch.job),
        "FLYBALL_ATTEMPT": str(launch.attempt),
        "FLYBALL_CHECKPOINT_DIR": str(shared.file("checkpoints", str(launch.job))),
        "FLYBALL_DEVICES": str(sum(row.mask.bit_count() for row in launch.rows)),
        "FLYBALL_NODES": ",".join(launch.nodes),
        "FLYBALL_ORDERS": steer_file.path_of(str(shared.path), *token),
    }


def _task(spec: JobSpec) -> dict[str, str]:
    if not spec.array:
        return {}
    return {"FLYBALL_ARRAY_ID": str(spec.array), "FLYBALL_ARRAY_INDEX": str(spec.array_index)}


def script_of(shared: SharedFolder, token: Token, settings: SlurmSettings) -> str:
    """Return the batch script: it becomes the keeper of the attempt."""
    words = [
        *(settings.python, "-m", "flyball.engines.slurm.keeper"),
        *(str(shared.path), f"{token[0]}.{token[1]}"),
    ]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"
