"""`flyball replay --decisions STATE`: make every recorded decision again, and compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.cli.output import note, print_json, print_table
from flyball.core.errors import FlyballError

SHOWN = 20
PAGE = 1_000


class Differ(FlyballError):
    """Decisions that do not come out as they are on record."""

    exit_code = 1


def verify(state: Path, as_json: bool) -> None:
    """Make again what the journal of a state folder says was decided.

    Raises:
        Differ: some came out otherwise.
    """
    from flyball.app import make_tuners
    from flyball.control.decide.verify import Verifier
    from flyball.control.journal.history import History
    from flyball.control.plane import JOURNAL
    from flyball.twin.live import warm

    warm(note)
    with History(state / JOURNAL) as history:
        found = Verifier(make_tuners).follow(_events(history))
    differing = [{"number": number, "what": what} for number, what in found.differing]
    if as_json:
        head = {"decisions": found.decisions, "actions": found.actions}
        print_json({**head, "differ": len(differing), "differing": differing})
    else:
        title = f"{found.decisions:,} decisions with {found.actions:,} actions made again"
        note(f"{title}: {len(differing)} differ")
        if differing:
            rows = [(str(each["number"]), str(each["what"])) for each in differing[:SHOWN]]
            print_table("", ("decision", "what differs"), rows)
    if differing:
        raise Differ(f"{len(differing)} of {found.decisions} decisions differ", "see above")


def _events(history: Any) -> Iterator[Any]:
    after = 0
    while page := history.events(after, PAGE):
        after = page[-1][0]
        yield from page
