"""Final states, a byte each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.control.jobs.ended import Ended
from flyball.core.jobs import JobState

FINAL = [state for state in JobState if state.final]


@given(st.dictionaries(st.integers(1, 5000), st.sampled_from(FINAL)))
def test_it_is_a_dictionary(states: dict[int, JobState]) -> None:
    found = Ended(states.items())
    assert found == states
    assert len(found) == len(states)
    assert found.last == max(states, default=0)
    for job_id in range(0, 6000, 7):
        assert (job_id in found) == (job_id in states)
        assert found.get(job_id) == states.get(job_id)


def test_what_has_not_ended() -> None:
    found = Ended([(3, JobState.FAILED)])
    assert -1 not in found
    assert found.get(10**12) is None
    with pytest.raises(KeyError):
        found[2]
    found[3] = JobState.COMPLETED
    assert (len(found), found[3]) == (1, JobState.COMPLETED)


def test_a_million_take_a_megabyte() -> None:
    found = Ended([(10**6, JobState.COMPLETED)])
    assert len(found._codes) == 10**6 + 1
