"""Live jobs: their specs as plain values and back, their states, their labels."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.errors import BadInput
from flyball.core.jobs import ACTIVE, DEFAULTS, Job, JobSpec, JobState

TEXT = st.text(max_size=5)
SPECS = st.builds(
    JobSpec,
    argv=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    env=st.dictionaries(TEXT, TEXT, max_size=2),
    cpus=st.integers(1, 9),
    limit_s=st.floats(0, 100),
    after=st.lists(
        st.tuples(st.sampled_from(["afterok", "afterany"]), st.integers(1, 99)), max_size=2
    ).map(tuple),
    requeue=st.booleans(),
)


@given(SPECS)
def test_a_spec_survives_json(spec: JobSpec) -> None:
    assert JobSpec.of(json.loads(json.dumps(spec.as_dict()))) == spec


def test_only_what_differs_is_kept() -> None:
    assert JobSpec(("ls",)).as_dict() == {"argv": ("ls",)}
    assert JobSpec(("ls",), cpus=2, env={"A": "1"}).as_dict() == {
        "argv": ("ls",), "cpus": 2, "env": {"A": "1"},
    }  # fmt: skip
    assert DEFAULTS.keys() == {entry.name for entry in fields(JobSpec)}
    assert JobSpec(("a",)).env is not JobSpec(("b",)).env


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(BadInput, match="unknown field 'gpu' in a job"):
        JobSpec.of({"argv": ["ls"], "gpu": 1})


def test_final_states() -> None:
    assert [state for state in JobState if not state.final] == list(ACTIVE)
    assert JobState("TIMEOUT").final


def test_labels() -> None:
    assert Job(12, JobSpec(("ls",)), 0).label == "12"
    assert Job(12, JobSpec(("ls",), array=10, array_index=2), 0).label == "10_2"


@given(SPECS)
def test_equal_specs_have_equal_texts(spec: JobSpec) -> None:
    again = JobSpec.of(json.loads(spec.as_dict().text()))
    assert again == spec
    turned = dict(reversed(spec.env.items()))
    assert replace(spec, env=turned).as_dict().text() == spec.as_dict().text()


@given(SPECS, st.integers(1), st.integers(0))
def test_a_job_just_submitted_is_as_any_other(spec: JobSpec, job_id: int, time_us: int) -> None:
    quick, usual = Job.submitted(job_id, spec, time_us), Job(job_id, spec, time_us)
    assert quick == usual
    assert vars(quick) == vars(usual)
    assert repr(quick) == repr(usual)
    assert replace(quick, attempt=1) == replace(usual, attempt=1)
    assert quick.values is not Job.submitted(job_id, spec, time_us).values
