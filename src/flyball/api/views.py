"""What the API answers, for the schema. Answers are not checked against these at run time: the
tests do that, so that serving costs nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flyball.core.jobs import JobState


class View(BaseModel):
    """More may be added to any answer; clients pass over what they do not know."""

    model_config = ConfigDict(extra="allow")


class JobView(View):
    """A job. Times are seconds since 1970, null = not yet."""

    id: int
    label: str = Field(description="As people write it: `12`, or `12_3` for a task of an array.")
    name: str
    state: JobState
    reason: str | None = Field(description="Why it waits, or why it ended so.")
    attempts: int = Field(description="How often it was started.")
    submit_time: float
    start_time: float | None
    end_time: float | None
    exit_code: int | None
    user: str
    tenant: str
    cpus: int
    gpus: int
    unit: str = Field(
        "device",
        description="What its devices are: `core`, `GPU`, or `device` where one stands for several "
        "cores.",
    )
    memory_mib: int
    node: Any = Field(description="Where it runs, null = nowhere.")
    array_id: int | None
    spec: dict[str, Any] = Field(description="What was asked for.")
    elastic: list[int] | None = Field(
        None, description="Fewest and most cores or GPUs; null = rigid."
    )
    tuning: dict[str, Any] | None = Field(
        None,
        description="Cores or GPUs and share it has now, the part of a step that these share as "
        "far as it was measured, and the log of changes; null = none yet.",
    )
    held: dict[str, Any] | None = Field(
        None,
        description="Why it may not start yet: `by` (who holds it, null = nobody) and `begin_time` "
        "(null = at once); null = it may.",
    )
    notify: list[dict[str, Any]] | None = Field(
        None,
        description="Who is told of its end: `to`, `ok` (null = not told yet), `message` and "
        "`time`; null = nobody.",
    )


class Submitted(View):
    """Accepted, and durable."""

    id: int = Field(description="The job, or the first of them.")
    ids: list[int] = Field(description="All of them, in the order of the request.")


class Cancelled(View):
    """Told to stop; jobs that had ended already are not in it."""

    ids: list[int]


class Held(View):
    """Held or released; jobs that are not concerned are not in it."""

    ids: list[int]


class Ordered(View):
    """Taken, and durable; what the job is to have from now on."""

    id: int


class ListedJob(JobView):
    """A job in a list, with the reason for which it waits."""

    token: str | None = Field(
        description="Why it waits, in a word as `/jobs/ID/why` has it; null = it does not."
    )


class JobPage(View):
    """A page of jobs, the newest first."""

    jobs: list[ListedJob]
    next: str | None = Field(description="`cursor` of the next page; null: this is the last.")


class Queue(View):
    """A page of the active jobs: what runs, then what waits, by priority and submission."""

    jobs: list[ListedJob]
    total: int = Field(description="How many were asked for, on this page or not.")
    pending: int = Field(description="How many of these wait.")
    next: str | None = Field(description="`cursor` of the next page; null: this is the last.")


class Nodes(View):
    """The nodes."""

    nodes: list[dict[str, Any]]


class Decisions(View):
    """Decisions, the oldest first."""

    decisions: list[dict[str, Any]]


class EventRow(View):
    """One event; `docs/concept/control.md` lists the kinds."""

    seq: int
    kind: str


class Events(View):
    """Events, the oldest first."""

    events: list[EventRow]


class Progress(View):
    """What the job last said of itself."""

    job: int
    values: dict[str, Any]


class StartRow(View):
    """When a pending job is expected to start, in seconds from now."""

    id: int
    p50_s: float = Field(description="Half of such jobs start within this.")
    p90_s: float = Field(description="Nine of ten do.")
    method: str = Field(description="Where the run times come from.")


class LoadRow(View):
    """One series ahead; the lists go together."""

    series: str = Field(description="`arrivals`, `running`, `pending` or `utilisation`.")
    unit: str
    time: float = Field(description="Seconds since 1970: the end of what is known.")
    ahead_s: list[float]
    mean: list[float]
    p05: list[float]
    p50: list[float]
    p95: list[float]


class Forecast(View):
    """What is expected, and how good such forecasts have been."""

    starts: list[StartRow]
    note: str = Field(description="Whether jobs that are still to come are reckoned with.")
    loads: list[LoadRow] = Field(description="Empty while nothing is learnt beside.")
    predictions: dict[str, Any] = Field(
        description="By `loads`, `run_times`, `starts`: model in use, errors, coverage; `worker`."
    )


class SeriesView(View):
    """One series; the lists go together."""

    name: str
    times: list[float] = Field(description="Seconds since 1970.")
    values: list[float | None]
    features: list[dict[str, Any]] = Field([], description="One for each window, if asked for.")


class SensorRow(View):
    """One collector."""

    name: str
    family: str
    period_s: float | None = Field(description="How often it is read; null = never.")
    kind: str = Field(description="`measured`, `modelled`, or `absent`.")
    absent: str = Field(description="Why there is none here, else empty.")
    source: str
    failures: int = Field(description="How often it raised.")
    error: str = Field(description="The last failure, in words.")
    took_us: int | None = Field(description="The last reading.")


class Sensors(View):
    """The monitoring agent and its collectors."""

    alive: bool = Field(description="Whether it published within the last 10 s.")
    age_s: float | None = Field(description="Since it last did; null = never.")
    fast: bool
    lost: int = Field(description="How often samples could not be written.")
    store_failures: int = Field(description="How often keeping house failed.")
    sensors: list[SensorRow]


class Fast(View):
    """How long the fastest rates last."""

    seconds: float


class Health(View):
    """Whether the control plane works."""

    ok: bool
    checks: dict[str, Any] = Field({}, description="Only for those with the token.")
