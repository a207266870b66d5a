"""Exports a journal's jobs as a workload: a cluster's history, to be replayed and learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flyball.control.jobs.request import Demand, DeviceRequest, demand_in
from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.events import Opened
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.units import MILLI_PER_DEVICE, to_s, to_us
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.twin.inputs.traces.job_rows import monday_before

OUTCOMES = {JobState.COMPLETED: Outcome.COMPLETED, JobState.CANCELLED: Outcome.CANCELLED}
"""Outcome of each final state; any other is a failure. A replay derives timeouts from the limit."""


def to_workload(
    jobs: Iterable[Job],
    device: str,
    asks: Callable[[JobSpec], DeviceRequest],
    notes: list[str],
) -> Workload:
    """Return the jobs that ran and ended, by submission; times count from a Monday's midnight.

    The run time of a preempted job is the sum over its attempts: it continued from its checkpoint.
    That of a job whose earlier attempts were lost is that of its last attempt.

    Args:
        jobs: in any order.
        device: the type of device they ran on, a name in the catalogue.
        asks: translates a spec for that cluster (`Demand.of`).
        notes: receives a line for each reason to leave something out, with how many.

    Raises:
        BadInput: none of them ran and ended.
    """
    all_jobs = sorted(jobs, key=lambda job: (job.submit_us, job.id))
    ran = [job for job in all_jobs if job.state.final and job.first_start_us]
    active = sum(not job.state.final for job in all_jobs)
    _note(notes, active, "jobs left out: not ended")
    _note(notes, len(all_jobs) - len(ran) - active, "jobs left out: ended before they started")
    if not ran:
        raise BadInput("the journal has no job that ran and ended", "wait until one has")
    place = {job.id: at for at, job in enumerate(ran)}
    waits = [(place[job.id], on) for job in ran for _how, on in job.spec.after]
    pairs = [(job, place[on]) for job, on in waits if on in place]
    _note(notes, len(waits) - len(pairs), "waits on jobs left out dropped")
    after_job, after_on = np.array(pairs, np.int64).reshape(-1, 2).T
    monday_us = to_us(monday_before(to_s(ran[0].submit_us)))
    specs = [job.spec for job in ran]
    requests = [asks(spec) for spec in specs]
    limits = {spec.array: spec.array_limit for spec in specs if spec.array and spec.array_limit}
    groups = {array: at for at, array in enumerate(limits)}
    stated_us = [to_us(spec.estimate_s) if spec.estimate_s else np.nan for spec in specs]
    columns: dict[str, Any] = {
        "ids": [job.label for job in ran],
        "submit_us": [job.submit_us - monday_us for job in ran],
        "duration_us": [ran_us(job, ask) for job, ask in zip(ran, requests, strict=True)],
        "milli": [ask.milli for ask in requests],
        "cpu_milli": [ask.cpu_milli for ask in requests],
        "host_mib": [ask.host_mib for ask in requests],
        "priority": [spec.priority for spec in specs],
        "estimate_us": stated_us,
        "limit_us": [to_us(spec.limit_s) for spec in specs],
        "outcome": [OUTCOMES.get(job.state, Outcome.FAILED) for job in ran],
        "kind": [_class_of(spec.kind) for spec in specs],
        "group": [groups.get(spec.array, NOT_STATED) for spec in specs],
        "group_limits": tuple(limits.values()),
        "device": 0,
        "device_names": (device,),
        "start_us": [job.first_start_us - monday_us for job in ran],
        "end_us": [job.end_us - monday_us for job in ran],
        "after_job": after_job,
        "after_on": after_on,
    }
    for name, names in (("model", "models"), ("tenant", "tenants"), ("user", "users")):
        columns[name], columns[names] = _coded([getattr(spec, name) for spec in specs])
    return Workload.of(
        "journal", np.zeros(len(ran)), 0.0, [ask.devices for ask in requests], **columns
    )


def ran_us(job: Job, ask: DeviceRequest) -> float:
    """Return how long an ended job took, on the devices it asks for."""
    share = ask.devices * ask.milli / MILLI_PER_DEVICE
    if job.preemptions and share:
        return job.service_us / share
    return float(max(0, job.end_us - (job.started_us or job.since_us)))


def demand_of(opened: Opened) -> Demand:
    """Return the translation of requests for the nodes of an `opened` event.

    Raises:
        BadInput: the event is damaged.
    """
    return demand_in(opened)


def _class_of(label: str) -> int:
    return CLASS_LABELS.index(label) if label in CLASS_LABELS else NOT_STATED


def _coded(names: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return names as codes and the names by code; "" has no code."""
    codes = {name: at for at, name in enumerate(dict.fromkeys(name for name in names if name))}
    return [codes.get(name, NOT_STATED) for name in names], tuple(codes)


def _note(notes: list[str], count: int, what: str) -> None:
    if count:
        notes.append(f"{count:,} {what}")
