"""`flyball learn`: trains policies, compares them with everything simpler, shows what they are."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "train": Part(
        "learn.train:train", "Train a policy on drawn problems or on your own history; resumable."
    ),
    "compare": Part(
        "learn.compare:compare",
        "Compare policies with rules on problems that no training saw, paired, with intervals.",
    ),
    "search": Part(
        "learn.search:search",
        "Search hyper-parameters: genetic against random and particle swarm at equal budget.",
    ),
    "show": Part("learn.show:show", "Show a policy file: what it is, its scores and its limits."),
    "export": Part(
        "learn.show:export", "Copy the policy of a training run, checked, to where you serve it."
    ),
}


class Learn(LazyGroup):
    """Groups all commands of `flyball learn`."""

    parts = PARTS


app = typer.Typer(
    help="Train policies that choose the scheduler's knobs, and compare them with simpler ones.",
    cls=Learn,
    no_args_is_help=True,
)
