"""`flyball bench placement`: devices that a place rule strands on a full cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench placement
  flyball bench placement --seeds 2 --rules best-fit,fgd --json
  flyball bench placement --nodes nodes.csv --pods pods.csv --over 1.1
"""
DEFAULT_RULES = "random,best-fit,fgd"


def placement(
    seeds: Annotated[int, typer.Option(help="Draws of pods; every rule sees the same.")] = 10,
    rules: Annotated[str, typer.Option(help="Place rules, separated by commas.")] = DEFAULT_RULES,
    over: Annotated[
        float, typer.Option(help="Draw pods until they request this multiple of the devices.")
    ] = 1.3,
    nodes: Annotated[
        Path | None, typer.Option(help="Node list (CSV) or cluster file. [default: shared data]")
    ] = None,
    pods: Annotated[
        Path | None, typer.Option(help="Trace to draw pods from. [default: shared data]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the share of devices left unallocated when pods arrive and none leaves."""
    from flyball.experiments import placement as bench
    from flyball.twin.twin import warm

    names = _rules(rules)
    seeds = whole_number(seeds, "--seeds", 1, 1000)
    over = _over(over)
    setting = bench.load(nodes, pods, note)
    warm(note)
    with progress("placing", seeds * len(names), as_json) as step:
        figures = bench.compare(setting, names, over, seeds, step)
    if as_json:
        print_json(figures)
        return
    title = (
        f"{figures['devices']:,} devices on {figures['nodes']:,} nodes, pods drawn until "
        f"{over:.0%} is asked for, {seeds} draws"
    )
    header = ("rule", "unallocated", "range", "published", "pods", "placed", "pods per CPU-s")
    print_table(title, header, [_row(rule) for rule in figures["rules"]])
    build_s = max(rule["build_cpu_s"] for rule in figures["rules"])
    note(f"CPU time of the compiled run; building a twin takes another {build_s:.2g} s at most")


def _rules(text: str) -> list[str]:
    """Return the rules named, each once.

    Raises:
        BadInput: none is named, or one does not exist.
    """
    from flyball.core.errors import BadInput, UnknownName
    from flyball.core.knobs import Place, choices

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadInput("--rules names no rule", f"e.g. {DEFAULT_RULES}")
    for name in names:
        if name not in choices(Place):
            raise UnknownName("place rule", name, choices(Place))
    return names


def _over(value: float) -> float:
    from flyball.core.errors import BadInput

    if not 0.01 <= value <= 100.0:  # also refuses NaN
        raise BadInput(f"--over {value:g} is out of range", "use 0.01 to 100")
    return value


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    published = rule["published"]
    return (
        rule["rule"],
        f"{rule['unallocated_mean']:.2%}",
        f"{rule['unallocated_least']:.2%} - {rule['unallocated_most']:.2%}",
        "-" if published is None else f"{published:.1%}",
        f"{rule['pods_mean']:,.0f}",
        f"{rule['placed_mean']:,.0f}",
        f"{rule['pods_per_cpu_s']:,.0f}",
    )
