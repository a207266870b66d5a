"""`flyball bench twin`: how many events a second the twin does here."""

from __future__ import annotations

from typing import Any

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table

EXAMPLES = """\b
Examples:
  flyball bench twin
  flyball bench twin --json > twin.json
"""


def twin(as_json: AsJson = False) -> None:
    """Events per CPU-second of the twin on saturated clusters, and what a clone costs."""
    from flyball.bench.twin import run

    figures = run(note)
    if as_json:
        print_json(figures)
        return
    cases = [
        (
            each["name"],
            f"{each['nodes']:,}",
            f"{each['pending_mean']:,.0f}",
            f"{each['events']:,}",
            f"{each['events_per_s']:,.0f}",
        )
        for each in figures["cases"]
    ]
    header = ("case", "nodes", "mean pending", "events", "events per CPU-second")
    print_table("The twin on saturated clusters", header, cases)
    lengths = [
        (name, *(f"{value:,.0f}" for value in by_pending.values()))
        for name, by_pending in _scaling(figures).items()
    ]
    pending = [f"{int(each):,} pending" for each in next(iter(_scaling(figures).values()))]
    print_table("Nanoseconds per event, 1,000 nodes", ("order", *pending), lengths)
    rest = [(_NAMES[name], _shown(figures[name])) for name in _NAMES]
    print_table("", ("figure", "value"), rest)


_NAMES = {
    "first_compile_s": "first compile (s)",
    "reference_ratio": "times faster than the reference",
    "clone_us_1k": "clone into an earlier clone, 1,000 nodes (us)",
    "clone_fresh_us_1k": "clone afresh (us)",
    "clone_kib": "size of that clone (KiB)",
    "clone_jobs": "jobs in it",
    "clone_running": "of these running",
    "million_jobs_cpu_s": "a million jobs, without files (CPU-s)",
    "philly_a_fifo_cpu_s": "Philly A under fifo, without reading it (CPU-s)",
    "philly_a_read_cpu_s": "reading Philly A (CPU-s)",
}


def _scaling(figures: dict[str, Any]) -> dict[str, dict[str, float]]:
    return figures["ns_per_event_by_pending"]  # type: ignore[no-any-return]


def _shown(value: object) -> str:
    if value is None:
        return "no data here"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
