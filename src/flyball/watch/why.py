"""Explains why a job of a Slurm site waits: Slurm's reason, the twin's, and what would help.

What-ifs are roll-outs of the twin with a changed request: of the site's queue nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flyball.control.ask.explain_job import explain_job
from flyball.control.ask.start_forecast import StartTime
from flyball.control.jobs.live_state import PREDICTION
from flyball.core.errors import BadInput, NotFound
from flyball.core.jobs import Job
from flyball.core.units import S_PER_MIN, duration_text, to_us
from flyball.engines.slurm.queue_text import limit_s
from flyball.watch.adviser import Advice, Adviser, Start
from flyball.watch.mirror import PENDING

CHANGES = ("gpus", "cpus", "time")
_KNOB = re.compile(r"\b[a-z_]+=[a-z0-9]|priority")
"""Part of a remedy that only a server of ours could follow."""
SHORTER = 0.5
"""A shorter time limit is suggested if the predicted p95 run time is below this part of it."""


class Meaning(NamedTuple):
    """Says what a reason of Slurm's means, and what helps."""

    sentence: str
    remedy: str


MEANINGS = {
    "Resources": Meaning("it is next in line, and its resources are not free yet", ""),
    "Priority": Meaning("jobs with a higher priority are ahead of it", ""),
    "Dependency": Meaning("it waits for other jobs", "scontrol show job lists its Dependency"),
    "DependencyNeverSatisfied": Meaning("a job it needs did not end as required", "scancel it"),
    "JobHeldUser": Meaning("its owner holds it", "scontrol release JOBID"),
    "JobHeldAdmin": Meaning("an administrator holds it", "ask the site's administrators"),
    "BeginTime": Meaning(
        "it was submitted to begin later", "scontrol update JobId=JOBID StartTime=now"
    ),
    "JobArrayTaskLimit": Meaning(
        "its array runs as many tasks at a time as its owner allows",
        "scontrol update JobId=JOBID ArrayTaskThrottle=N",
    ),
    "PartitionTimeLimit": Meaning("its time limit exceeds its partition's", "use less --time"),
    "PartitionNodeLimit": Meaning("its nodes exceed its partition's limit", "use fewer -N"),
    "PartitionDown": Meaning("its partition is down", "submit to another with -p"),
    "PartitionInactive": Meaning("its partition is inactive", "submit to another with -p"),
    "ReqNodeNotAvail": Meaning(
        "nodes that it could use are down, drained or busy with other partitions' jobs",
        "leave out --nodelist, or wait",
    ),
    "Reservation": Meaning("its reservation has not begun", ""),
    "Licenses": Meaning("its licences are in use", "scontrol show lic lists them"),
}  # fmt: skip
LIMIT_PREFIXES = ("QOS", "Assoc", "MaxCpu", "MaxMem")
LIMIT = Meaning(
    "a limit of its account, user or QOS is reached; the twin does not model it, so that the "
    "forecast is too early",
    "sacctmgr show qos, sacctmgr show assoc list the limits",
)
UNAVAILABLE = Meaning(
    "its nodes are down, drained or reserved for jobs of partitions that come first",
    "sinfo -R says why",
)


def meaning_of(reason: str) -> Meaning:
    """Return what a reason of Slurm's means; an empty sentence for one that we do not know."""
    word = reason.partition(",")[0].partition("(")[0].strip()
    if word.startswith(LIMIT_PREFIXES):
        return LIMIT
    if word.startswith("Nodes required"):
        return UNAVAILABLE
    return MEANINGS.get(word, Meaning("", ""))


