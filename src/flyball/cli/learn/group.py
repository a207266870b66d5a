"""`flyball learn`: trains policies, compares them with everything simpler, shows what they are."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "train": Part(
        "learn.train:train", "Train a policy; keep the best one, its curve and its card."
    ),
    "compare": Part(
        "learn.compare:compare",
        "Compare policies with the rules they have to beat, on what neither has seen.",
    ),
    "search": Part(
        "learn.search:search",
        "Search hyper-parameters three ways at equal budget; say whether the genetic one pays.",
    ),
    "show": Part(
        "learn.show:show", "Show what a policy is, how it was made, its scores and its limits."
    ),
    "export": Part(
        "learn.show:export", "Copy a policy with its card, after checking that it can be served."
    ),
}


class Learn(LazyGroup):
    """Groups all commands of `flyball learn`."""

    parts = PARTS


app = typer.Typer(
    help="Train policies that choose the knobs; compare them with simpler ones.",
    cls=Learn,
    no_args_is_help=True,
)
