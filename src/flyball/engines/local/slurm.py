"""The environment variables that a batch script would see under Slurm.

A batch script is one process, and so is a job here: what `srun` would set for the steps of a job is
not set. Programs that detect Slurm (`mpirun`, some training frameworks) expect all of these
variables if they find one, so they are set together.
"""

from __future__ import annotations

from flyball.core.job_fields import FIELDS, is_stated
from flyball.core.live import Launch, LiveNode

NAMED = [row for row in FIELDS.values() if row.variable]
"""Fields that Slurm passes on as a variable of the same meaning."""


def presumed(launch: Launch, cores: int) -> dict[str, str]:
    """Return the variables that the submitter may override: one process with all the cores.

    Args:
        cores: how many cores it may use.
    """
    spec = launch.spec
    # An elastic job may start with fewer or more cores than it asks for.
    cpus = cores if spec.elastic and not spec.gpus else spec.cpus
    tasks = spec.tasks_per_node or 1
    return {
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_TASKS_PER_NODE": str(tasks),
        "SLURM_CPUS_PER_TASK": str(max(1, cpus // tasks)),
        "SLURM_SUBMIT_DIR": spec.cwd,
    }


def certain(launch: Launch, node: LiveNode, cores: int, devices: int) -> dict[str, str]:
    """Return the variables that cannot be overridden: the job's identity and where it runs.

    Args:
        cores: how many cores it may use.
        devices: how many accelerators it holds.
    """
    spec, job = launch.spec, str(launch.job)
    variables = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_JOB_NODELIST": node.name,
        "SLURM_NODELIST": node.name,
        "SLURMD_NODENAME": node.name,
        "SLURM_JOB_CPUS_PER_NODE": str(cores),
        "SLURM_CPUS_ON_NODE": str(cores),
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    if node.uuids:
        variables["SLURM_GPUS_ON_NODE"] = str(devices)
    if spec.memory_mib:
        variables["SLURM_MEM_PER_NODE"] = str(spec.memory_mib)
    if launch.attempt > 1:  # as in Slurm, unset at first: scripts test whether it is set
        variables["SLURM_RESTART_COUNT"] = str(launch.attempt - 1)
    for row in NAMED:
        if is_stated(row, value := getattr(spec, row.name)):
            variables[row.variable] = str(value)
    if spec.array:
        variables["SLURM_ARRAY_JOB_ID"] = str(spec.array)
        variables["SLURM_ARRAY_TASK_ID"] = str(spec.array_index)
    return variables
