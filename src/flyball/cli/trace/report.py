"""What `flyball trace describe` prints: a few short tables, the largest first in each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from flyball.cli.output import print_table
from flyball.core.units import duration_text

MOST = 8
"""Rows of a table at most."""

BARS = "▁▂▃▄▅▆▇█"
DAYS = "Mon to Sun"

Facts = dict[str, Any]


def print_description(facts: Facts) -> None:
    """Print what `twin.traces.describe` found."""
    print_table(
        f"{facts['name']}: {facts['jobs']:,} jobs", ("what", "value"), list(_main(facts)), 2
    )
    _print_sizes(facts["gpus"])
    _print_classes(facts["classes"])
    for title, mix in (
        ("tenant", facts["tenants"]["top"]),
        ("user", facts["users"]["top"]),
        ("model", facts["models"]),
        ("outcome", facts["outcomes"]),
    ):
        _print_shares(title, mix)


def _main(facts: Facts) -> Iterator[tuple[str, str]]:
    arrivals, runs = facts["arrivals"], facts["durations"]
    gaps, hourly = arrivals["gap_s"], arrivals["hourly"]
    yield "span", duration_text(facts["span_s"])
    yield "jobs a day", _number(facts["jobs_per_day"])
    yield "devices needed on average", _number(facts["load_devices"])
    yield "run time", _spread(runs)
    yield "mean and longest", f"{duration_text(runs['mean'])}, {duration_text(runs['max'])}"
    yield "gap between arrivals", _spread(gaps)
    yield "jobs an hour", f"mean {_number(hourly['mean'])}, most {hourly['max']:,}"
    yield "by hour, 0 to 23", _bars(arrivals["by_hour"])
    yield f"by day, {DAYS}", _bars(arrivals["by_weekday"])
    if not math.isnan(facts["memory_gib"]["p50"]):
        memory = facts["memory_gib"]
        yield "GiB a device", f"half up to {memory['p50']:.3g}, 90 % up to {memory['p90']:.3g}"
    top = facts["concentration"]
    yield (
        "device time of the largest 1 %, 10 %",
        (f"{_percent(top['top_1_percent'])}, {_percent(top['top_10_percent'])}"),
    )
    yield "tenants, users", f"{facts['tenants']['count']:,}, {facts['users']['count']:,}"
    yield "stated besides", ", ".join(facts["fields"]) or "nothing"


def _print_sizes(sizes: dict[str, Facts]) -> None:
    ranked = sorted(sizes.items(), key=lambda item: -item[1]["jobs"])[:MOST]
    rows = [
        (
            f"{int(size):,}",
            _percent(each["jobs"]),
            _percent(each["device_time"]),
            duration_text(each["median_s"]),
        )
        for size, each in sorted(ranked, key=lambda item: int(item[0]))
    ]
    more = f", the {MOST} commonest of {len(sizes):,} sizes" if len(sizes) > MOST else ""
    header = ("devices", "jobs", "device time", "median run")
    print_table(f"By size{more}", header, rows, 1)


def _print_classes(classes: dict[str, Facts]) -> None:
    ranked = sorted(classes.items(), key=lambda item: -item[1]["device_time"])
    rows = [
        (
            name,
            each["reason"],
            _percent(each["jobs"]),
            _percent(each["device_time"]),
            f"{each['confidence']:.2f}",
        )
        for name, each in ranked
    ]
    header = ("class", "commonest reason", "jobs", "device time", "confidence")
    print_table("By workload class", header, rows, 2)


def _print_shares(title: str, mix: dict[str, Facts]) -> None:
    if not mix:
        return
    ranked = sorted(mix.items(), key=lambda item: -item[1]["jobs"])[:MOST]
    rows = [(name, _percent(each["jobs"]), _percent(each["device_time"])) for name, each in ranked]
    more = f", the {MOST} commonest of {len(mix):,}" if len(mix) > MOST else ""
    print_table(f"By {title}{more}", (title, "jobs", "device time"), rows, 1)


def _spread(figures: Facts) -> str:
    if math.isnan(figures["p50"]):
        return "-"
    half, most, nearly = (duration_text(figures[name]) for name in ("p50", "p90", "p99"))
    return f"half up to {half}, 90 % up to {most}, 99 % up to {nearly}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "-"
    return f"{share * 100:.1f} %" if share >= 0.0005 or share == 0 else "< 0.1 %"


def _bars(values: Sequence[float]) -> str:
    """A bar for each value, relative to the largest; a dot where there is none."""
    known = [value for value in values if not math.isnan(value)]
    most = max(known, default=0.0) or 1.0
    return "".join(
        "·" if math.isnan(value) else BARS[round(value / most * (len(BARS) - 1))]
        for value in values
    )
