"""A journal's jobs as a workload: a cluster's own history, to be replayed and learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flyball.control.jobs.request import Asks, Demand, nodes_of
from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import Event
from flyball.core.units import MILLI_PER_DEVICE, to_s, to_us
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.twin.inputs.traces.job_rows import monday_before

OUTCOMES = {JobState.COMPLETED: Outcome.COMPLETED, JobState.CANCELLED: Outcome.CANCELLED}
"""Every other end is a failure; one by the limit is found again by a replay, from the limit."""


def to_workload(
    jobs: Iterable[Job],
    device: str,
    asks: Callable[[JobSpec], Asks],
    notes: list[str],
) -> Workload:
    """The jobs that ran and ended, by their submission; times count from a Monday's midnight.

    The run time of a job that was set aside is the sum over its attempts: it went on from its
    checkpoint. That of a job whose earlier attempts were lost is that of its last one.

    Args:
        jobs: in any order.
        device: the type of device they ran on, a name in the catalogue.
        asks: what a spec comes to on that cluster (`Demand.of`).
        notes: gets a line for whatever is left out, with how many.

    Raises:
        BadInput: none of them ran and ended.
    """
    every = sorted(jobs, key=lambda job: (job.submit_us, job.id))
    ran = [job for job in every if job.state.final and job.first_start_us]
    active = sum(not job.state.final for job in every)
    _note(notes, active, "jobs left out: not ended")
    _note(notes, len(every) - len(ran) - active, "jobs left out: ended before they started")
    if not ran:
        raise BadInput("the journal has no job that ran and ended", "wait until one has")
    place = {job.id: at for at, job in enumerate(ran)}
    waits = [(place[job.id], on) for job in ran for _how, on in job.spec.after]
    pairs = [(job, place[on]) for job, on in waits if on in place]
    _note(notes, len(waits) - len(pairs), "waits on jobs left out dropped")
    after_job, after_on = np.array(pairs, np.int64).reshape(-1, 2).T
    monday_us = to_us(monday_before(to_s(ran[0].submit_us)))
    specs = [job.spec for job in ran]
    wanted = [asks(spec) for spec in specs]
    limits = {spec.array: spec.array_limit for spec in specs if spec.array and spec.array_limit}
    groups = {array: at for at, array in enumerate(limits)}
    stated_us = [to_us(spec.estimate_s) if spec.estimate_s else np.nan for spec in specs]
    columns: dict[str, Any] = {
        "ids": [job.label for job in ran],
        "submit_us": [job.submit_us - monday_us for job in ran],
        "duration_us": [ran_us(job, ask) for job, ask in zip(ran, wanted, strict=True)],
        "milli": [ask.milli for ask in wanted],
        "cpu_milli": [ask.cpu_milli for ask in wanted],
        "host_mib": [ask.host_mib for ask in wanted],
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
        "journal", np.zeros(len(ran)), 0.0, [ask.devices for ask in wanted], **columns
    )


def ran_us(job: Job, ask: Asks) -> float:
    """How long a job that ended took, on the devices it asks for."""
    share = ask.devices * ask.milli / MILLI_PER_DEVICE
    if job.preemptions and share:
        return job.service_us / share
    return float(max(0, job.end_us - (job.started_us or job.since_us)))


def demand_of(opened: Event | None) -> Demand:
    """What requests came to on the nodes of a control plane that began.

    Raises:
        BadInput: none ever did.
    """
    return Demand(nodes_of(opened))


def _class_of(label: str) -> int:
    return CLASS_LABELS.index(label) if label in CLASS_LABELS else NOT_STATED


def _coded(names: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Names as numbers, "" = not stated."""
    codes = {name: at for at, name in enumerate(dict.fromkeys(each for each in names if each))}
    return [codes.get(name, NOT_STATED) for name in names], tuple(codes)


def _note(notes: list[str], count: int, what: str) -> None:
    if count:
        notes.append(f"{count:,} {what}")
