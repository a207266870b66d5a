"""The one table that every benchmark prints its figures in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flyball.cli.output import print_table

if TYPE_CHECKING:
    from flyball.bench.figure import Figure

VERDICTS = {None: "", True: "yes", False: "NO"}


def print_figures(title: str, figures: Sequence[Figure], labels: Sequence[str] = ()) -> None:
    """Print figures with their bars, intervals and verdicts; columns without an entry are left out.

    Args:
        title: of the table.
        figures: one row each.
        labels: headings of the figures' labels, which come before their names.
    """
    cells = [
        (
            *figure.labels,
            figure.name,
            figure.value_text,
            figure.bar.text,
            figure.interval_text,
            VERDICTS[figure.holds],
        )
        for figure in figures
    ]
    header = (*labels, "figure", "value", "bar", "interval", "holds")
    text_columns = len(labels) + 1
    used = [at for at in range(len(header)) if at <= text_columns or any(row[at] for row in cells)]
    print_table(
        title,
        [header[at] for at in used],
        [[row[at] for at in used] for row in cells],
        text_columns,
    )
