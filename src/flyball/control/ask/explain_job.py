"""Explains why a live job waits: the twin's reason, jobs ahead, its start, and what would help."""

from __future__ import annotations

import time
from typing import Any

from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.decide.decider import Decider
from flyball.control.jobs import holds
from flyball.control.jobs.live_state import LiveState
from flyball.core.codes import Status
from flyball.core.jobs import Job, JobState
from flyball.core.units import US_PER_S, duration_text
from flyball.schedule.explain import Names, explain
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.twin.live import Snapshot

SHOWN_AHEAD = 10
"""Maximum number of jobs ahead that are listed."""


def explain_job(
    job: Job, live_state: LiveState, decider: Decider, forecaster: StartForecaster, now_us: int
) -> dict[str, Any]:
    """Answer "why is my job pending, and when will it start?"."""
    if job.state != JobState.PENDING:
        return {"id": job.id, "state": job.state.value, **_does_not_wait(job)}
    with live_state.lock:
        view, ids = decider.view_with({})
        kept_back, unfit = decider.columns.kept_back(), dict(decider.columns.unfit)
        labels = {job_id: other.label for job_id, other in live_state.jobs.items()}
    at = ids.tolist().index(job.id) if job.id in ids else -1
    if job.id in kept_back:
        first = live_state.get(kept_back[job.id]) or job
        if first.id in unfit:
            return {"id": job.id, "state": job.state.value, **_unfit(job, first, unfit[first.id])}
        return {"id": job.id, "state": job.state.value, **_kept_back(job, first, now_us)}
    if at < 0:
        return {"id": job.id, "state": job.state.value, **_doomed(job)}
    snapshot = Snapshot(decider.cluster, view, decider.knobs, now_us)
    snapshot.decide(False)
    if snapshot.state.runs[at].status == Status.RUNNING:
        return {"id": job.id, "state": job.state.value, **_starts_now(job)}
    names = Names.of(
        [labels.get(job_id, str(job_id)) for job_id in ids.tolist()],
        decider.cluster.groups,
        view.workload.tenants,
    )
    reason = explain(snapshot.state, decider.knobs, at, names)
    order = [int(place) for place in QueueFacts(snapshot.state, decider.knobs, names).order]
    before = order[: order.index(at)] if at in order else order
    start = forecaster.starts(now_us).get(job.id)
    return {
        "id": job.id,
        "state": job.state.value,
        "token": reason.token,
        "sentence": reason.sentence,
        "numbers": reason.numbers,
        "remedies": [reason.remedy] if reason.remedy else [],
        "ahead": [names.job(place) for place in before[:SHOWN_AHEAD]],
        "ahead_count": len(before),
        "p50_s": start.p50_s if start else None,
        "p90_s": start.p90_s if start else None,
        "method": f"{start.method}; roll-outs of the twin" if start else "",
        "counterfactuals": _what_ifs(job, forecaster, now_us),
    }


def _what_ifs(job: Job, forecaster: StartForecaster, now_us: int) -> list[dict[str, Any]]:
    """Forecast its start if it had asked for less."""
    changes: list[tuple[str, dict[str, Any]]] = []
    spec = job.spec
    if spec.gpus > 1:
        half = spec.gpus // 2
        changes.append((f"on {half} GPUs instead of {spec.gpus}", {"gpus": half}))
    elif spec.cpus > 1:
        half = spec.cpus // 2
        cores = "1 core" if half == 1 else f"{half} cores"
        changes.append((f"on {cores} instead of {spec.cpus}", {"cpus": half}))
    if spec.after:
        changes.append(("without waiting for other jobs", {"after": ()}))
    if not spec.priority:
        changes.append(("with priority 1", {"priority": 1.0}))
    answers = []
    for text, change in changes[:2]:
        start = forecaster.if_changed(job, change, now_us)
        if start is not None:
            when = f"{text}: in {duration_text(start.p50_s)}"
            answers.append({"change": text, "p50_s": start.p50_s, "text": when})
    return answers


