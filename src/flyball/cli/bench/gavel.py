"""`flyball bench gavel`: the share policies against Gavel's simulator, and what differs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench gavel
  flyball bench gavel --shuffles 5 --no-switches
  flyball bench gavel --policies max-min,max-min-het --json
  flyball bench gavel --stream
\b
Needs the shared data (FLYBALL_DATA), except --stream. In replays `-p max-min@gavel` is a policy in
this mode; --restart-s 0 makes restarts free, as in Gavel.
"""


def gavel(
    policies: Annotated[
        str, typer.Option(help="Policies of the comparison, separated by commas, or `all`.")
    ] = "all",
    shuffles: Annotated[
        int, typer.Option(help="Seeds of the order of types, for policies that ignore types.")
    ] = 20,
    switches: Annotated[
        bool, typer.Option(help="Measure what each difference is worth as well.")
    ] = True,
    stream: Annotated[
        bool, typer.Option("--stream", help="Run max-min on long streams of gangs instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the share policies with Gavel's simulator on its 100 jobs, and its differences."""
    from flyball.app import warm
    from flyball.experiments import gavel as bench

    if stream:
        _run_stream(as_json)
        return
    names = _names(policies, list(bench.THEIRS))
    shuffles = whole_number(shuffles, "--shuffles", 1, 1000)
    trace = bench.load()
    warm(note)
    with progress("replaying", bench.steps(names, switches), as_json) as step:
        figures = bench.run(trace, names, shuffles, switches, step)
    if as_json:
        print_json(figures)
        return
    header = ("policy", "Gavel (h)", "ours (h)", "Gavel mode (h)", "range", "error", "holds")
    print_table(
        f"Mean completion of Gavel's 100 jobs, {shuffles} shuffles of the types",
        header,
        [_row(row) for row in figures["policies"]],
    )
    if switches:
        _print_switches(figures["policies"])


def _run_stream(as_json: bool) -> None:
    """Measure the first jobs of streams of several loads and lengths, and print them."""
    from flyball.app import warm
    from flyball.experiments import gavel_stream as bench

    warm(note)
    with progress("replaying", len(bench.LOADS) * len(bench.LENGTHS), as_json) as step:
        figures = bench.run(bench.LOADS, step)
    if as_json:
        print_json(figures)
        return
    parts = ("free", "restarts", "owed", "fluid")
    rows = [
        (
            f"{row['load']:g}",
            f"{row['jobs']:,}",
            str(row["active"]),
            *(f"{row[f'{part}_h']:.1f} ({row[f'{part}_widest_h']:.1f})" for part in parts),
        )
        for row in figures["rows"]
    ]
    header = ("load", "jobs", "active at the last", "default", "restarts", "turns=owed", "fluid")
    print_table(
        f"Mean completion (h) of the first {bench.FIRST} jobs under {bench.POLICY}, and of gangs "
        f"of {max(bench.GANGS)} among them; restarts are free except in `restarts`",
        header,
        rows,
        2,
    )


def _names(text: str, listed: list[str]) -> list[str]:
    """Return the policies named, each once.

    Raises:
        BadInput: none is named, or one is not in the comparison.
    """
    from flyball.core.errors import BadInput, UnknownName

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadInput("--policies names no policy", "use all, or e.g. max-min,max-min-het")
    for name in names:
        if name not in (*listed, "all"):
            raise UnknownName("policy of the comparison", name, listed)
    return listed if "all" in names else names


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    span = f"{row['least_h']:.2f} - {row['most_h']:.2f}" if row["runs"] > 1 else "-"
    return (
        row["policy"],
        f"{row['theirs_h']:.2f}",
        f"{row['default_h']:.2f}",
        f"{row['mode_h']:.2f}",
        span,
        f"{row['error']:+.2%}",
        "yes" if row["holds"] else "NO",
    )


def _print_switches(policies: list[dict[str, Any]]) -> None:
    """Print a row per switch and a column per policy, from either side."""
    sides = (
        ("from_default", "Change of our mean completion with only this as in Gavel"),
        ("from_mode", "Change of the mean completion in Gavel mode with only this as ours"),
    )
    for key, title in sides:
        rows = [
            (switch["switch"], *(f"{row['switches'][at][key]:+.2%}" for row in policies))
            for at, switch in enumerate(policies[0]["switches"])
        ]
        typer.echo("")
        print_table(title, ("switch", *(row["policy"] for row in policies)), rows)
