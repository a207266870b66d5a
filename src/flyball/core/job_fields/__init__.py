"""The table of a job's fields: what each means, its bounds, and how it is written anywhere.

The HTTP model, job files, options of `flyball submit`, `#SBATCH` lines, limits, `flyball show` and
docs/reference/jobs.md derive from it, so a new field is one entry here. Those with a notation of
their own (`env`, `after`, `--signal`, ...) also have a reader in `cli/jobs`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from flyball.core.codes import CLASS_LABELS
from flyball.core.job_fields.field import DESCRIPTION, JobField, stated
from flyball.core.job_fields.forms import (
    ABSOLUTE,
    ABSOLUTE_OR_EMPTY,
    Choice,
    Flag,
    Names,
    Number,
    Structure,
    Text,
    Whole,
)

MAX_DEVICES = 65_536
"""Maximum number of cores or devices of a job, and of nodes and tasks."""
MAX_TASKS = 10_000
"""Maximum number of tasks of an array, and of jobs in a batch."""
MAX_TARGETS = 16
"""Maximum number of targets of a job's notifications."""
MAX_ID = 2**53 - 1
"""Largest job id: beyond it, programs that only have doubles would confuse two jobs."""

NAME, ACCOUNT = Text(200), Text(64)
PATH = Text(4096, ABSOLUTE_OR_EMPTY)
DEVICES = Whole(0, MAX_DEVICES)
FEATURES = Names(32, ACCOUNT)
SECONDS = Number(0, 1e9)
MOMENT = Number(0, 1e11)


