"""`flyball show`: prints everything about one job."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from flyball.cli.formats import (
    Job,
    clean,
    clock_text,
    count_text,
    ending_text,
    heading,
    moment_text,
    signal_name,
    size_text,
)
from flyball.cli.jobs.class_text import class_text, setting_lines
from flyball.cli.jobs.hold import held_text
from flyball.cli.jobs.sensor_text import uses_text
from flyball.cli.jobs.tuning_text import changes, now_text, unit_of_job
from flyball.cli.live import JobId, State, connected, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import print_json
from flyball.core.job_fields import FIELDS
from flyball.core.job_fields.field import JobField
from flyball.core.jobs import JobState

EXAMPLES = """\b
Examples:
  flyball show 12
  flyball show 12_3 --json
"""

NAME_WIDTH = 12
"""Width, in columns, of the names of facts."""
ARRANGED = frozenset(
    {
        *("argv", "name", "cwd", "env", "user", "tenant", "cpus", "gpus", "milli", "memory_mib"),
        *("max_processes", "least", "most", "limit_s", "estimate_s", "kind", "priority", "after"),
        *("array", "array_index", "array_limit", "hold", "begin_time", "signal_before_s"),
        *("checkpoint_signal", "signal_children", "grace_s", "stdout", "stderr", "notify"),
    }
)
"""Fields that are shown in their own words, or by another fact."""
OTHERS = [row for row in FIELDS.values() if row.name not in ARRANGED]
"""Fields that are shown as they are stated."""


def show(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Show everything about one job: its request, its state, what it last reported."""
    number = job_id(job)
    with connected(state) as client:
        row = client.job(number)
        runs = row["state"] in (JobState.RUNNING, JobState.COMPLETING)
        sensors = client.telemetry() if runs and not as_json else {}
    if as_json:
        print_json(row)
        return
    typer.echo(heading(row))
    for name, value in facts(row, time.time(), sensors):
        typer.echo(f"  {name:{NAME_WIDTH}} {value}")


def facts(job: Job, now: float, sensors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values in reading order, without those that are not stated.

    Args:
        sensors: the newest measured values.
    """
    spec = job["spec"]
    yield "command", clean(shlex.join(spec["argv"]))
    yield "folder", clean(spec.get("cwd", "/"))
    if job["user"] or job["tenant"]:
        yield "owner", clean(" of ".join(name for name in (job["user"], job["tenant"]) if name))
    yield "asks for", ", ".join(_request(job))
    if about := job.get("class"):
        yield "class", "; ".join([class_text(about), *setting_lines(about)])
    yield from ((row.label, field_text(row, spec[row.name])) for row in OTHERS if row.name in spec)
    if spec.get("after"):
        yield "after", ", ".join(f"{how} {other}" for how, other in spec["after"])
    if waits := held_text(job, now):
        yield "waits", waits
    if spec.get("signal_before_s") and spec.get("limit_s"):
        name = signal_name(int(spec["checkpoint_signal"]))
        yield "signal", f"{name} {spec['signal_before_s']:g} s before its limit"
    if job["reason"]:
        yield "reason", clean(job["reason"])
    yield "submitted", moment_text(job["submit_time"])
    if job["start_time"] is not None:
        where = f" on {clean(job['node'])}" if job["node"] else ""
        attempts = f", {count_text(job['attempts'], 'attempt')}" if job["attempts"] > 1 else ""
        yield "started", f"{moment_text(job['start_time'])}{where}{attempts}"
        ran_s = (job["end_time"] or now) - job["start_time"]
        yield "time", clock_text(ran_s)
    if uses := uses_text(sensors, job["id"]):
        yield "uses now", uses
    if job["end_time"] is not None:
        yield "ended", f"{moment_text(job['end_time'])}{_how_it_ended(job)}"
    if job.get("tuning"):
        if job["end_time"] is None:
            yield "has now", now_text(job["tuning"], unit_of_job(job))
        for line in changes(job):
            yield "tuned", line
    if job.get("progress"):
        yield "progress", progress_text(job)
    for target in job.get("notify") or ():
        yield "notify", _notified(job, target)
    if spec.get("stdout"):
        yield "output", clean(spec["stdout"])
    if spec.get("stderr"):
        yield "errors", clean(spec["stderr"])


def field_text(row: JobField, value: Any) -> str:
    """Return the value of a field as people read it."""
    if row.notation == "moment":
        return moment_text(value)
    if row.notation == "duration":
        return clock_text(value)
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)))
    return clean(value)


def _request(job: Job) -> Iterator[str]:
    spec = job["spec"]
    yield count_text(job["cpus"], "core")
    if job["gpus"]:
        share = spec.get("milli", 1000)
        yield count_text(job["gpus"], "GPU") + (f" x {share / 1000:g}" if share < 1000 else "")
    if job.get("elastic"):
        yield f"elastic from {job['elastic'][0]} to {job['elastic'][1]}"
    if job["memory_mib"]:
        yield f"{size_text(job['memory_mib'])} of memory"
    if spec.get("max_processes"):
        yield f"at most {spec['max_processes']:,} processes and threads"
    if spec.get("limit_s"):
        yield f"at most {clock_text(spec['limit_s'])}"
    if spec.get("estimate_s"):
        yield f"about {clock_text(spec['estimate_s'])}"
    if spec.get("priority"):
        yield f"priority {spec['priority']:g}"
    if spec.get("kind") and not job.get("class"):  # an older server does not tell the class
        yield clean(spec["kind"])


def _notified(job: Job, target: Mapping[str, Any]) -> str:
    """Return a notification's target and its result."""
    if target["ok"] is None:
        how = "when it ends" if job["end_time"] is None else "not sent yet"
    else:
        how = ("sent, " if target["ok"] else "FAILED, ") + clean(target["message"])
    return f"{clean(target['to'])}: {how}"


def _how_it_ended(job: Job) -> str:
    ending = ending_text(job)
    if job.get("signal"):
        return f", by {ending}"
    return f", {ending}" if ending else ""


def number_text(value: float) -> str:
    """Format whole numbers in full, others to four digits: a step is not `1.06e+04`."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def progress_text(job: Job) -> str:
    """Return the job's last report: `step 40, loss 0.31`."""
    report = job.get("progress") or {}
    return ", ".join(
        f"{clean(name)} {number_text(value)}"
        if isinstance(value, float)
        else f"{clean(name)} {clean(value)}"
        for name, value in report.items()
    )
