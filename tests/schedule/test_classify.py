from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.workload import JobClass
from flyball.physics import measured
from flyball.schedule.classify import KNOWN_MODELS, classify, classify_one

NAN = math.nan
MODELS = ("ResNet-50 (batch size 64)", "unheard-of", "LM:20", "a3c")


@pytest.mark.parametrize(
    ("job", "kind", "reason"),
    [
        ((0, 1, 1000, NAN, None), JobClass.COMPUTE_INTENSIVE, "nothing known"),
        ((1024, 1, 1000, NAN, None), JobClass.COMPUTE_INTENSIVE, "1.0 GiB a device, at most 2"),
        ((8192, 4, 1000, NAN, None), JobClass.MIXED, "8.0 GiB a device, between 2 and 16"),
        ((40960, 4, 1000, NAN, None), JobClass.MEMORY_BOUND, "40.0 GiB a device, above 16"),
        ((2048, 1, 250, NAN, None), JobClass.LATENCY_SENSITIVE, "25 % of one device, 2.0 GiB"),
        ((0, 1, 500, 60e6, None), JobClass.LATENCY_SENSITIVE, "50 % of one device, 60 s"),
        ((0, 1, 500, 9e9, None), JobClass.COMPUTE_INTENSIVE, "nothing known"),
        ((0, 32, 1000, NAN, None), JobClass.BANDWIDTH_LIMITED, "a gang of 32, 16 or more"),
        ((0, 32, 1000, NAN, "ResNet-50:64"), JobClass.COMPUTE_INTENSIVE, "resnet-50: conv"),
        ((0, 1, 1000, NAN, "Recommendation:9"), JobClass.MEMORY_BOUND, "recommendation: embed"),
        ((0, 1, 1000, NAN, "A3C"), JobClass.LATENCY_SENSITIVE, "a3c: many small steps"),
    ],
)
def test_one_job(job: tuple[int, int, int, float, str | None], kind: JobClass, reason: str) -> None:
    verdict = classify_one(*job)
    assert verdict.kind is kind
    assert verdict.reason.startswith(reason)


def test_every_measured_model_has_a_class() -> None:
    assert {key.model.lower() for key in measured.models()} == set(KNOWN_MODELS)


jobs = st.lists(
    st.tuples(
        st.integers(0, 100_000),
        st.integers(1, 64),
        st.integers(1, 1000),
        st.one_of(st.just(NAN), st.floats(1, 1e12)),
        st.integers(-1, len(MODELS) - 1),
    ),
    min_size=1,
)


@given(jobs)
def test_columns_and_single_jobs_agree(rows: list[tuple[int, int, int, float, int]]) -> None:
    memory, gang, milli, estimate, model_code = map(np.array, zip(*rows, strict=True))
    kinds = classify(memory, gang, milli, estimate, model_code, MODELS)
    for row, kind in zip(rows, kinds, strict=True):
        model = MODELS[row[4]] if row[4] >= 0 else None
        assert classify_one(*row[:4], model).kind == kind


def test_scalars_stand_for_a_whole_column() -> None:
    kinds = classify([1024, 40960], 1, 1000, NAN, -1)
    assert kinds.tolist() == [JobClass.COMPUTE_INTENSIVE, JobClass.MEMORY_BOUND]
