"""The tables of `flyball trace describe`, each with its largest rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from flyball.cli.output import print_table
from flyball.core.units import duration_text

MAX_ROWS = 8
"""Maximum number of rows of a table."""

BARS = "▁▂▃▄▅▆▇█"
DAYS = "Mon to Sun"

Facts = dict[str, Any]


def print_description(facts: Facts, unit: str) -> None:
    """Print the statistics of a trace.

    Args:
        facts: as `twin.inputs.traces.describe` returns them.
        unit: what the jobs run on, `GPU` or `device`.
    """
    print_table(
        f"{facts['name']}: {facts['jobs']:,} jobs", ("what", "value"), list(_main(facts, unit)), 2
    )
    _print_sizes(facts["gpus"], unit)
    _print_classes(facts["classes"], unit)
    for title, mix in (
        ("tenant", facts["tenants"]["top"]),
        ("user", facts["users"]["top"]),
        ("model", facts["models"]),
        ("outcome", facts["outcomes"]),
    ):
        _print_shares(title, mix, unit)


def _main(facts: Facts, unit: str) -> Iterator[tuple[str, str]]:
    arrivals, runs = facts["arrivals"], facts["durations"]
    gaps, hourly = arrivals["gap_s"], arrivals["hourly"]
    yield "span", duration_text(facts["span_s"])
    yield "jobs per day", _number(facts["jobs_per_day"])
    yield f"{unit}s needed on average", _number(facts["load_devices"])
    yield "run time", _spread(runs)
    yield "mean and longest", f"{duration_text(runs['mean'])}, {duration_text(runs['max'])}"
    yield "gap between arrivals", _spread(gaps)
    yield "jobs per hour", f"mean {_number(hourly['mean'])}, at most {hourly['max']:,}"
    yield "by hour, 0 to 23", _bars(arrivals["by_hour"])
    yield f"by day, {DAYS}", _bars(arrivals["by_weekday"])
    if not math.isnan(facts["memory_gib"]["p50"]):
        memory = facts["memory_gib"]
        yield f"GiB per {unit}", f"half up to {memory['p50']:.3g}, 90 % up to {memory['p90']:.3g}"
    top = facts["concentration"]
    yield (
        f"{unit} time of the largest 1 %, 10 %",
        (f"{_percent(top['top_1_percent'])}, {_percent(top['top_10_percent'])}"),
    )
    yield "tenants, users", f"{facts['tenants']['count']:,}, {facts['users']['count']:,}"
    yield "other fields", ", ".join(facts["fields"]) or "none"


def _print_sizes(sizes: dict[str, Facts], unit: str) -> None:
    ranked = sorted(sizes.items(), key=lambda item: -item[1]["jobs"])[:MAX_ROWS]
    rows = [
        (
            f"{int(size):,}",
            _percent(group["jobs"]),
            _percent(group["device_time"]),
            duration_text(group["median_s"]),
        )
        for size, group in sorted(ranked, key=lambda item: int(item[0]))
    ]
    more = f", the {MAX_ROWS} commonest of {len(sizes):,} sizes" if len(sizes) > MAX_ROWS else ""
    header = (f"{unit}s", "jobs", f"{unit} time", "median run")
    print_table(f"By size{more}", header, rows, 1)


def _print_classes(classes: dict[str, Facts], unit: str) -> None:
    ranked = sorted(classes.items(), key=lambda item: -item[1]["device_time"])
    rows = [
        (
            name,
            group["reason"],
            _percent(group["jobs"]),
            _percent(group["device_time"]),
            f"{group['confidence']:.2f}",
        )
        for name, group in ranked
    ]
    header = ("class", "commonest reason", "jobs", f"{unit} time", "confidence")
    print_table("By workload class", header, rows, 2)


def _print_shares(title: str, mix: dict[str, Facts], unit: str) -> None:
    if not mix:
        return
    ranked = sorted(mix.items(), key=lambda item: -item[1]["jobs"])[:MAX_ROWS]
    rows = [
        (name, _percent(group["jobs"]), _percent(group["device_time"])) for name, group in ranked
    ]
    more = f", the {MAX_ROWS} commonest of {len(mix):,}" if len(mix) > MAX_ROWS else ""
    print_table(f"By {title}{more}", (title, "jobs", f"{unit} time"), rows, 1)


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
    """Draw a bar per value, relative to the largest; a dot where there is none."""
    numbers = [value for value in values if not math.isnan(value)]
    most = max(numbers, default=0.0) or 1.0
    return "".join(
        "·" if math.isnan(value) else BARS[round(value / most * (len(BARS) - 1))]
        for value in values
    )