def explain_slurm_job(
    adviser: Adviser, advice: Advice, label: str, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer why a job waits, when it starts, and what would change that.

    Args:
        changes: a request to look into, by the names of `CHANGES`; empty = none.

    Raises:
        NotFound: squeue does not list such a job.
    """
    start = next((start for start in advice.starts if start.job.label == label), None)
    if start is None:
        return _not_pending(advice, label)
    meaning = meaning_of(start.job.reason)
    answer: dict[str, Any] = {
        "id": label,
        "state": "PENDING",
        "slurm_reason": start.job.reason,
        "slurm_meaning": meaning.sentence,
        "slurm_start_s": start.slurm_s,
    }
    remedies = [meaning.remedy.replace("JOBID", label)] if meaning.remedy else []
    job = adviser.job(label)
    if start.why_none or job is None:
        why = start.why_none or "it is not in the twin"
        blank: dict[str, Any] = {"p50_s": None, "p90_s": None, "method": "", "counterfactuals": []}
        return {**answer, "token": "not-modelled", "sentence": f"No forecast: {why}.",
                "remedies": remedies, "ahead": [], "ahead_count": 0, **blank}  # fmt: skip
    assert adviser.decider is not None and adviser.forecaster is not None
    now_us = to_us(advice.reading.time_s)
    reasons = explain_job(job, adviser.live_state, adviser.decider, adviser.forecaster, now_us)
    forecast = start.forecast
    if forecast is not None:
        reasons |= {"p50_s": forecast.p50_s, "p90_s": forecast.p90_s}
    reasons["sentence"] = adviser.with_node_names(reasons["sentence"])
    ours = [adviser.with_node_names(_for_slurm(text)) for text in reasons["remedies"]]
    reasons["remedies"] = [*remedies, *filter(None, ours)]
    reasons["counterfactuals"] = [
        *_asked_for(adviser, job, changes, now_us),
        *reasons["counterfactuals"],
        *_shorter_limit(adviser, job, now_us),
    ]
    return {**reasons, **answer}


def _for_slurm(remedy: str) -> str:
    """Return a remedy without the parts that name a knob of ours, which the site does not have."""
    parts = [part for part in remedy.rstrip(".").split("; or ") if not _KNOB.search(part)]
    return "; or ".join(parts) + "." if parts else ""


def changes_of(settings: Sequence[str]) -> dict[str, Any]:
    """Return the changed request of settings such as `gpus=4`, `cpus=8`, `time=2:00:00`.

    Raises:
        BadInput: another name, or a value that is not one.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in CHANGES:
            raise BadInput(f"--if {setting!r}", "use gpus=N, cpus=N or time=[D-]H:M:S or minutes")
        try:
            if name == "time":
                seconds = float(text) * S_PER_MIN if text.isdecimal() else limit_s(text)
                changes |= {"limit_s": seconds, "estimate_s": seconds}
            else:
                changes[name] = int(text)
        except ValueError:
            raise BadInput(f"--if {setting!r} is not a number", f"e.g. {name}=4") from None
        if not changes[name if name != "time" else "limit_s"]:
            raise BadInput(f"--if {setting!r} is not above 0", f"e.g. {name}=4")
    return changes


def _not_pending(advice: Advice, label: str) -> dict[str, Any]:
    job = next((job for job in advice.reading.jobs if job.label == label), None)
    if job is None or job.state in PENDING:
        raise NotFound(
            f"squeue lists no job {label}",
            "it has ended, or is another user's and hidden; a task of an array is written 12_3",
        )
    sentence = f"Job {label} does not wait: Slurm shows it as {job.state}."
    return {"id": label, "state": job.state, "token": "does-not-wait", "sentence": sentence,
            "slurm_reason": job.reason, "slurm_meaning": "", "slurm_start_s": None, "remedies": [],
            "ahead": [], "ahead_count": 0, "p50_s": None, "p90_s": None, "method": "",
            "counterfactuals": []}  # fmt: skip


def _asked_for(
    adviser: Adviser, job: Job, changes: Mapping[str, Any], now_us: int
) -> list[dict[str, Any]]:
    if not changes:
        return []
    words = {"gpus": "GPU", "cpus": "core"}
    texts = [
        f"{value} {words[name]}{'s' * (value != 1)}"
        for name, value in changes.items()
        if name in words
    ]
    if "limit_s" in changes:
        texts.append(f"a time limit of {duration_text(changes['limit_s'])}")
    text = f"if it asked for {' and '.join(texts)}"
    start = adviser.if_changed(job, changes, now_us)
    if start is None:
        return [{"change": text, "p50_s": None, "text": f"{text}: no nodes could hold it"}]
    return [_what_if(text, start)]


def _shorter_limit(adviser: Adviser, job: Job, now_us: int) -> list[dict[str, Any]]:
    """Forecast its start with a limit that most jobs like it would keep, if it is much shorter."""
    prediction = job.values.get(PREDICTION)
    if not prediction or not job.spec.limit_s:
        return []
    needed_s = -(-prediction[-1] // S_PER_MIN) * S_PER_MIN
    if needed_s > SHORTER * job.spec.limit_s:
        return []
    changes = {"limit_s": needed_s, "estimate_s": needed_s}
    start = adviser.if_changed(job, changes, now_us)
    text = (
        f"with a time limit of {duration_text(needed_s)} instead of "
        f"{duration_text(job.spec.limit_s)} (19 of 20 jobs like it are predicted to keep it)"
    )
    return [_what_if(text, start)] if start is not None else []


def _what_if(text: str, start: StartTime) -> dict[str, Any]:
    when = f"{text}: in {duration_text(start.p50_s)}"
    return {"change": text, "p50_s": start.p50_s, "p90_s": start.p90_s, "text": when}


def start_as_json(start: Start) -> dict[str, Any]:
    """Return a pending job with its forecast and Slurm's estimate as JSON values."""
    job, forecast = start.job, start.forecast
    return {
        "id": job.label,
        "name": job.name,
        "user": job.user,
        "partition": ",".join(job.partitions),
        "reason": job.reason,
        "nodes": job.nodes,
        "cpus": job.cpus,
        "gpus": job.gpus,
        "limit_s": job.limit_s,
        "submit_time": job.submit_s,
        "priority": job.priority,
        "p50_s": forecast.p50_s if forecast else None,
        "p90_s": forecast.p90_s if forecast else None,
        "method": forecast.method if forecast else "",
        "why_no_forecast": start.why_none,
        "slurm_start_s": start.slurm_s,
    }