@dataclass(frozen=True)
class JobFields:
    """The fields of a job with their defaults; `core.jobs.JobSpec` adds what a job can do."""

    # What runs ----------------------------------------------------------------------
    argv: tuple[str, ...] = stated(
        MISSING, Structure("a list of 1 to 4096 words", 4096, tuple),
        "The command and its arguments; not run by a shell.", keys=("command",),
    )  # fmt: skip
    name: str = stated(
        "", NAME, "Name for people; default: the command's.", "--job-name --name -J",
    )  # fmt: skip
    cwd: str = stated(
        "/", Text(4096, ABSOLUTE), "Working folder, an absolute path.", "--chdir --workdir -D",
        metavar="DIR",
        help="Folder it runs in; default: the current one.",
    )  # fmt: skip
    env: dict[str, str] = stated(
        {}, Structure("at most 1024 variables with their values", 1024, dict),
        "Variables added to a minimal environment.", "--export", keys=("export",),
        help="Environment variables: ALL, NONE, A,B=2; default: PATH and a few others.",
    )  # fmt: skip
    user: str = stated("", ACCOUNT, "The user who submits it.", scheduled=True)
    tenant: str = stated(
        "", ACCOUNT, "The account it counts for.", "--account -A",
        synonyms=("account",), scheduled=True, variable="SLURM_JOB_ACCOUNT",
    )  # fmt: skip

    # What it asks for -----------------------------------------------------------------
    nodes: int = stated(
        0, DEVICES, "Number of nodes; 0 = as many as its devices need.", "--nodes -N",
        metavar="N", notation="nodes", scheduled=True, optional=True,
        otherwise="a job gets as few nodes as its cores or GPUs need",
        help="Number of nodes: 1, or a range: 1-2.",
    )  # fmt: skip
    tasks_per_node: int = stated(
        0, DEVICES, "Tasks on each node; 0 = not stated.", "--ntasks-per-node --tasks-per-node",
        metavar="N",
        optional=True, otherwise="no program runs there that could read SLURM_NTASKS",
        variable="SLURM_NTASKS_PER_NODE",
        help="Tasks on each node, each with -c cores; sets SLURM_NTASKS.",
    )  # fmt: skip
    cpus: int = stated(
        1, Whole(1, MAX_DEVICES), "Number of cores.", "--cpus-per-task -c",
        metavar="N", scheduled=True,
        help="Cores of each task; the job gets -n times -c cores.",
    )  # fmt: skip
    gpus: int = stated(
        0, DEVICES, "Number of GPUs; 0 = none.", "--gpus -G",
        metavar="N", scheduled=True,
        help="GPUs: 2, a100:2, or a fraction of one: 0.25.",
    )  # fmt: skip
    milli: int = stated(1000, Whole(1, 1000), "Thousandths of each GPU.", scheduled=True)
    device_type: str = stated(
        "", ACCOUNT, "Type of its devices; empty = any.", "--device-type",
        metavar="TYPE", scheduled=True, optional=True,
        help="Type of its devices: a100; also as --gpus a100:2.",
    )  # fmt: skip
    features: tuple[str, ...] = stated(
        (), FEATURES, "Features that its nodes must have.", "--constraint --features -C",
        metavar="LIST", scheduled=True, optional=True,
        help="Features that its nodes must have, all of them: nvme,ib.",
    )  # fmt: skip
    memory_mib: int = stated(
        0, Whole(0, 2**31 - 1), "Limit of host memory; 0 = not stated.", "--mem", unit="MiB",
        metavar="SIZE", notation="size", keys=("memory",), scheduled=True,
        help="Host memory limit: 512M, 4G.",
    )  # fmt: skip
    max_processes: int = stated(
        0, Whole(0, 2**22), "Limit of processes and threads; 0 = the server's default.",
        "--max-processes", metavar="N", scheduled=True,
    )  # fmt: skip
    least: int = stated(
        0, DEVICES, "Fewest cores or GPUs it can run on; 0 = it is rigid.", "--elastic",
        metavar="MIN-MAX", keys=("elastic",), scheduled=True,
        help="It can run on any number of cores or GPUs in this range: 1-4.",
    )  # fmt: skip
    most: int = stated(0, DEVICES, "Most cores or GPUs it can run on.", scheduled=True)
    limit_s: float = stated(
        0.0, SECONDS, "Time limit; 0 = none.", "--time -t", unit="seconds",
        metavar="TIME", notation="duration", keys=("limit",), scheduled=True,
        help="Time limit: minutes, HH:MM:SS, D-HH:MM, 90s, 2h.",
    )  # fmt: skip
    estimate_s: float = stated(
        0.0, SECONDS, "Expected run time; 0 = unknown.", "--estimate", unit="seconds",
        metavar="TIME", notation="duration", keys=("estimate",), scheduled=True,
        help="Expected run time, written as in --time; not a limit.",
    )  # fmt: skip
    kind: str = stated(
        "", Choice("class", CLASS_LABELS),
        "Workload class, or its first word; empty = to be classified.", "--class",
        metavar="NAME", keys=("class",), scheduled=True,
        help="Workload class: compute, memory, latency, bandwidth or mixed. [default: classified]",
    )  # fmt: skip
    model: str = stated("", NAME, "The model it trains, if stated.", "--model", scheduled=True)

    # When it runs ---------------------------------------------------------------------
    priority: float = stated(
        0.0, Number(-1e9, 1e9), "Higher goes first.", "--priority", metavar="N", scheduled=True,
        help="Jobs with a higher priority go first.",
    )  # fmt: skip
    partition: str = stated(
        "", ACCOUNT, "Partition (queue) it is submitted to.", "--partition -p",
        optional=True, otherwise="there is only one queue", variable="SLURM_JOB_PARTITION",
    )  # fmt: skip
    qos: str = stated(
        "", ACCOUNT, "Quality of service it is submitted with.", "--qos -q",
        optional=True, otherwise="use --priority or --account", variable="SLURM_JOB_QOS",
    )  # fmt: skip
    after: tuple[tuple[str, int], ...] = stated(
        (), Structure(
            "at most 1000 pairs of a condition and a job", 1000,
            lambda pairs: tuple((str(how), int(job)) for how, job in pairs),
        ),
        "Dependencies: (condition, job) pairs.", "--dependency -d",
        help="Waits for other jobs: afterok:ID[:ID], afterany:..., afternotok:...",
    )  # fmt: skip
    array: int = stated(
        0, Whole(0, MAX_ID),
        "Many tasks from one description, as in Slurm: `0-9`, `1,3,5`, `0-99:10`, `0-99%4` (four "
        f"at a time). At most {MAX_TASKS:,} tasks.",
        "--array -a", scheduled=True, accepts="task numbers, e.g. 0-9%4",
        help="Task numbers: 0-9, 1,3,5-7:2; %4 = at most four at a time.",
    )  # fmt: skip
    array_index: int = stated(-1, Whole(-1, 2**31 - 1), "Number of this task.", sent=False)
    array_limit: int = stated(
        0, Whole(0, 2**31 - 1), "Tasks of the array at a time; 0 = all.",
        sent=False, scheduled=True,
    )  # fmt: skip
    hold: bool = stated(
        False, Flag(), "It does not start until it is released.", "--hold -H",
        help="Do not start it before flyball release ID.",
    )  # fmt: skip
    begin_time: float = stated(
        0.0, MOMENT, "Earliest start, in seconds since 1970; 0 = at once.", "--begin -b",
        unit="seconds since 1970", notation="moment", keys=("begin",),
        help="Earliest start: now+1hour, 16:00, tomorrow, 2030-01-20T12:34.",
    )  # fmt: skip
    deadline: float = stated(
        0.0, MOMENT, "Time by which it must have ended, in seconds since 1970; 0 = none.",
        "--deadline", unit="seconds since 1970", notation="moment", optional=True,
        help="Time by which it must have ended, written as in --begin.",
    )  # fmt: skip
    deferrable_until: float = stated(
        0.0, MOMENT, "May be delayed until then for price or carbon; 0 = start as soon as it can.",
        "--deferrable-until", unit="seconds since 1970", notation="moment", optional=True,
        help="It may be delayed until then for price or carbon; written as in --begin.",
        otherwise="no price or carbon intensity that changes over time is given here",
    )  # fmt: skip

    # How it runs and ends -------------------------------------------------------------
    requeue: bool = stated(
        True, Flag(), "Run again after its node was lost.", "--requeue", off="--no-requeue",
    )  # fmt: skip
    preemptible: bool = stated(
        True, Flag(), "May be preempted.", off="--no-preempt", help="Never preempt it.",
    )  # fmt: skip
    nice: int = stated(
        0, Whole(0, 19), "Niceness of its processes.", "--nice", metavar="N",
        advice="for a later place in the queue use --priority=-1",
    )  # fmt: skip
    grace_s: float = stated(
        5.0, Number(0, 86_400), "Time from SIGTERM to SIGKILL.", unit="seconds",
    )  # fmt: skip
    checkpoint_signal: int = stated(
        0, Whole(0, 64), "Sent before SIGTERM on preemption; 0 = none.", "--signal",
        keys=("signal",),
        help="Signal before its time limit and on preemption: [B:]USR1[@60] (seconds).",
    )  # fmt: skip
    signal_before_s: float = stated(
        0.0, SECONDS, "Also send `checkpoint_signal` this long before the limit; 0 = do not.",
        unit="seconds",
    )  # fmt: skip
    signal_children: bool = stated(
        False, Flag(), "Send that to the children of its process instead.",
    )  # fmt: skip
    stdout: str = stated(
        "", PATH, "Absolute path of its output; empty = under the state folder.", "--output -o",
        keys=("output",),
        help="File for its output; %j job, %A array, %a task, %x name.",
    )  # fmt: skip
    stderr: str = stated(
        "", PATH, "Absolute path of its error output; empty = together with stdout.", "--error -e",
        metavar="FILE", keys=("error",),
        help="Separate file for its stderr; % as in --output.",
    )  # fmt: skip
    notify: tuple[tuple[str, ...], ...] = stated(
        (), Structure(
            f"at most {MAX_TARGETS} URLs or commands", MAX_TARGETS,
            lambda targets: tuple(tuple(target) for target in targets),
        ),
        "Notified of its end: http(s) URLs, which are posted to, and commands, as a line that is "
        "split at spaces and quotes, or as a list of arguments.",
        "--notify", metavar="URL|COMMAND",
        help="Notify this when it ends; may be repeated.",
    )  # fmt: skip


def _described(entry: Any) -> JobField:
    row: JobField = entry.metadata[DESCRIPTION]
    return replace(row, name=entry.name)


FIELDS: dict[str, JobField] = {entry.name: _described(entry) for entry in fields(JobFields)}
"""Every field of a job by name, in the order of the table."""
DEFAULTS: dict[str, Any] = {
    row.name: None if row.default is MISSING else row.default for row in FIELDS.values()
}
"""Default of every field; `argv` has none and must be stated."""
SYNONYMS = {synonym: row.name for row in FIELDS.values() for synonym in row.synonyms}
"""Fields by their other names."""


def is_stated(row: JobField, value: Any) -> bool:
    """Whether a job with this value states the field."""
    return bool(value != DEFAULTS[row.name])
