"""`flyball replay --decisions STATE`: repeats every recorded decision, and compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.cli.output import note, print_json, print_table
from flyball.core.errors import FlyballError

SHOWN = 20
"""Maximum number of differences printed; --json has all."""
PAGE = 1_000
"""Number of events read at a time."""


class Differ(FlyballError):
    """Repeated decisions that differ from the recorded ones."""

    exit_code = 1


def verify(state: Path, as_json: bool) -> None:
    """Repeat the decisions that the journal of a state folder records.

    Raises:
        Differ: some differ from the record.
    """
    from flyball.control.decide.verify import Verifier
    from flyball.control.journal.history import History
    from flyball.control.plane import JOURNAL
    from flyball.live import make_tuners, recorded_governor
    from flyball.twin.live import warm

    warm(note)
    with History(state / JOURNAL) as history:
        result = Verifier(make_tuners, recorded_governor).follow(_events(history))
    differing = [{"number": number, "what": what} for number, what in result.differing]
    if as_json:
        head = {"decisions": result.decisions, "actions": result.actions}
        rest = {"differ": len(differing), "differing": differing, "outdated": result.outdated}
        rest |= {"choices": result.choices, "absent": result.absent} if result.choices else {}
        print_json({**head, **rest})
    else:
        title = f"{result.decisions:,} decisions with {result.actions:,} actions repeated"
        made = f" ({result.choices:,} choices of a learned policy)" if result.choices else ""
        note(f"{title}{made}: {len(differing)} differ")
        for name, number in result.outdated.items():
            note(f"{number:,} adjustments by an earlier rule of {name} were not repeated")
        if result.absent:
            note(
                f"{result.absent:,} choices were taken from the record: the file of the learned "
                "policy is not here, or is another one"
            )
        if differing:
            rows = [(str(row["number"]), str(row["what"])) for row in differing[:SHOWN]]
            print_table("", ("decision", "what differs"), rows)
    if differing:
        raise Differ(f"{len(differing)} of {result.decisions} decisions differ", "see above")


def _events(history: Any) -> Iterator[Any]:
    after = 0
    while page := history.events(after, PAGE):
        after = page[-1][0]
        yield from page
