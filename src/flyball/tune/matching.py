"""Matches rows with columns, or rows with each other, for the greatest total gain."""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats, Ints

EXACT = 256 * 256
"""Table size up to which the matching is exact.

Larger tables are matched greedily: at most half the gain is lost, in practice little.
"""


def match(gain: Floats) -> list[tuple[int, int]]:
    """Match rows and columns for the greatest total gain, each used once; 0 = not a pair.

    Returns:
        (row, column), greatest gain first.
    """
    if not gain.size:
        return []
    if gain.size > EXACT:
        return _greedy(gain)
    rows, columns = _assign(gain)
    pairs = [(int(a), int(b)) for a, b in zip(rows, columns, strict=True) if gain[a, b] > 0]
    return sorted(pairs, key=lambda pair: -gain[pair])


def pair_up(gain: Floats) -> list[tuple[int, int]]:
    """Match rows with each other, each row in at most one pair; `gain` is made symmetric.

    An assignment of the rows to each other consists of cycles. Of an even cycle the better half
    of its links is taken, of an odd one the best that leaves a row out: so at least two thirds
    of the gain of the best matching. Rows left over are paired again among themselves.

    Returns:
        (a, b) with a < b, greatest gain first.
    """
    both = (gain + gain.T) / 2
    np.fill_diagonal(both, 0.0)
    if both.size > EXACT:
        return _greedy(np.triu(both), symmetric=True)
    pairs: list[tuple[int, int]] = []
    left = np.arange(len(both))
    while True:
        more = _by_cycles(both[np.ix_(left, left)])
        if not more:
            return sorted(pairs, key=lambda pair: -both[pair])
        pairs += [(int(left[a]), int(left[b])) for a, b in more]
        left = np.setdiff1d(left, np.array(pairs).ravel())


def _by_cycles(gain: Floats) -> list[tuple[int, int]]:
    """Return the pairs from the cycles of one assignment."""
    pairs: list[tuple[int, int]] = []
    if not gain.size:
        return pairs
    _, to = _assign(gain)
    seen = np.zeros(len(gain), bool)
    for first in range(len(gain)):
        cycle = []
        at = first
        while not seen[at]:
            seen[at] = True
            cycle.append(at)
            at = int(to[at])
        pairs += _best_of_cycle(cycle, gain)
    return pairs


def _assign(gain: Floats) -> tuple[Ints, Ints]:
    from scipy.optimize import linear_sum_assignment  # slow to load

    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns


def _best_of_cycle(cycle: list[int], gain: Floats) -> list[tuple[int, int]]:
    """Return the disjoint links of a cycle with the greatest gain; links of 0 do not count."""
    if len(cycle) < 2:
        return []
    turns = len(cycle) if len(cycle) % 2 else 2
    best: list[tuple[int, int]] = []
    worth = 0.0
    for turn in range(turns):
        turned = cycle[turn:] + cycle[:turn]
        links = list(zip(turned[::2], turned[1::2], strict=False))
        total = float(sum(gain[link] for link in links))
        if total > worth:
            best, worth = links, total
    return [(min(link), max(link)) for link in best if gain[link] > 0]


def _greedy(gain: Floats, symmetric: bool = False) -> list[tuple[int, int]]:
    """Match greedily, greatest gain first; ties: lowest row, then column."""
    rows, columns = np.nonzero(gain > 0)
    order = np.argsort(-gain[rows, columns], kind="stable")
    taken_rows: set[int] = set()
    taken_columns = taken_rows if symmetric else set[int]()
    pairs = []
    for a, b in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if a not in taken_rows and b not in taken_columns:
            taken_rows.add(a)
            taken_columns.add(b)
            pairs.append((a, b))
    return pairs
