"""Models of the API's responses, for the schema. Responses are not validated against them at run
time: the tests do that, so that serving costs nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flyball.core.jobs import JobState


class View(BaseModel):
    """Any response may gain fields; clients ignore those they do not know."""

    model_config = ConfigDict(extra="allow")


class JobView(View):
    """A job. Times are in seconds since 1970; null = not yet."""

    id: int
    label: str = Field(description="Id for people: `12`, or `12_3` for a task of an array.")
    name: str
    state: JobState
    reason: str | None = Field(description="Why it waits, or why it ended.")
    attempts: int = Field(description="Number of starts.")
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
        description="Kind of its devices: `core`, `GPU`, or `device` for a group of cores.",
    )
    memory_mib: int
    node: Any = Field(description="Where it runs; null = nowhere.")
    array_id: int | None
    spec: dict[str, Any] = Field(description="The job as submitted.")
    elastic: list[int] | None = Field(
        None, description="Fewest and most cores or GPUs; null = rigid."
    )
    tuning: dict[str, Any] | None = Field(
        None,
        description="Its current cores or GPUs and share, the measured part of a step that "
        "scales with them, and the log of changes; null = none yet.",
    )
    class_: dict[str, Any] | None = Field(
        None,
        alias="class",
        description="Its workload class: `name`, whether it was `named` by its user, else the "
        "`reason` and `confidence` with which it was classified, the `pathway` of the class, "
        "whether the job `follows` it, and the `settings` that come with it.",
    )
    held: dict[str, Any] | None = Field(
        None,
        description="Why it may not start yet: `by` (the user who holds it, null = none) and "
        "`begin_time` (null = none); null = it may start.",
    )
    notify: list[dict[str, Any]] | None = Field(
        None,
        description="Notifications of its end: `to`, `ok` (null = not sent yet), `message` and "
        "`time`; null = none.",
    )


class NoteRow(View):
    """A field that was stated and has no effect here."""

    field: str
    why: str = Field(description="Why it has none, or what to use instead.")
    jobs: int = Field(description="Number of jobs of the request that state it.")


class Submitted(View):
    """Jobs that were accepted and are durable."""

    id: int = Field(description="The job, or the first of them.")
    ids: list[int] = Field(description="All of them, in the order of the request.")
    notes: list[NoteRow] = Field([], description="What was stated and has no effect here.")


class WhoAmI(View):
    """The holder of the token."""

    name: str = Field(description="User name; the owner of the state folder has its login name.")
    role: str = Field(description="`viewer`, `user` or `operator`.")
    rights: list[str] = Field(
        description="`read`; `submit` jobs; `change` one's own; `operate`: change all."
    )
    is_owner: bool = Field(description="It is the state folder's own token.")


class AttemptOrders(View):
    """The orders to a running attempt."""

    job: int
    attempt: int
    sequence: int = Field(description="Number of the last order, 0 = none yet.")
    stopping: str | None = Field(description="`cancel` or `preempt`; null = it may go on.")
    orders: dict[str, Any] = Field(
        description="The last `resize` (`devices`), `cap` (`share`) and `checkpoint`, each with "
        "its `sequence`."
    )


class Cancelled(View):
    """Jobs that were told to stop, without those that had already ended."""

    ids: list[int]


class Held(View):
    """Jobs that were held or released, without those that this does not concern."""

    ids: list[int]


class NodeOrdered(View):
    """A node that was drained or resumed; the order is durable."""

    name: str
    drained: bool


class Ordered(View):
    """The order is durable; the fields are what the job is to have from now on."""

    id: int


class ListedJob(JobView):
    """A job in a list, with the reason why it waits."""

    token: str | None = Field(
        description="Reason why it waits, as in `/jobs/ID/why`; null = it does not wait."
    )


class JobPage(View):
    """A page of jobs, newest first."""

    jobs: list[ListedJob]
    next: str | None = Field(description="`cursor` of the next page; null = this is the last.")


class Queue(View):
    """A page of the active jobs: running ones, then waiting ones by priority and submission."""

    jobs: list[ListedJob]
    total: int = Field(description="Number of jobs that match, on all pages.")
    pending: int = Field(description="Number of these that wait.")
    next: str | None = Field(description="`cursor` of the next page; null = this is the last.")


class BriefQueue(View):
    """All active jobs in short: running ones, then waiting ones by priority and submission."""

    seq: int = Field(description="Number of the newest event that it includes.")
    columns: list[str] = Field(description="Names of the fields of a row.")
    rows: list[list[Any]] = Field(description="A row per job; times in seconds since 1970.")


class Nodes(View):
    """The nodes."""

    nodes: list[dict[str, Any]]


class Signals(View):
    """The present price and carbon intensity; what the cluster has not is left out."""

    price_per_kwh: float | None = None
    currency: str | None = None
    price_source: str | None = None
    carbon_g_per_kwh: float | None = None
    carbon_source: str | None = None


class Today(View):
    """Energy since midnight UTC, and the budgets."""

    since: float = Field(description="Midnight UTC, or the begin of the record; since 1970.")
    jobs_j: float = Field(description="Energy of jobs, as far as it lies in the day.")
    measured_j: float = Field(description="The part of it that was measured; the rest is modelled.")
    idle_j: float = Field(description="What devices without a job drew, by their type.")
    cost: float = Field(description="Of jobs, in `currency`.")
    carbon_g: float = Field(description="Of jobs.")
    complete: bool = Field(description="Whether all jobs of the day are in it.")
    currency: str
    budget: dict[str, float] | None = Field(
        description="Budgets (`power_w`, `money_per_day`, `carbon_kg_per_day`; 0 = none), what was "
        "spent (`money_spent`, `carbon_g_spent`), `drawn_w` as modelled and the limit in force "
        "(`limit_w`); null = there is no budget."
    )


class Decisions(View):
    """Decisions, oldest first."""

    decisions: list[dict[str, Any]]


class HistoryView(View):
    """What ran where within a span."""

    nodes: list[dict[str, Any]]
    columns: list[str] = Field([], description="Names of the fields of a bar.")
    bars: list[list[Any]] = Field(
        [], description="A bar per attempt, node and run of neighbouring devices; times in seconds "
        "since 1970.",
    )  # fmt: skip
    by: dict[str, list[dict[str, Any]]] = Field(
        {}, description="Jobs, mean wait, device-hours, energy, cost and carbon by `user`, "
        "`account` and `class`; of whole jobs, modelled where they were not recorded.",
    )  # fmt: skip
    series: dict[str, Any] = Field(
        {}, description="The same over time: `edges` of equal parts of the span, and for each name "
        "devices `held` and jobs `waiting` (averages), `energy_j`, `cost`, `carbon_g` (sums).",
    )  # fmt: skip
    jobs: int
    complete: bool = Field(description="Whether all jobs that ended in the span are in it.")
    currency: str


class EventRow(View):
    """One event; `docs/reference/journal.md` lists the kinds."""

    seq: int
    kind: str


class Events(View):
    """Events, oldest first."""

    events: list[EventRow]


class Progress(View):
    """The values that the job last reported."""

    job: int
    values: dict[str, Any]


class StartRow(View):
    """When a pending job is expected to start, in seconds from now."""

    id: int
    p50_s: float = Field(description="Median: half of such jobs start within this time.")
    p90_s: float = Field(description="90 % quantile: nine of ten start within this time.")
    method: str = Field(description="Source of the run times.")


class LoadRow(View):
    """The forecast of one series."""

    series: str = Field(description="`arrivals`, `running`, `pending` or `utilisation`.")
    unit: str
    time: float = Field(description="Seconds since 1970: the last observation.")
    ahead_s: list[float]
    mean: list[float]
    p05: list[float]
    p50: list[float]
    p95: list[float]
    step_s: float = Field(0.0, description="Between two of `seen`; the last one is at `time`.")
    seen: list[float | None] = Field([], description="What happened; null = not observed.")
    earlier: list[dict[str, Any]] = Field(
        [], description="Earlier forecasts, the oldest first: `time`, `ahead_s`, `p05` to `p95`."
    )


class Forecast(View):
    """Forecasts, and how accurate they have been."""

    starts: list[StartRow]
    note: str = Field(description="Whether jobs that are not submitted yet are considered.")
    left_out: list[str] = Field(
        [], description="What tuners asked for and this system cannot do, a sentence each."
    )
    learned: dict[str, Any] | None = Field(
        None,
        description="The learned policy: its `hash`, its `last` choice with what moved it, and "
        "`fallbacks` to the incumbent by reason; null = the cluster follows none.",
    )
    loads: list[LoadRow] = Field(description="Empty while no worker learns.")
    predictions: dict[str, Any] = Field(
        description="By `loads`, `run_times`, `starts`: model in use, errors, coverage; `worker`."
    )


class SeriesView(View):
    """One series; both lists have the same length."""

    name: str
    times: list[float] = Field(description="Seconds since 1970.")
    values: list[float | None]
    features: list[dict[str, Any]] = Field([], description="One per window, if requested.")


class SensorRow(View):
    """The state of one collector."""

    name: str
    family: str
    period_s: float | None = Field(description="How often it is read; null = never.")
    kind: str = Field(description="`measured`, `modelled`, or `absent`.")
    absent: str = Field(description="Why this machine has none, else empty.")
    source: str
    failures: int = Field(description="Number of failures.")
    error: str = Field(description="Message of the last failure.")
    took_us: int | None = Field(description="Duration of the last read.")


class Sensors(View):
    """The state of the monitoring agent and of its collectors."""

    alive: bool = Field(description="Whether it published within the last 10 s.")
    age_s: float | None = Field(description="Time since it last published; null = never.")
    fast: bool
    lost: int = Field(description="How often samples could not be written.")
    store_failures: int = Field(description="How often maintaining the store failed.")
    sensors: list[SensorRow]


class Fast(View):
    """How long the fastest rates are used."""

    seconds: float


class Link(View):
    """A link that opens the dashboard once."""

    path: str = Field(description="Path and query, to be put behind the server's address.")
    expires: float = Field(description="Seconds since 1970.")


class Health(View):
    """Whether the control plane works."""

    ok: bool
    checks: dict[str, Any] = Field({}, description="Only in responses to requests with the token.")
