"""Final states, a byte each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.control.jobs.ended import FinalStates
from flyball.core.jobs import JobState

FINAL = [state for state in JobState if state.final]


@given(st.dictionaries(st.integers(1, 5000), st.sampled_from(FINAL)))
def test_it_behaves_as_a_dictionary(states: dict[int, JobState]) -> None:
    ended = FinalStates(states.items())
    assert ended == states
    assert len(ended) == len(states)
    assert ended.last == max(states, default=0)
    for job_id in range(0, 6000, 7):
        assert (job_id in ended) == (job_id in states)
        assert ended.get(job_id) == states.get(job_id)


def test_what_has_not_ended() -> None:
    ended = FinalStates([(3, JobState.FAILED)])
    assert -1 not in ended
    assert ended.get(10**12) is None
    with pytest.raises(KeyError):
        ended[2]
    ended[3] = JobState.COMPLETED
    assert (len(ended), ended[3]) == (1, JobState.COMPLETED)


def test_a_million_take_a_megabyte() -> None:
    ended = FinalStates([(10**6, JobState.COMPLETED)])
    assert len(ended._codes) == 10**6 + 1
