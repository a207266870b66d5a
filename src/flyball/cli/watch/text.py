"""Tables and sentences of `flyball watch slurm`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flyball.cli.formats import clean, clock_text, count_text, soon_text, start_text
from flyball.cli.output import long_table

if TYPE_CHECKING:
    from flyball.watch.adviser import Advice

HEADER = ("job", "name", "user", "partition", "asks for", "reason", "p50", "p90", "squeue --start")
STALE_S = 60.0
"""Age of a reading from which it is called old."""


def chosen(advice: Advice, partition: str, user: str) -> Advice:
    """Return the advice with the pending jobs of one partition or user; "" = all."""
    starts = [
        start
        for start in advice.starts
        if (not partition or partition in start.job.partitions)
        and (not user or user == start.job.user)
    ]
    return replace(advice, starts=starts)


def heading(advice: Advice) -> str:
    """Return the line above the table."""
    reading = advice.reading
    available = sum(node.available for node in reading.nodes)
    parts = [
        f"{reading.settings.get('clustername', 'Slurm')}: "
        f"{available} of {count_text(len(reading.nodes), 'node')} available",
        f"{advice.running:,} running",
        f"{len(advice.starts):,} pending",
        f"run times of {count_text(advice.learnt, 'job')} learnt",
    ]
    kept = [f"{part:.0%}" for part in advice.coverage if not math.isnan(part)]
    if len(kept) == len(advice.coverage):
        parts.append(f"p50 held for {kept[0]}, p90 for {kept[1]} of earlier forecasts")
    return ", ".join(parts)


def table_rows(advice: Advice) -> list[list[str]]:
    """Return a row for each pending job, in the order in which Slurm takes them."""
    rows = []
    for start in advice.starts:
        job, forecast = start.job, start.forecast
        asks = f"{job.gpus} GPU" if job.gpus else f"{job.cpus} CPU"
        asks += f" on {job.nodes}" if job.nodes > 1 else ""
        edges = (clock_text(forecast.p50_s), clock_text(forecast.p90_s)) if forecast else ("-", "-")
        reason = job.reason if forecast else start.why_none
        rows.append(
            [
                clean(job.label),
                clean(job.name)[:24],
                clean(job.user),
                clean(",".join(job.partitions))[:20],
                f"{asks}, {clock_text(job.limit_s)}",
                clean(reason)[:40],
                *edges,
                clock_text(start.slurm_s),
            ]
        )
    return rows


def frame_lines(advice: Advice | None, error: str, now_s: float, height: int) -> list[str]:
    """Return the lines of one frame of the refreshing table."""
    lines = []
    if error:
        lines.append(f"last poll failed: {clean(error)}")
    if advice is None:
        return [*lines, "waiting for the first reading of the queue"]
    age_s = now_s - advice.reading.time_s
    if age_s > STALE_S:
        lines.append(f"this reading is {clock_text(age_s)} old")
    lines.append(heading(advice))
    rows = table_rows(advice)
    room = max(1, height - len(lines) - 4)
    lines += long_table(HEADER, rows[:room], left=6)
    if len(rows) > room:
        lines.append(f" and {len(rows) - room:,} more")
    return lines


def why_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield an explanation in sentences."""
    yield f"{clean(answer['id'])}: {answer['state']}"
    if answer["slurm_reason"]:
        meaning = f": {answer['slurm_meaning']}" if answer["slurm_meaning"] else ""
        yield f"  Slurm says {clean(answer['slurm_reason'])}{meaning}."
    yield f"  {answer['token']}: {clean(answer['sentence'])}"
    if answer["p50_s"] is not None:
        yield f"  Expected to start {start_text(answer)}."
    if answer["slurm_start_s"] is not None:
        yield f"  squeue --start expects it {soon_text(answer['slurm_start_s'])}."
    if answer["ahead_count"]:
        shown = [clean(label) for label in answer["ahead"]]
        more = answer["ahead_count"] - len(shown)
        names = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        yield f"  Ahead of it: {count_text(answer['ahead_count'], 'job')}: {names}."
    for remedy in answer["remedies"]:
        yield f"  {clean(remedy)}"
    for what_if in answer["counterfactuals"]:
        when = "never" if what_if["p50_s"] is None else soon_text(what_if["p50_s"])
        yield f"  What if: {clean(what_if['change'])}: {when}."
