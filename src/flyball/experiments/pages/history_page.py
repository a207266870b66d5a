"""The page of a live cluster's history: what happened, what it cost, what else could have been."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
from matplotlib.figure import Figure

from flyball import __version__
from flyball.control.ask.bills import Prices
from flyball.core.jobs import Job, JobState
from flyball.core.units import US_PER_S, duration_text
from flyball.experiments.figures import COLOURS
from flyball.experiments.pages.document import Cell, Page, number_cell
from flyball.experiments.pages.own_history import Account, Usage
from flyball.experiments.pages.replay_page import add_policies, sentences
from flyball.experiments.replay import ReplayCase, Run
from flyball.experiments.report import number

MOST_ROWS = 20
AXIS_UNITS = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
"""Units of the time axis, the longest first: that of which the span has two or more is used."""
G_PER_KG = 1000.0


class WhatIf:
    """The same jobs replayed: on the cluster as it is, or on another.

    Args:
        heading: of its section.
        remark: one sentence below the heading.
    """

    def __init__(self, heading: str, remark: str, runs: Sequence[Run], case: ReplayCase) -> None:
        self.heading, self.remark, self.runs, self.case = heading, remark, runs, case


def history_page(
    history: Account, prices: Prices, what_ifs: Sequence[WhatIf], command: str, notes: Sequence[str]
) -> str:
    """Return the page."""
    span = f"{moment(history.since_us)} to {moment(history.until_us)}"
    page = Page("What the cluster did", f"{span}, {history.devices:,} devices")
    page.heading("In short")
    page.figures_of(_tiles(history, prices))
    page.points(_findings(history, what_ifs))
    page.heading("Over time")
    page.figure(_curves(history), "Devices in use and waiting jobs, means of each part of the span")
    page.heading("Who used it")
    header = _columns(prices)
    for name, usages in (
        ("user", history.by_user), ("account", history.by_tenant), ("class", history.by_class)
    ):  # fmt: skip
        if len(usages) > 1 or name == "user":
            page.table((name, *header), _usage_rows(usages, prices), f"By {name}")
    page.heading("What to look at")
    _add_jobs(page, history)
    for what_if in what_ifs:
        add_policies(page, what_if.runs, what_if.case, heading=what_if.heading)
        page.text(what_if.remark)
    _add_method(page, history, prices, command, notes)
    return page.html()


def moment(time_us: float) -> str:
    """Return an instant in local time, to the minute."""
    return f"{datetime.fromtimestamp(time_us / US_PER_S):%Y-%m-%d %H:%M}"


def _tiles(history: Account, prices: Prices) -> Iterator[tuple[str, str, str]]:
    total = history.total
    yield "submitted", f"{total.submitted:,}", "jobs"
    ended = sum(total.ended.values())
    yield "ended", f"{ended:,}", f"{total.failed:,} failed" if total.failed else "none failed"
    yield "in use", f"{100 * history.utilisation:.0f} %", f"{number(total.device_h)} device-hours"
    if total.wait_s:
        p90 = duration_text(total.wait_quantile_s(0.9))
        yield "median wait", duration_text(total.wait_quantile_s(0.5)), f"9 of 10 within {p90}"
    measured = total.measured_kwh / total.kwh if total.kwh else 0.0
    yield "energy of jobs", f"{number(total.kwh)} kWh", f"{100 * measured:.0f} % measured"
    if _is_priced(prices):
        yield "cost of jobs", f"{number(total.money)} {prices.currency}", "devices and energy"
    if prices.carbon is not None:
        yield "carbon of jobs", f"{number(total.carbon_g / G_PER_KG)} kg", "CO2"


def _findings(history: Account, what_ifs: Sequence[WhatIf]) -> Iterator[str]:
    total = history.total
    if total.device_h:
        user, usage = max(history.by_user.items(), key=lambda item: item[1].device_h)
        share = 100 * usage.device_h / total.device_h
        yield f"{user} used most: {number(usage.device_h)} device-hours, {share:.0f} % of all."
    if len(history.used) and history.devices:
        full = float(np.mean(history.used > 0.95 * history.devices))
        idle = float(np.mean((history.used < 0.5 * history.devices) & (history.waiting >= 1)))
        yield f"All devices were busy in {100 * full:.0f} % of the time."
        if idle >= 0.01:
            yield (
                f"In {100 * idle:.0f} % of the time jobs waited while more than half of the "
                "devices were free: larger requests than there were gaps, holds, or limits."
            )
    for what_if in what_ifs:
        lines = sentences(what_if.runs, what_if.case)
        yield from (f"{what_if.heading}: {line}" for line in lines[:2])


def _curves(history: Account) -> Figure:
    """Draw devices in use above waiting jobs."""
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    seconds = (history.edges_us - history.since_us) / US_PER_S
    unit, length_s = next((row for row in AXIS_UNITS if seconds[-1] >= 2 * row[1]), AXIS_UNITS[-1])
    times = seconds / length_s
    upper.stairs(history.used, times, fill=True, color=COLOURS[4], label="in use")
    upper.axhline(history.devices, color="#4a5455", linewidth=1, linestyle="--", label="all")
    upper.set_ylabel("devices")
    upper.legend(frameon=False, ncols=2, loc="lower right", fontsize=8)
    lower.stairs(history.waiting, times, fill=True, color=COLOURS[1])
    lower.set_ylabel("jobs that wait")
    lower.set_xlabel(f"{unit} since {moment(history.since_us)}")
    for axes in (upper, lower):
        axes.set_ylim(bottom=0)
        axes.set_xlim(times[0], times[-1])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    return figure


def _is_priced(prices: Prices) -> bool:
    return bool(prices.per_device_hour or prices.price is not None)


def _columns(prices: Prices) -> list[str]:
    columns = [
        "submitted", "completed", "cancelled", "failed", "median wait", "p90 wait",
        "device-hours", "energy kWh",
    ]  # fmt: skip
    columns += [f"cost {prices.currency}"] if _is_priced(prices) else []
    return columns + (["kg CO2"] if prices.carbon is not None else [])


def _usage_rows(usages: Mapping[str, Usage], prices: Prices) -> list[list[Cell]]:
    """Return a row per name, the one that used most first."""
    rows = []
    for name, usage in sorted(usages.items(), key=lambda item: -item[1].device_h):
        done, stopped = (usage.ended[state] for state in (JobState.COMPLETED, JobState.CANCELLED))
        cells = [Cell(f"{n:,}", n) for n in (usage.submitted, done, stopped, usage.failed)]
        cells += [_duration(usage.wait_quantile_s(part)) for part in (0.5, 0.9)]
        cells += [number_cell(number(value), value) for value in (usage.device_h, usage.kwh)]
        if _is_priced(prices):
            cells.append(number_cell(number(usage.money), usage.money))
        if prices.carbon is not None:
            kg = usage.carbon_g / G_PER_KG
            cells.append(number_cell(number(kg), kg))
        rows.append([Cell(name), *cells])
    return rows


def _duration(seconds: float) -> Cell:
    text = duration_text(seconds) if math.isfinite(seconds) else "-"
    return number_cell(text, seconds)


def _add_jobs(page: Page, history: Account) -> None:
    """Add the longest waits, and the jobs that failed."""
    waited = sorted(history.jobs, key=lambda job: -_wait_s(job, history.until_us))[:MOST_ROWS]
    rows = [
        [
            Cell(job.label, job.id), Cell(job.spec.name), Cell(job.spec.user or "-"),
            Cell(job.state), _duration(_wait_s(job, history.until_us)),
        ]
        for job in waited
        if _wait_s(job, history.until_us) > 0
    ]  # fmt: skip
    page.table(("job", "name", "user", "state", "waited"), rows, "Longest waits", left=4)
    good = (JobState.COMPLETED, JobState.CANCELLED)
    failed = [
        job
        for job in history.jobs
        if job.state.final and job.state not in good and job.end_us >= history.since_us
    ]
    if failed:
        rows = [
            [
                Cell(job.label, job.id), Cell(job.spec.name), Cell(job.spec.user or "-"),
                Cell(job.state), Cell(job.reason or "-"),
                Cell(str(job.values.get("exit_code", "-"))),
            ]
            for job in failed[:MOST_ROWS]
        ]  # fmt: skip
        more = f", the last {MOST_ROWS} of {len(failed):,}" if len(failed) > MOST_ROWS else ""
        header = ("job", "name", "user", "state", "reason", "exit code")
        page.table(header, rows, f"Failed jobs{more}", left=5)


def _wait_s(job: Job, until_us: int) -> float:
    over_us = job.first_start_us or (job.end_us if job.state.final else until_us)
    return max(0.0, (over_us - job.submit_us) / US_PER_S)


def _add_method(
    page: Page, history: Account, prices: Prices, command: str, notes: Sequence[str]
) -> None:
    page.heading("How this was computed")
    page.text(
        f"Flyball {__version__} read the cluster's journal: {len(history.jobs):,} jobs that were "
        "there in the span. Device-hours, energy and cost are those of the part of each job that "
        "lies in it; energy is that of the jobs' devices, not of idle ones."
    )
    page.code(command)
    signals = [
        f"{name} {signal.describe()}"
        for name, signal in (("electricity", prices.price), ("carbon", prices.carbon))
        if signal is not None
    ]
    hour = [f"{prices.per_device_hour:g} {prices.currency} a device-hour"]
    points = [*(hour if prices.per_device_hour else []), *signals]
    page.points([f"Prices: {', '.join(points)}."] if points else ["No prices were given."])
    page.points(
        [
            "Energy counts as measured where the engine read it from a counter; otherwise it is "
            "the power model of the device type over the time that the job held its devices.",
            "What other policies would have given is a replay in a simulation with the same "
            "decision code as the live scheduler; run times are those that were recorded.",
        ]
    )
    page.points(notes)
