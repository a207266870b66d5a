"""What the API takes: every value typed, bounded and clean before anything else sees it.

A job arrives as a plain mapping (`JobIn`), not as a model object: a batch of ten thousand is
checked by one call into compiled code.
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
"""Beyond this, programs that know only doubles would confuse two jobs."""
MOST_TASKS = 10_000
"""Tasks of an array, and jobs of a batch."""

# Words for people and folders: no control characters, which could forge lines on a terminal.
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
# Arguments may hold lines and tabs (`sh -c "..."`), but nothing that steers a terminal.
TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
ABSOLUTE = r"^/[^\x00-\x1f\x7f-\x9f]*$"
MOST_TEXT = 131_071
"""Bytes of one argument or variable that Linux takes."""

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
    """A job as it is submitted. Only `argv` is required."""

    argv: Required[
        Annotated[
            list[Text],
            Field(
                min_length=1,
                max_length=4096,
                description="The command and its arguments; never seen by a shell.",
                json_schema_extra={"prefixItems": [{"type": "string", "minLength": 1}]},
            ),
        ]
    ]
    name: Annotated[Name, Field(description="For people; default: the command's own name.")]
    cwd: Annotated[Folder, Field(description="Absolute; where it runs.")]
    env: Annotated[
        dict[EnvName, Text],
        Field(max_length=1024, description="Added to a small, clean environment."),
    ]
    user: Annotated[Account, Field(description="Who asks.")]
    tenant: Annotated[Account, Field(description="On whose account.")]
    cpus: Annotated[int, Field(ge=1, le=65_536, description="Cores.")]
    gpus: Annotated[Devices, Field(description="Devices; 0 = none.")]
    milli: Annotated[int, Field(ge=1, le=1000, description="Thousandths of each GPU.")]
    memory_mib: Annotated[
        int, Field(ge=0, le=2**31 - 1, description="Host memory, a limit; 0 = not stated.")
    ]
    max_processes: Annotated[
        int,
        Field(
            ge=0,
            le=2**22,
            description="Processes and threads at a time, a limit; 0 = the server's default.",
        ),
    ]
    limit_s: Annotated[Seconds, Field(description="Killed after this long; 0 = never.")]
    estimate_s: Annotated[Seconds, Field(description="What it is expected to take; 0 = unknown.")]
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
    model: Annotated[Name, Field(description="What it trains, if stated.")]
    after: Annotated[
        list[tuple[Literal["afterok", "afterany", "afternotok"], JobNumber]],
        Field(max_length=1000, description="(how, job) pairs it waits for."),
    ]
    requeue: Annotated[bool, Field(description="Run again after its node was lost.")]
    preemptible: Annotated[bool, Field(description="May be set aside.")]
    grace_s: Annotated[
        float, Field(ge=0, le=86_400, allow_inf_nan=False, description="SIGTERM to SIGKILL.")
    ]
    checkpoint_signal: Annotated[
        int, Field(ge=0, le=64, description="Sent before SIGTERM when set aside; 0 = none.")
    ]
    nice: Annotated[int, Field(ge=0, le=19, description="Niceness of its processes.")]
    least: Annotated[
        Devices, Field(description="Fewest cores or GPUs it can go on with; 0 = it is rigid.")
    ]
    most: Annotated[Devices, Field(description="Most cores or GPUs it can go on with.")]
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
            description="It does not start before; seconds since 1970, 0 = at once.",
        ),
    ]
    signal_before_s: Annotated[
        Seconds,
        Field(description="Sends `checkpoint_signal` this long before the limit as well; 0 = not."),
    ]
    signal_children: Annotated[
        bool, Field(description="Sends that to the programs its process started instead.")
    ]
    notify: Annotated[
        list[Text | Annotated[list[Text], Field(min_length=1, max_length=4096)]],
        Field(
            max_length=MAX_TARGETS,
            description="Told of its end: http(s) URLs, which are posted to, and commands, as a "
            "line that is split at spaces and quotes or as a list of words.",
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
    """How far an attempt has come, said by the job itself."""

    attempt: Annotated[int, Field(ge=0, le=2**31 - 1, description="0 or absent: the last one.")]
    values: Required[
        Annotated[
            dict[ValueName, Value],
            Field(min_length=1, max_length=64, description="Names and numbers: step, loss, ..."),
        ]
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="ResizeIn"))
class ResizeIn(TypedDict):
    """Another number of devices."""

    devices: Annotated[int, Field(ge=1, le=65_536, description="Devices, or cores.")]


@with_config(ConfigDict(extra="forbid", strict=True, title="CapIn"))
class CapIn(TypedDict):
    """A cap."""

    share: Annotated[
        float,
        Field(
            ge=0.05,
            le=1,
            allow_inf_nan=False,
            description="Of its cores' time or its GPUs' power; 1 = no cap.",
        ),
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="HoldIn"))
class HoldIn(TypedDict, total=False):
    """Who holds a job."""

    user: Annotated[Account, Field(description="Shown to those who ask why it waits.")]


def _true(value: bool) -> bool:
    """A literal would take 1 as well."""
    if not value:
        raise ValueError("must be true or absent")
    return value


@with_config(
    ConfigDict(
        extra="forbid", strict=True, title="CancelIn", json_schema_extra={"minProperties": 1}
    )
)
class CancelIn(TypedDict, total=False):
    """Which active jobs are to end: those of whom all is true that is said."""

    all: Annotated[
        bool,
        AfterValidator(_true),
        Field(description="Every one, if nothing else is said.", json_schema_extra={"const": True}),
    ]
    user: Annotated[Account, Field(description="Of exactly this user.")]
    name: Annotated[Name, Field(description="With exactly this name.")]


@with_config(ConfigDict(extra="forbid", strict=True, title="FastIn"))
class FastIn(TypedDict):
    """Haste."""

    seconds: Annotated[
        float,
        Field(ge=1, le=3600, allow_inf_nan=False, description="How long from now."),
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


# What queries may say ---------------------------------------------------------------


class Query(BaseModel):
    """Parameters of a request. An unknown one is refused: it is a filter misspelt."""

    model_config = ConfigDict(extra="forbid")


class NoQuery(Query):
    """No parameters."""


class JobsQuery(Query):
    """Which jobs, and how many at a time."""

    state: list[JobState] = Field([], max_length=20, description="In one of these states.")
    user: Account = Field("", description="Of this user.")
    tenant: Account = Field("", description="Of this tenant.")
    name: Name = Field("", description="Its name contains this, whatever the case.")
    array: int = Field(0, ge=0, le=MOST_ID, description="Tasks of the array with this id.")
    since: float = Field(0, ge=0, le=1e11, description="Submitted then or later; since 1970.")
    until: float = Field(0, ge=0, le=1e11, description="Submitted before; 0 = now.")
    limit: int = Field(100, ge=1, le=1000, description="Jobs in a page.")
    cursor: str = Field(
        "", max_length=16, pattern=r"^[0-9]*$", description="`next` of the page before."
    )


class ActiveQuery(Query):
    """Which active jobs, and how many at a time."""

    state: list[Literal[JobState.PENDING, JobState.RUNNING, JobState.COMPLETING]] = Field(
        [], max_length=3, description="In one of these states."
    )
    user: Account | None = Field(None, description="Of exactly this user.")
    tenant: Account | None = Field(None, description="On exactly this account.")
    name: Name | None = Field(None, description="With exactly this name.")
    limit: int = Field(1000, ge=1, le=10_000, description="Jobs in a page.")
    cursor: str = Field(
        "",
        max_length=120,
        pattern=r"^([0-9]{1,19}_[01]_-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
        r"_[0-9]{1,19}_[0-9]{1,19})?$",
        description="`next` of the page before.",
    )


class EventsQuery(Query):
    """Which events, and whether to wait for more."""

    after: int | None = Field(
        None, ge=0, le=MOST_ID,
        description="Newer than this number. Default: 0 for a list, the newest for a stream.",
    )  # fmt: skip
    limit: int = Field(1000, ge=1, le=10_000, description="Events in a list.")
    kind: list[Annotated[str, StringConstraints(max_length=32, pattern=r"^[a-z_]+$")]] = Field(
        [], max_length=20, description="Of one of these kinds."
    )
    job: int = Field(0, ge=0, le=MOST_ID, description="About this job; 0 = all.")
    follow: bool = Field(False, description="Stream, as `text/event-stream`.")


class DecisionsQuery(Query):
    """Which decisions."""

    after: int = Field(0, ge=0, le=MOST_ID, description="Newer than this number.")
    limit: int = Field(100, ge=1, le=1000)


class LogsQuery(Query):
    """Which part of what a job printed."""

    attempt: int = Field(0, ge=0, le=2**31 - 1, description="0 = the last one.")
    tail: int | None = Field(None, ge=0, le=1_000_000, description="Only the last lines.")
    follow: bool = Field(False, description="Stream until the job ends, as `text/event-stream`.")
    stream: Literal["stdout", "stderr"] = Field(
        "stdout", description="Both are in one file unless the job asked for two."
    )


class SeriesQuery(Query):
    """Which series, and how far back."""

    name: str = Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
    seconds: float = Field(3600.0, gt=0, le=31_536_000.0, description="How far back.")
    smooth: Literal["none", "median", "mean", "exponential"] = Field(
        "none", description="Median or mean of the last `window_s`, or half forgotten in it."
    )
    window_s: float = Field(1.0, ge=0.01, le=3600.0, description="Of `smooth`.")
    features: bool = Field(
        False, description="Also mean, deviation, 95 % quantile, slope and burst over 1, 10, 60 s."
    )


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON schema of a body."""
    return adapter.json_schema(ref_template="#/components/schemas/{model}")
