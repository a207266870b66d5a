"""Explains waits due to quotas: a limit is reached, or no devices can be taken back."""

from __future__ import annotations

from typing import Any

from flyball.core.accounts import NO_LIMIT_MILLI
from flyball.core.codes import Status
from flyball.core.units import MILLI_PER_DEVICE
from flyball.schedule.explain.answer import Explanation, explanation, request_text, smaller
from flyball.schedule.explain.queue_facts import Account, QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe, Spot
from flyball.schedule.explain.wording import counted


def beyond_limit(facts: QueueFacts, job_id: int, probe: PlacementProbe) -> Explanation | None:
    """Explain that the tenant may not use that much more; None if it may."""
    account = facts.account(job_id)
    if account.used_milli + account.asks_milli <= account.limit_milli:
        return None
    borrow_milli = account.limit_milli - account.quota_milli
    why = (
        f"needs {request_text(facts, job_id)}; {_standing(facts, account)}, and may not borrow more"
    )
    why += f" than {_devices(borrow_milli)}" if borrow_milli else ""
    numbers = _numbers(account)
    lacking = account.used_milli + account.asks_milli - account.limit_milli
    borrow_devices = -(-(borrow_milli + lacking) // MILLI_PER_DEVICE)
    numbers["borrow_at_least"] = borrow_devices
    spot = probe.place()
    then = f": it would fit now {spot.text(facts.state, facts.names)}" if spot is not None else ""
    remedies = [
        f"wait for jobs of {account.name} to end",
        f"let it borrow {counted(borrow_devices, facts.names.unit)}, or raise its quota by "
        f"{-(-lacking // MILLI_PER_DEVICE)}{then}",
        _fewer(facts, job_id, probe, account, numbers),
    ]
    return explanation(facts, job_id, "tenant-limit", why, remedies, **numbers)


def _fewer(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, account: Account, numbers: dict[str, Any]
) -> str:
    """Return the smaller gang that the limit still allows, if it would find a place."""
    left_milli = account.limit_milli - account.used_milli
    count = left_milli // int(facts.state.jobs[job_id].milli)
    spot = probe.place(devices=count) if count > 0 else None
    if spot is None:
        return ""
    numbers["devices_at_most"] = count
    return (
        f"ask for {counted(count, facts.names.unit)}: with the same estimate it would start now "
        f"{spot.text(facts.state, facts.names)}"
    )


def after_others(facts: QueueFacts, job_id: int, spot: Spot) -> Explanation:
    """Explain that the job fits, but others come first in the next decision."""
    account = facts.account(job_id)
    why = (
        f"would fit now {spot.text(facts.state, facts.names)}, where a job was set aside, but jobs "
        f"before it will take that room: it is number {facts.place_of(job_id):,} in the queue, and "
        f"{_standing(facts, account)}"
    )
    return explanation(
        facts, job_id, "after-others", why, ["wait for running jobs to end"], **_numbers(account)
    )


def nothing_to_take_back(
    facts: QueueFacts, job_id: int, probe: PlacementProbe, room: Explanation
) -> Explanation:
    """Explain that there is no room (`room` has the reason) and that rounds make none."""
    account = facts.account(job_id)
    lacks = f"{room.sentence.rstrip('.')}; {_standing(facts, account)}"
    numbers = {**room.numbers, **_numbers(account)}
    for name in ("devices", "share", "place", "queue", "preemptions"):
        numbers.pop(name, None)  # `explanation` adds them
    remedies = ["wait for running jobs to end", smaller(facts, job_id, probe)]
    if account.borrows:
        asks = f"with the {_devices(account.asks_milli)} of this job it would be beyond it"
        idle = f"it may have idle {facts.names.units}, but none are taken back for it"
        why = f"{lacks}, and {asks}: {idle}"
        remedies.insert(1, _within(facts, account, numbers))
        return explanation(facts, job_id, "beyond-quota", why, remedies, **numbers)
    borrowed, holders = _borrowed(facts, job_id)
    numbers["borrowed"] = borrowed
    what = f"no job holds borrowed {facts.names.units} there"
    if borrowed:
        what = (
            f"the {counted(borrowed, facts.names.unit)} borrowed by {counted(holders, 'job')} "
            "there would not make enough room for it"
        )
    return explanation(
        facts, job_id, "nothing-to-take-back", f"{lacks}, but {what}", remedies, **numbers
    )


def _within(facts: QueueFacts, account: Account, numbers: dict[str, Any]) -> str:
    """Return what would bring a job that borrows within the quota."""
    if account.asks_milli > account.quota_milli:
        numbers["quota_at_least"] = -(-account.asks_milli // MILLI_PER_DEVICE)
        return f"give {account.name} a quota of {numbers['quota_at_least']} or more"
    most_milli = account.quota_milli - account.asks_milli
    numbers["tenant_used_at_most"] = most_milli / MILLI_PER_DEVICE
    return (
        f"wait until {account.name} uses {_devices(most_milli)} or less: {facts.names.units} that "
        "others borrowed are then taken back for it"
    )


def _borrowed(facts: QueueFacts, job_id: int) -> tuple[int, int]:
    """Return the borrowed devices in the pools of a job, and how many jobs hold them."""
    state, pools = facts.state, facts.pools_of(job_id)
    running = (state.runs.status == Status.RUNNING).nonzero()[0]
    up_to: dict[int, int] = {}
    milli = holders = 0
    number = state.memos.start_number
    for other in sorted(running.tolist(), key=lambda at: (int(number[at]), at)):
        job = state.jobs[other]
        tenant = int(job.tenant)
        asks = int(job.devices) * int(job.milli)
        up_to[tenant] = up_to.get(tenant, 0) + asks
        if up_to[tenant] > facts.tenants.quota_milli[tenant] and state.runs[other].pool in pools:
            milli, holders = milli + asks, holders + 1
    return -(-milli // MILLI_PER_DEVICE), holders


def _standing(facts: QueueFacts, account: Account) -> str:
    used, quota = _devices(account.used_milli), _devices(account.quota_milli)
    uses = f"tenant {account.name} uses {used}"
    if account.used_milli <= account.quota_milli:
        return f"{uses} of its quota of {quota} {facts.names.units}"
    beyond = _devices(account.used_milli - account.quota_milli)
    return f"{uses} {facts.names.units}, {beyond} beyond its quota of {quota}"


def _numbers(account: Account) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "tenant": account.name,
        "tenant_used": account.used_milli / MILLI_PER_DEVICE,
        "tenant_quota": account.quota_milli / MILLI_PER_DEVICE,
        "tenant_level": account.level,
    }
    if account.limit_milli < NO_LIMIT_MILLI:
        numbers["tenant_limit"] = account.limit_milli / MILLI_PER_DEVICE
    return numbers


def _devices(milli: int) -> str:
    return f"{milli / MILLI_PER_DEVICE:g}"
