"""Checks the plans of policies: what is not a plan, and why an action cannot be carried out.

Compiled code does not check indices, so a plan from outside is checked before it gets there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Status
from flyball.core.errors import FlyballError
from flyball.core.records import ACTION, Records
from flyball.core.state import State

HOW = "make it with flyball.starts(state, [(job, node, devices), ...]); [] starts nothing"
OF_NODES = (ActionKind.START, ActionKind.SLEEP, ActionKind.WAKE)
OF_JOBS = (
    *(ActionKind.START, ActionKind.PREEMPT, ActionKind.CAP),
    *(ActionKind.RELEASE, ActionKind.DEFER),
)


class BadPlan(FlyballError):
    """Raised when a policy's plan cannot be carried out."""


def as_plan(plan: object, state: State) -> Records:
    """Return what a policy decided as records of `ACTION`.

    Raises:
        BadPlan: it is no plan, or names jobs or nodes that do not exist.
    """
    if not isinstance(plan, np.ndarray) or plan.dtype.names != ACTION.names or plan.ndim != 1:
        raise BadPlan(f"the policy returned {_kind_of(plan)}, not a plan", HOW)
    if len(plan) > len(state.plan):
        raise BadPlan(
            f"the plan has {len(plan):,} actions, more than the {len(state.plan):,} possible",
            "start a job once, with one row per node",
        )
    kinds = plan["kind"]
    _check_range(plan["kind"], len(ActionKind), "kind of action", np.ones(len(plan), bool))
    _check_range(plan["job"], len(state.jobs), "job", np.isin(kinds, OF_JOBS))
    _check_range(plan["node"], len(state.nodes), "node", np.isin(kinds, OF_NODES))
    _check_range(plan["job"], len(state.groups), "service", kinds == ActionKind.REPLICAS)
    records: Records = plan if isinstance(plan, np.recarray) else plan.view(np.recarray)
    return records


def _kind_of(plan: object) -> str:
    if plan is None:
        return "None"
    if isinstance(plan, np.ndarray):
        return f"an array of {plan.dtype} with shape {plan.shape}"[:120]
    name = type(plan).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _check_range(column: Any, count: int, noun: str, rows: Any) -> None:
    """Check that the chosen rows of a column are numbers from 0 up to `count`."""
    wrong = np.flatnonzero(rows & ((column < 0) | (column >= count)))
    if len(wrong):
        at = int(wrong[0])
        there = f"they are 0 to {count - 1:,}" if count else "there are none"
        raise BadPlan(
            f"action {at} of the plan names {noun} {int(column[at])}",
            f"{there} (the rows of the state's arrays)",
        )


def broken_action(state: State, plan: Records, at: int) -> BadPlan:
    """Return the error for an action that could not be carried out, with the reason.

    Args:
        state: as the actions before it left it.
        plan: the plan.
        at: index of the action.
    """
    action = plan[at]
    reason = _start_fault(state, plan, at) if action.kind == ActionKind.START else ""
    where = f"job {action.job}, node {action.node}" + (f": {reason}" if reason else "")
    return BadPlan(
        f"action {at} of the plan ({where}) cannot be carried out",
        "a start must name a pending job and exactly the free devices it asks for, "
        "a preemption a running job",
    )


def _start_fault(state: State, plan: Records, at: int) -> str:
    """Return why a start is not possible; "" if the reason is none of the common ones."""
    job_id = int(plan[at].job)
    job, status = state.jobs[job_id], Status(int(state.runs[job_id].status))
    if status not in (Status.PENDING, Status.RUNNING) or state.runs[job_id].first_row >= 0:
        return f"the job is {status.name.lower()}"
    rows = []
    while at < len(plan) and plan[at].kind == ActionKind.START and int(plan[at].job) == job_id:
        rows.append(plan[at])
        at += 1
    given = sum(int(row.mask).bit_count() for row in rows)
    if given != int(job.devices):
        return f"the job asks for {int(job.devices)} devices, the plan gives it {given}"
    for row in rows:
        node = state.nodes[int(row.node)]
        if node.down:
            return f"node {int(row.node)} is down"
        if not int(state.shapes[int(job.shape_id)].pools) >> int(node.pool) & 1:
            return f"the job cannot run on devices of node {int(row.node)}"
        taken = int(row.mask) & ~(int(node.free_mask) | int(node.open_mask))
        if taken:
            busy = [bit for bit in range(64) if taken >> bit & 1]
            return f"devices {busy} of node {int(row.node)} are not free"
    return ""
