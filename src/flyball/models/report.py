"""Writes what an optimisation found: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flyball.models.measure import TOLERANCE
from flyball.models.result import EAGER, Candidate, Result

REPORT = "report.md"
FIGURES = "report.json"
STAGE_HEADER = (
    *("pass", "changes", "operations", "GFLOP", "MB moved", "peak MB", "planned MB"),
    "expected gain",
)
SHOWN_DEVICES = ("CPU1", "CPU32", "T4", "V100", "A100", "H100")
"""Device types of the Markdown table; JSON has all of the catalogue."""


def write(result: Result, folder: Path, pictures: Sequence[Path] = ()) -> None:
    """Write both reports into a folder."""
    (folder / FIGURES).write_text(json.dumps(result.as_dict(), indent=2) + "\n", "utf-8")
    (folder / REPORT).write_text(markdown(result, pictures), "utf-8")


def headline(result: Result) -> str:
    """Return the result in a sentence."""
    chosen = result.chosen
    if result.choice == EAGER:
        return f"{result.name}: leave it as it is; no equal candidate is faster beyond the noise."
    assert chosen.low is not None and chosen.high is not None
    return (
        f"{result.name}: {result.choice} is {result.speedup:.2f} times as fast as eager "
        f"({chosen.low:.2f} to {chosen.high:.2f}), with equal results."
    )


def markdown(result: Result, pictures: Sequence[Path] = ()) -> str:
    """Return the report for people."""
    lines = [f"# {result.name}", "", headline(result), ""]
    lines += [f"- {note}" for note in result.notes] + ([""] if result.notes else [])
    lines += ["## Candidates", "", _measured_text(result), ""]
    lines += _table(
        ("back end", "status", "error", "ms a call", "times as fast", "interval", "built in"),
        [candidate_cells(candidate) for candidate in result.candidates],
    )
    if result.stages:
        lines += ["", "## Passes", ""]
        lines += [
            "Counted on the graph: operations, and memory of intermediate results. The expected "
            "gain is modelled, for one core; what was measured is above. The last three stages "
            "are for torch's executor only.",
            "",
        ]
        lines += _table(STAGE_HEADER, stage_rows(result))
        lines += ["", "What each one does:", ""]
        lines += [f"- `{s.name}`: {s.rule}" for s in result.stages if s.changes]
    if result.modelled:
        lines += ["", "## Other devices (modelled, not measured)", ""]
        lines += ["One call by the roofline of the catalogue's figures, before and after.", ""]
        rows = [row for row in result.modelled if row["device"] in SHOWN_DEVICES]
        header = ("device", "ms before", "ms after", "J before", "J after")
        lines += _table(header, [_modelled_cells(row) for row in rows])
    if pictures:
        lines += ["", "## Pictures", ""]
        lines += [f"![{path.stem}]({path.parent.name}/{path.name})" for path in pictures]
    machine = result.machine
    lines += ["", "## Machine", ""]
    lines += [f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB; "]
    lines += [", ".join(f"{name} {version}" for name, version in machine.versions.items())]
    return "\n".join(lines) + "\n"


def _measured_text(result: Result) -> str:
    text = (
        f"{result.threads} threads. Equal means: largest error at most {TOLERANCE:g} of the "
        "output's scale, on the example and on random inputs. Times are medians of interleaved "
        "rounds; the interval is that of the median ratio (95 %)."
    )
    if result.from_cache:
        return (
            f"{text} Times are those of an earlier run on this machine; equality was checked now."
        )
    return f"{text} Other processes kept {result.other_load:g} cores busy meanwhile."


def candidate_cells(candidate: Candidate) -> tuple[str, ...]:
    """Return the cells of a candidate's row."""
    status = candidate.status + (f": {candidate.reason}" if candidate.reason else "")
    interval = (
        "" if candidate.low is None or candidate.high is None
        else f"{candidate.low:.2f} to {candidate.high:.2f}"
    )  # fmt: skip
    return (
        candidate.name,
        status,
        "" if candidate.error is None else f"{candidate.error:.1e}",
        "" if candidate.call_s is None else f"{candidate.call_s * 1e3:.3g}",
        "" if candidate.ratio is None else f"{candidate.ratio:.2f}",
        interval,
        f"{candidate.build_s:.1f} s" if candidate.build_s else "",
    )


def stage_rows(result: Result) -> list[tuple[str, ...]]:
    """Return the cells of all passes' rows."""
    before_s = result.stages[0].core_s
    return [_stage_cells(stage.as_dict(), before_s) for stage in result.stages]


def _stage_cells(stage: dict[str, Any], before_s: float) -> tuple[str, ...]:
    """Return the cells of a pass's row."""
    cost = stage["cost"]
    return (
        stage["name"],
        str(stage["changes"]),
        str(cost["operations"]),
        f"{cost['flop'] / 1e9:.3g}",
        f"{cost['moved_bytes'] / 1e6:.4g}",
        f"{cost['peak_bytes'] / 1e6:.4g}",
        f"{cost['planned_bytes'] / 1e6:.4g}",
        f"{before_s / stage['core_s']:.2f}" if stage["core_s"] else "",
    )


def _modelled_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["device"],
        f"{row['before_s'] * 1e3:.3g}",
        f"{row['after_s'] * 1e3:.3g}",
        f"{row['before_j']:.3g}",
        f"{row['after_j']:.3g}",
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows
    ]
