"""Explanations in three lines: the job with its reason, what blocks it, and what would help."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flyball.cli.output import WIDE

if TYPE_CHECKING:
    from flyball.schedule.explain import Explanation

CUT = " ..."
OR = "; or "
"""Separator between two remedies."""


def line_width() -> int:
    """Return the width of the terminal, or `WIDE` if the output goes to a file or a pipe."""
    return shutil.get_terminal_size((WIDE, 24)).columns


def brief_lines(explanation: Explanation, job: str, request: str, width: int) -> Iterator[str]:
    """Yield three lines on a job, none longer than `width`.

    Args:
        explanation: why the job waits.
        job: its name.
        request: its size and age, such as `8 GPUs, submitted 3 min ago`.
        width: width of a line, in columns.
    """
    yield fitted(f"{job}: {explanation.token} ({request})", width)
    yield "  " + fitted(explanation.sentence, width - 2)
    yield "  " + fitted(first_remedies(explanation.remedy, width - 2), width - 2)


def first_remedies(text: str, width: int) -> str:
    """Return as many of the remedies as fit in the line, at least one."""
    remedies = text.removesuffix(".").split(OR)
    for count in range(len(remedies), 1, -1):
        kept = OR.join(remedies[:count]) + "."
        if len(kept) <= width:
            return kept
    return remedies[0] + "."


def fitted(text: str, width: int) -> str:
    """Return the text if it fits in the line, else its first words and an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    room = max(1, width - len(CUT))
    start = set_cell_size(text, room)
    if text[len(start)] != " ":  # cut between words, unless a word is very long
        start = start.rsplit(" ", 1)[0]
    return start.rstrip(" ,;:(") + CUT
