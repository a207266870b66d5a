"""`flyball watch`: advises on a queue that another scheduler runs."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "slurm": Part(
        "watch.slurm:slurm",
        "Forecast when pending Slurm jobs start, and explain why they wait; changes nothing.",
    ),
}


class Watch(LazyGroup):
    """Loads the commands of `flyball watch`."""

    parts = PARTS


app = typer.Typer(
    help="Advise on a queue that another scheduler runs, without changing it.",
    cls=Watch,
    no_args_is_help=True,
    rich_markup_mode=None,
)
