"""Averages of forecasters: cheap to add, and often better than any member."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flyball.predict.load.contract import Outlook

MIXES: Mapping[str, tuple[str, ...]] = {
    "trees+changes": ("trees", "tree-changes"),
    "trees+smoothing": ("trees", "smoothing"),
    "linear+smoothing": ("linear", "smoothing"),
    "linear+changes": ("linear", "tree-changes"),
    "linear+trees+changes": ("linear", "trees", "tree-changes"),
    "yesterday+smoothing+linear": ("yesterday", "smoothing", "linear"),
    "yesterday+smoothing": ("yesterday", "smoothing"),
    "changes+last": ("tree-changes", "last"),
    "trees+changes+smoothing": ("trees", "tree-changes", "smoothing"),
    "changes+same-time": ("tree-changes", "same-time"),
    "parts+changes+same-time": ("parts", "tree-changes", "same-time"),
    "nets": ("lstm", "transformer"),
    "trees+transformer": ("trees", "transformer"),
    "changes+lstm": ("tree-changes", "lstm"),
}
"""Members of each mix by its name, all with the same weight."""


def with_mixes(outlooks: Mapping[str, Outlook]) -> dict[str, Outlook]:
    """Return the outlooks and every mix whose members are all present."""
    mixes = {
        name: mix([outlooks[member] for member in members])
        for name, members in MIXES.items()
        if all(member in outlooks for member in members)
    }
    return {**outlooks, **mixes}


def mix(members: list[Outlook]) -> Outlook:
    """Return the averages of means and quantiles by level, which keeps them in order."""
    return Outlook(
        np.mean([member.mean for member in members], axis=0),
        np.mean([member.quantiles for member in members], axis=0),
    )
