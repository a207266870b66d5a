"""The input of the API: every value is typed, bounded and validated before it is used.

A job arrives as a plain mapping (`JobIn`), not as a model object: a batch of ten thousand is
validated by one call into compiled code.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    with_config,
)
from typing_extensions import TypedDict

from flyball.control.notify.target import MAX_TARGETS
from flyball.core.jobs import JobState

MOST_ID = 2**53 - 1
"""Largest job id: beyond it, programs that only have doubles would confuse two jobs."""
MOST_TASKS = 10_000
"""Maximum number of tasks of an array, and of jobs in a batch."""

# Names and paths: no control characters, which could forge lines on a terminal.
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
# Arguments may contain newlines and tabs (`sh -c "..."`), but no terminal escape sequences.
TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
ABSOLUTE = r"^/[^\x00-\x1f\x7f-\x9f]*$"
MOST_TEXT = 131_071
"""Maximum length of one argument or variable on Linux."""

Name = Annotated[str, StringConstraints(max_length=200, pattern=PLAIN)]
Account = Annotated[str, StringConstraints(max_length=64, pattern=PLAIN)]
Text = Annotated[str, StringConstraints(max_length=MOST_TEXT, pattern=TEXT)]
Folder = Annotated[str, StringConstraints(max_length=4096, pattern=ABSOLUTE)]
EnvName = Annotated[str, StringConstraints(max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
JobNumber = Annotated[int, Field(ge=1, le=MOST_ID)]
Devices = Annotated[int, Field(ge=0, le=65_536)]


@with_config(ConfigDict(extra="forbid", strict=True, title="JobIn"))
class JobIn(TypedDict, total=False):
    """A job to submit. Only `argv` is required."""

    argv: Required[
        Annotated[
            list[Text],
            Field(
                min_length=1,
                max_length=4096,
                description="The command and its arguments; not run by a shell.",
                json_schema_extra={"prefixItems": [{"type": "string", "minLength": 1}]},
            ),
        ]
    ]
    name: Annotated[Name, Field(description="Name for people; default: the command's.")]
    cwd: Annotated[Folder, Field(description="Working folder, an absolute path.")]
    env: Annotated[
        dict[EnvName, Text],
        Field(max_length=1024, description="Variables added to a minimal environment."),
    ]
    user: Annotated[Account, Field(description="The user who submits it.")]
    tenant: Annotated[Account, Field(description="The account it counts for.")]
    cpus: Annotated[int, Field(ge=1, le=65_536, description="Number of cores.")]
    gpus: Annotated[Devices, Field(description="Number of GPUs; 0 = none.")]
    milli: Annotated[int, Field(ge=1, le=1000, description="Thousandths of each GPU.")]
    memory_mib: Annotated[
        int, Field(ge=0, le=2**31 - 1, description="Limit of host memory; 0 = not stated.")
    ]
    max_processes: Annotated[
        int,
        Field(
            ge=0,
            le=2**22,
            description="Limit of processes and threads; 0 = the server's default.",
        ),
    ]
    limit_s: Annotated[Seconds, Field(description="Time limit; 0 = none.")]
    estimate_s: Annotated[Seconds, Field(description="Expected run time; 0 = unknown.")]
    priority: Annotated[
        float, Field(ge=-1e9, le=1e9, allow_inf_nan=False, description="Higher goes first.")
    ]
    kind: Annotated[
        Literal[
            "",
            "compute-intensive",
            "memory-bound",
            "latency-sensitive",
            "bandwidth-limited",
            "mixed",
        ],
        Field(description="Workload class; empty = to be classified."),
    ]
    model: Annotated[Name, Field(description="The model it trains, if stated.")]
    after: Annotated[
        list[tuple[Literal["afterok", "afterany", "afternotok"], JobNumber]],
        Field(max_length=1000, description="Dependencies: (condition, job) pairs."),
    ]
    requeue: Annotated[bool, Field(description="Run again after its node was lost.")]
    preemptible: Annotated[bool, Field(description="May be preempted.")]
    grace_s: Annotated[
        float,
        Field(ge=0, le=86_400, allow_inf_nan=False, description="Time from SIGTERM to SIGKILL."),
    ]
    checkpoint_signal: Annotated[
        int, Field(ge=0, le=64, description="Sent before SIGTERM on preemption; 0 = none.")
    ]
    nice: Annotated[int, Field(ge=0, le=19, description="Niceness of its processes.")]
    least: Annotated[
        Devices, Field(description="Fewest cores or GPUs it can run on; 0 = it is rigid.")
    ]
    most: Annotated[Devices, Field(description="Most cores or GPUs it can run on.")]
    stdout: Annotated[
        str,
        StringConstraints(max_length=4096, pattern=r"^(/[^\x00-\x1f\x7f-\x9f]*)?$"),
        Field(description="Absolute path of its output; empty = under the state folder."),
    ]
    stderr: Annotated[
        str,
        StringConstraints(max_length=4096, pattern=r"^(/[^\x00-\x1f\x7f-\x9f]*)?$"),
        Field(description="Absolute path of its error output; empty = together with stdout."),
    ]
    hold: Annotated[bool, Field(description="It does not start until it is released.")]
    begin_time: Annotated[
        float,
        Field(
            ge=0,
            le=1e11,
            allow_inf_nan=False,
            description="Earliest start, in seconds since 1970; 0 = at once.",
        ),
    ]
    signal_before_s: Annotated[
        Seconds,
        Field(description="Also send `checkpoint_signal` this long before the limit; 0 = do not."),
    ]
    signal_children: Annotated[
        bool, Field(description="Send that to the children of its process instead.")
    ]
    notify: Annotated[
        list[Text | Annotated[list[Text], Field(min_length=1, max_length=4096)]],
        Field(
            max_length=MAX_TARGETS,
            description="Notified of its end: http(s) URLs, which are posted to, and commands, as "
            "a line that is split at spaces and quotes, or as a list of arguments.",
        ),
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="OneIn"))
class OneIn(JobIn, total=False):
    """A job, or an array of them."""

    array: Annotated[
        str,
        StringConstraints(
            max_length=1000,
            pattern=r"^[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?"
            r"(,[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?)*(%[0-9]{1,7})?$",
        ),
        Field(
            description="Many tasks from one description, as in Slurm: `0-9`, `1,3,5`, `0-99:10`, "
            f"`0-99%4` (four at a time). At most {MOST_TASKS:,} tasks."
        ),
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="BatchIn"))
class BatchIn(TypedDict):
    """Many jobs, accepted or refused together."""

    jobs: Annotated[list[JobIn], Field(min_length=1, max_length=MOST_TASKS)]


Value = Annotated[float, Field(allow_inf_nan=False)] | bool | Annotated[Name, Field()]
ValueName = Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]


@with_config(ConfigDict(extra="forbid", strict=True, title="ReportIn"))
class ReportIn(TypedDict, total=False):
    """Progress of an attempt, reported by the job."""

    attempt: Annotated[int, Field(ge=0, le=2**31 - 1, description="0 or absent = the last one.")]
    values: Required[
        Annotated[
            dict[ValueName, Value],
            Field(min_length=1, max_length=64, description="Names and numbers: step, loss, ..."),
        ]
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="ResizeIn"))
class ResizeIn(TypedDict):
    """A new number of devices for a job."""

    devices: Annotated[int, Field(ge=1, le=65_536, description="Number of GPUs or cores.")]


@with_config(ConfigDict(extra="forbid", strict=True, title="CapIn"))
class CapIn(TypedDict):
    """A cap on a job."""

    share: Annotated[
        float,
        Field(
            ge=0.05,
            le=1,
            allow_inf_nan=False,
            description="Share of its cores' time or its GPUs' power; 1 = no cap.",
        ),
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="HoldIn"))
class HoldIn(TypedDict, total=False):
    """The user who holds a job."""

    user: Annotated[Account, Field(description="Shown in the reason for which it waits.")]


def _true(value: bool) -> bool:
    """Accept only true; `Literal[True]` would accept 1 as well."""
    if not value:
        raise ValueError("must be true or absent")
    return value


@with_config(
    ConfigDict(
        extra="forbid", strict=True, title="CancelIn", json_schema_extra={"minProperties": 1}
    )
)
class CancelIn(TypedDict, total=False):
    """Filters of the active jobs to cancel; a job must match all that are given."""

    all: Annotated[
        bool,
        AfterValidator(_true),
        Field(
            description="All jobs, if no other filter is given.", json_schema_extra={"const": True}
        ),
    ]
    user: Annotated[Account, Field(description="Of exactly this user.")]
    name: Annotated[Name, Field(description="With exactly this name.")]


@with_config(ConfigDict(extra="forbid", strict=True, title="FastIn"))
class FastIn(TypedDict):
    """A request for the fastest sampling rates."""

    seconds: Annotated[
        float,
        Field(ge=1, le=3600, allow_inf_nan=False, description="Duration from now."),
    ]


ONE: TypeAdapter[OneIn] = TypeAdapter(OneIn)
JOB: TypeAdapter[JobIn] = TypeAdapter(JobIn)
BATCH: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
REPORT: TypeAdapter[ReportIn] = TypeAdapter(ReportIn)
RESIZE: TypeAdapter[ResizeIn] = TypeAdapter(ResizeIn)
CAP: TypeAdapter[CapIn] = TypeAdapter(CapIn)
HOLD: TypeAdapter[HoldIn] = TypeAdapter(HoldIn)
CANCEL: TypeAdapter[CancelIn] = TypeAdapter(CancelIn)
FAST: TypeAdapter[FastIn] = TypeAdapter(FastIn)


# Query parameters -------------------------------------------------------------------


class QueryModel(BaseModel):
    """Query parameters of a request. An unknown one is refused, as it may be a misspelt filter."""

    model_config = ConfigDict(extra="forbid")


class NoQuery(QueryModel):
    """No parameters."""


class JobsQuery(QueryModel):
    """Filters and paging of jobs."""

    state: list[JobState] = Field([], max_length=20, description="In one of these states.")
    user: Account = Field("", description="Of this user.")
    tenant: Account = Field("", description="Of this tenant.")
    name: Name = Field("", description="Its name contains this, ignoring case.")
    array: int = Field(0, ge=0, le=MOST_ID, description="Tasks of the array with this id.")
    since: float = Field(
        0, ge=0, le=1e11, description="Submitted at this time or later, in seconds since 1970."
    )
    until: float = Field(0, ge=0, le=1e11, description="Submitted before this time; 0 = now.")
    limit: int = Field(100, ge=1, le=1000, description="Jobs per page.")
    cursor: str = Field(
        "", max_length=16, pattern=r"^[0-9]*$", description="`next` of the previous page."
    )


class ActiveQuery(QueryModel):
    """Filters and paging of active jobs."""

    state: list[Literal[JobState.PENDING, JobState.RUNNING, JobState.COMPLETING]] = Field(
        [], max_length=3, description="In one of these states."
    )
    user: Account | None = Field(None, description="Of exactly this user.")
    tenant: Account | None = Field(None, description="Of exactly this account.")
    name: Name | None = Field(None, description="With exactly this name.")
    limit: int = Field(1000, ge=1, le=10_000, description="Jobs per page.")
    cursor: str = Field(
        "",
        max_length=120,
        pattern=r"^([0-9]{1,19}_[01]_-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
        r"_[0-9]{1,19}_[0-9]{1,19})?$",
        description="`next` of the previous page.",
    )


class EventsQuery(QueryModel):
    """Filters of events, and whether to stream new ones."""

    after: int | None = Field(
        None, ge=0, le=MOST_ID,
        description="Only newer than this number. Default: 0 for a list, the newest for a stream.",
    )  # fmt: skip
    limit: int = Field(1000, ge=1, le=10_000, description="Maximum number of events in a list.")
    kind: list[Annotated[str, StringConstraints(max_length=32, pattern=r"^[a-z_]+$")]] = Field(
        [], max_length=20, description="Of one of these kinds."
    )
    job: int = Field(0, ge=0, le=MOST_ID, description="About this job; 0 = all.")
    follow: bool = Field(False, description="Stream, as `text/event-stream`.")


class DecisionsQuery(QueryModel):
    """Filters of decisions."""

    after: int = Field(0, ge=0, le=MOST_ID, description="Only newer than this number.")
    limit: int = Field(100, ge=1, le=1000)


class LogsQuery(QueryModel):
    """Selects a part of a job's log."""

    attempt: int = Field(0, ge=0, le=2**31 - 1, description="0 = the last one.")
    tail: int | None = Field(None, ge=0, le=1_000_000, description="Only this many last lines.")
    follow: bool = Field(False, description="Stream until the job ends, as `text/event-stream`.")
    stream: Literal["stdout", "stderr"] = Field(
        "stdout", description="Both are in one file unless the job set `stderr`."
    )


class SeriesQuery(QueryModel):
    """Selects a series and its length."""

    name: str = Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
    seconds: float = Field(3600.0, gt=0, le=31_536_000.0, description="How far back.")
    smooth: Literal["none", "median", "mean", "exponential"] = Field(
        "none", description="Median or mean over `window_s`, or exponential with that half-life."
    )
    window_s: float = Field(1.0, ge=0.01, le=3600.0, description="Window of `smooth`.")
    features: bool = Field(
        False, description="Also mean, deviation, 95 % quantile, slope and burst over 1, 10, 60 s."
    )


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON schema of a body."""
    return adapter.json_schema(ref_template="#/components/schemas/{model}")
