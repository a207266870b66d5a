"""Builds the request that tells a supervisor how to run a launch."""

from __future__ import annotations

import functools
import json
import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Launch, LiveNode
from flyball.engines.local import slurm, steer_file
from flyball.engines.local.claim import name_of

FIRST_PORT, PORTS = 15_000, 16_000
"""Range of MASTER_PORT, below the kernel's ephemeral ports. It follows from the job's number, so
jobs that run at the same time have different ports."""


class Logs(NamedTuple):
    """Maximum size of a job's log, and how many full ones are kept."""

    most_bytes: int = 64 * 2**20
    keep: int = 2


KEPT_LOGS = Logs()


def request_line(
    launch: Launch,
    state: Path,
    node: LiveNode,
    cores: Sequence[int],
    logs: Logs,
    now: tuple[int, int],
    quota: bool = True,
    max_processes: int = 0,
) -> bytes:
    """Return the line that is sent to the spawner.

    Args:
        cores: the node's cores that jobs may use.
        now: the engine's time and the machine's monotonic clock, both in microseconds; from their
            difference the supervisor computes the engine's time later on.
        quota: whether the kernel may enforce a cap.
        max_processes: limit of a job that states none; 0 = no limit.
    """
    spec = launch.spec
    name = name_of(launch.job, launch.attempt)
    devices = devices_of(launch.rows)
    log = spec.stdout or str(state / "logs" / f"{name}.out")
    held = [] if node.uuids else cores_of(devices, cores, node.devices)
    request = {
        "job": launch.job,
        "attempt": launch.attempt,
        "argv": list(spec.argv),
        "cwd": spec.cwd,
        "env": environment(launch, state, node, len(held) or spec.cpus, os.environ),
        "cores": held,
        "orders": steer_file.path_of(str(state), launch.job, launch.attempt),
        "quota": quota,
        "nice": spec.nice,
        "memory_mib": spec.memory_mib,
        "max_processes": spec.max_processes or max_processes,
        "limit_s": spec.limit_s,
        "grace_s": spec.grace_s,
        "checkpoint_signal": spec.checkpoint_signal,
        "signal_before_s": spec.signal_before_s,
        "signal_children": spec.signal_children,
        "checkpoint_dir": str(state / "checkpoints" / str(launch.job)),
        "log": log,
        "error_log": spec.stderr if spec.stderr != log else "",
        "log_bytes": logs.most_bytes,
        "log_keep": logs.keep,
        "time_us": now[0],
        "mono_us": now[1],
    }
    return f"{name} {json.dumps(request)}\n".encode()


def environment(
    launch: Launch, state: Path, node: LiveNode, cores: int, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return a minimal environment. The job's variables win, except over its identity and devices.

    Args:
        cores: how many cores it may use.
        inherited: the control plane's environment.
    """
    held = devices_of(launch.rows)
    shown = [node.uuids[i] for i in held if i < len(node.uuids)]
    return {
        **usual_variables(inherited),
        # Output goes into a pipe, for which Python buffers in blocks by default.
        "PYTHONUNBUFFERED": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(FIRST_PORT + launch.job % PORTS),
        **slurm.presumed(launch, cores),
        **launch.spec.env,
        **slurm.certain(launch, node, cores, len(shown)),
        **_task(launch.spec),
        "FLYBALL_JOB_ID": str(launch.job),
        "FLYBALL_ATTEMPT": str(launch.attempt),
        "FLYBALL_CHECKPOINT_DIR": str(state / "checkpoints" / str(launch.job)),
        "FLYBALL_STATE": str(state),
        "FLYBALL_DEVICES": str(len(held)),
        "FLYBALL_ORDERS": steer_file.path_of(str(state), launch.job, launch.attempt),
        "CUDA_VISIBLE_DEVICES": ",".join(shown),
    }


def usual_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that jobs inherit from the control plane, or their defaults."""
    return {name: inherited.get(name, default) for name, default in _defaults().items()}


def _task(spec: JobSpec) -> dict[str, str]:
    """Return the variables that identify a task of an array."""
    if not spec.array:
        return {}
    return {"FLYBALL_ARRAY_ID": str(spec.array), "FLYBALL_ARRAY_INDEX": str(spec.array_index)}


def cores_of(devices: Sequence[int], cores: Sequence[int], count: int) -> list[int]:
    """Return the cores of these devices, on a node whose cores form `count` devices."""
    per_device = max(1, len(cores) // count)
    return [core for i in devices for core in cores[i * per_device : (i + 1) * per_device]]


@functools.cache
def _defaults() -> dict[str, str]:
    """Return the variables that jobs inherit from the control plane, with their defaults."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:  # in a container a user id may have no name
        return {"PATH": os.defpath, "HOME": "/", "LANG": "C.UTF-8", "USER": str(os.getuid())}
    home, name = user.pw_dir, user.pw_name
    return {"PATH": os.defpath, "HOME": home, "LANG": "C.UTF-8", "USER": name}


def devices_of(rows: Sequence[Row]) -> list[int]:
    """Return the devices of an allocation, in order. This engine has one node."""
    mask = 0
    for row in rows:
        mask |= row.mask
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
