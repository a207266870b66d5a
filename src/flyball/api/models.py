"""The input of the API: every value is typed, bounded and validated before it is used.

`job_model` has the model of a job.
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

from flyball.api.job_model import BatchIn, JobIn, OneIn
from flyball.core.job_fields import ACCOUNT, MAX_DEVICES, MAX_ID, NAME
from flyball.core.job_fields.forms import PLAIN
from flyball.core.jobs import JobState

Name = Annotated[str, StringConstraints(max_length=NAME.most, pattern=PLAIN)]
Account = Annotated[str, StringConstraints(max_length=ACCOUNT.most, pattern=PLAIN)]
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


@with_config(ConfigDict(extra="forbid", strict=True, title="AttemptReportIn"))
class AttemptReportIn(TypedDict):
    """Progress that an attempt reports with its own token."""

    values: Annotated[
        dict[ValueName, Value],
        Field(min_length=1, max_length=64, description="Names and numbers: step, loss, ..."),
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="ResizeIn"))
class ResizeIn(TypedDict):
    """A new number of devices for a job."""

    devices: Annotated[int, Field(ge=1, le=MAX_DEVICES, description="Number of GPUs or cores.")]


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


@with_config(ConfigDict(extra="forbid", strict=True, title="PriorityIn"))
class PriorityIn(TypedDict):
    """Another priority for a job."""

    priority: Annotated[
        float, Field(ge=-1e9, le=1e9, allow_inf_nan=False, description="Higher goes first.")
    ]


@with_config(ConfigDict(extra="forbid", strict=True, title="DrainIn"))
class DrainIn(TypedDict, total=False):
    """Why a node is drained."""

    reason: Annotated[Name, Field(description="Shown with the node.")]


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


@with_config(ConfigDict(extra="forbid", strict=True, title="LinkIn"))
class LinkIn(TypedDict, total=False):
    """A request for a link to the dashboard."""

    read_only: Annotated[bool, Field(description="The browser may look, and change nothing.")]


ONE: TypeAdapter[OneIn] = TypeAdapter(OneIn)
JOB: TypeAdapter[JobIn] = TypeAdapter(JobIn)
BATCH: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
REPORT: TypeAdapter[ReportIn] = TypeAdapter(ReportIn)
ATTEMPT_REPORT: TypeAdapter[AttemptReportIn] = TypeAdapter(AttemptReportIn)
RESIZE: TypeAdapter[ResizeIn] = TypeAdapter(ResizeIn)
CAP: TypeAdapter[CapIn] = TypeAdapter(CapIn)
HOLD: TypeAdapter[HoldIn] = TypeAdapter(HoldIn)
PRIORITY: TypeAdapter[PriorityIn] = TypeAdapter(PriorityIn)
DRAIN: TypeAdapter[DrainIn] = TypeAdapter(DrainIn)
CANCEL: TypeAdapter[CancelIn] = TypeAdapter(CancelIn)
FAST: TypeAdapter[FastIn] = TypeAdapter(FastIn)
LINK: TypeAdapter[LinkIn] = TypeAdapter(LinkIn)


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
    array: int = Field(0, ge=0, le=MAX_ID, description="Tasks of the array with this id.")
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
        None, ge=0, le=MAX_ID,
        description="Only newer than this number. Default: 0 for a list, the newest for a stream.",
    )  # fmt: skip
    limit: int = Field(1000, ge=1, le=10_000, description="Maximum number of events in a list.")
    kind: list[Annotated[str, StringConstraints(max_length=32, pattern=r"^[a-z_]+$")]] = Field(
        [], max_length=20, description="Of one of these kinds."
    )
    job: int = Field(0, ge=0, le=MAX_ID, description="About this job; 0 = all.")
    follow: bool = Field(False, description="Stream, as `text/event-stream`.")


class DecisionsQuery(QueryModel):
    """Filters of decisions."""

    after: int = Field(0, ge=0, le=MAX_ID, description="Only newer than this number.")
    limit: int = Field(100, ge=1, le=1000)
    last: int = Field(0, ge=0, le=1000, description="Instead: this many of the newest.")


class HistoryQuery(QueryModel):
    """A span of the past."""

    since: float = Field(0, ge=0, le=1e11, description="From this time, in seconds since 1970.")
    until: float = Field(0, ge=0, le=1e11, description="Until this time; 0 = now.")
    limit: int = Field(10_000, ge=1, le=50_000, description="Most jobs; the latest are taken.")
    part: Literal["all", "bars", "totals"] = Field(
        "all", description="Only what ran where (`bars`), or what it came to (`totals`)."
    )


class OrdersQuery(QueryModel):
    """Selects new orders, and how long to wait for them."""

    after: int = Field(0, ge=0, le=MAX_ID, description="Wait until there is one above this.")
    wait_s: float = Field(
        0.0, ge=0.0, le=60.0, allow_inf_nan=False,
        description="Answer after this long at the latest; 0 = at once.",
    )  # fmt: skip


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
