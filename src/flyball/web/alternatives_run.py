"""Weighs one recorded decision against other policies, in a process beside the control plane.

Run as `python -m flyball.web.alternatives_run`: it reads journal, number and policies as JSON from
its standard input, and prints the answer as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from flyball.control.decide.weigh import weigh
from flyball.control.journal.history import History
from flyball.core.errors import FlyballError, NotFound
from flyball.schedule.policies.registry import get_policy

PAGE = 1_000
POLICIES = ("fifo", "easy", "srtf", "tuned")
"""Policies that a decision is compared with."""


def answer(journal: str, number: int) -> dict[str, Any]:
    """Return what a decision could have been.

    Raises:
        NotFound: the journal has no such decision.
    """
    others = {name: get_policy(name).knobs for name in POLICIES}
    with History(journal) as history:
        if number not in [event["number"] for _seq, event in history.decisions(number - 1, 1)]:
            raise NotFound(f"no decision {number}", "see the list of decisions")
        weighed = weigh(_pages(history), number, others)
    assert weighed is not None
    return asdict(weighed)


def _pages(history: History) -> Iterator[list[Any]]:
    after = 0
    while page := history.events(after, PAGE):
        after = page[-1][0]
        yield page


def main() -> int:
    """Answer the question on the standard input; return the exit code."""
    question = json.load(sys.stdin)
    try:
        result = answer(question["journal"], question["number"])
    except FlyballError as error:
        result = {"error": str(error)}
    sys.stdout.write(json.dumps(result, default=float))
    return 2 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main())
