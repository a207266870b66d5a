"""Keys of appends: a repeated append is done once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.control.journal.cases import Gate, Kept, submitted
from tests.until import WAIT_S

from flyball.control.journal.store import Changes, Journal
from flyball.core.events import Event


def test_a_key_is_used_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "journal.db")
    first = kept.journal.append([submitted(1), submitted(2)], "k", {"ids": [1, 2]})
    assert (first.wait(), first.answer, first.repeated) == (2, {"ids": [1, 2]}, False)
    kept.journal.append([submitted(3)]).wait()
    again = kept.journal.append([submitted(4), submitted(5)], "k", {"ids": [4, 5]})
    assert (again.wait(), again.answer, again.repeated) == (2, {"ids": [1, 2]}, True)
    assert kept.journal.last().seq == 3
    assert set(kept.live_state.jobs) == {1, 2, 3}
    assert kept.journal.answer("k") == ({"ids": [1, 2]}, 2)
    kept.journal.close()


def test_a_key_twice_in_one_commit(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "journal.db")
    gate.journal.append([submitted(1)])
    assert gate.entered.wait(WAIT_S)
    tickets = [gate.journal.append([submitted(job)], "k", job) for job in (2, 3)]
    gate.opened.set()
    assert [ticket.wait(WAIT_S) for ticket in tickets] == [2, 2]
    assert [(ticket.answer, ticket.repeated) for ticket in tickets] == [(2, False), (2, True)]
    gate.journal.close()


def test_a_key_of_an_append_that_failed_is_free(tmp_path: Path) -> None:
    calls: list[int] = []

    def fold(events: Sequence[Event]) -> Changes:
        calls.append(len(events))
        if len(calls) == 1:
            raise KeyError("spec")
        return {}

    with Journal(tmp_path / "journal.db", fold, inline=True) as journal:
        with pytest.raises(KeyError):
            journal.append([submitted(1)], "k", 1).wait()
        assert journal.answer("k") is None
        again = journal.append([submitted(1)], "k", 2)
        assert (again.wait(), again.answer, again.repeated) == (1, 2, False)
