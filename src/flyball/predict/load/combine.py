"""Averages of forecasters: cheaper than any of them to add, and often better than each."""

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
"""Name of each mix and what it averages, all with the same weight."""


def with_mixes(outlooks: Mapping[str, Outlook]) -> dict[str, Outlook]:
    """The same and every mix whose members are all there."""
    mixes = {
        name: mix([outlooks[each] for each in members])
        for name, members in MIXES.items()
        if all(each in outlooks for each in members)
    }
    return {**outlooks, **mixes}


def mix(members: list[Outlook]) -> Outlook:
    """Means and quantiles averaged level by level, which keeps them in order."""
    return Outlook(
        np.mean([each.mean for each in members], axis=0),
        np.mean([each.quantiles for each in members], axis=0),
    )