def _does_not_wait(job: Job) -> dict[str, Any]:
    what = "is running" if not job.state.final else f"is {job.state.value}"
    if job.state == JobState.COMPLETING:
        what = f"was told to stop ({job.stopping}) and is ending"
    sentence = f"Job {job.label} {what}." + (f" {job.reason}." if job.reason else "")
    return _blank("does-not-wait", sentence)


def _starts_now(job: Job) -> dict[str, Any]:
    blank = _blank("starts-now", f"Job {job.label} fits and starts with the next decision.")
    return {**blank, "p50_s": 0.0, "p90_s": 0.0, "method": "the next decision, made already"}


def _unfit(job: Job, first: Job, why: str) -> dict[str, Any]:
    """Explain a job that no node could hold, or that comes after such a job."""
    if first.id != job.id:
        sentence = f"Job {job.label} comes after job {first.label}, which no node could hold."
        return _blank("waits-for-jobs", sentence)
    blank = _blank("no-such-node", f"Job {job.label} waits for a node that can hold it: {why}.")
    remedy = f"It starts when such a node is there; flyball cancel {job.label} gives it up."
    return {**blank, "remedies": [remedy]}


def _kept_back(job: Job, first: Job, now_us: int) -> dict[str, Any]:
    """Explain a job that is held, begins later or is deferred, or depends on such a job."""
    by, begins_us, deferral = holds.holder(first), holds.begins_us(first), holds.deferral(first)
    numbers: dict[str, Any] = {}
    if by is not None:
        what = f"is held by {by}" if by else "is held"
        remedy = f"flyball release {first.label} lets it start."
    elif deferral is not None and not begins_us:
        what, numbers = _deferred(deferral, now_us)
        remedy = f"flyball release {first.label} lets it start at once."
    else:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begins_us / US_PER_S))
        what = f"begins at {when}, in {duration_text((begins_us - now_us) / US_PER_S)}"
        remedy = "Cancel it and submit it without --begin to have it start at once."
    if begins_us:
        numbers = {"begin_time": begins_us / US_PER_S, "in_s": (begins_us - now_us) / US_PER_S}
    if first.id == job.id:
        blank = _blank(holds.token(job), f"Job {job.label} {what}.")
    else:
        sentence = f"Job {job.label} comes after job {first.label}, which {what}."
        blank = _blank("waits-for-jobs", sentence)
    return {**blank, "numbers": numbers, "remedies": [remedy]}


def _deferred(deferral: dict[str, Any], now_us: int) -> tuple[str, dict[str, Any]]:
    """Return why a job is deferred and until when, and the numbers of that."""
    until_us, latest_us = int(deferral["until_us"]), int(deferral["latest_us"])
    until, latest = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(at_us / US_PER_S))
        for at_us in (until_us, latest_us)
    )
    saving = float(deferral["saving"])
    what = (
        f"is deferred until about {until}: its energy is then expected to cost {saving:.0%} less"
        f" than now, in money or in carbon; it starts at {latest} at the latest"
    )
    return what, {
        "until": until_us / US_PER_S,
        "latest": latest_us / US_PER_S,
        "in_s": (until_us - now_us) / US_PER_S,
        "saving": saving,
    }


def _doomed(job: Job) -> dict[str, Any]:
    others = ", ".join(str(other) for _how, other in job.spec.after)
    return _blank(
        "dependency-never-satisfied",
        f"Job {job.label} waits for {others}: that can never be satisfied.",
    )


def _blank(token: str, sentence: str) -> dict[str, Any]:
    return {
        "token": token,
        "sentence": sentence,
        "numbers": {},
        "remedies": [],
        "ahead": [],
        "ahead_count": 0,
        "p50_s": None,
        "p90_s": None,
        "method": "",
        "counterfactuals": [],
    }
