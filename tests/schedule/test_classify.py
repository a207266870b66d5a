"""Classes of jobs: golden verdicts, and that columns and single jobs agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core.workload import JobClass, Workload
from flyball.schedule.classify import classify, classify_one, classify_workload, judge
from flyball.schedule.classify.score import RANGES, FeatureRange

NAN = math.nan
MODELS = ("ResNet-50 (batch size 64)", "unheard-of", "LM:20", "a3c", "imagenet", "yolov3")
COMPUTE, MEMORY, LATENCY, BANDWIDTH, MIXED = JobClass


@pytest.mark.parametrize(
    ("job", "kind", "reason"),
    [
        ((0, 1, 1000, NAN), COMPUTE, "nothing known that says otherwise"),
        ((1024, 1, 1000, NAN), COMPUTE, "1.0 GiB a device, the class has 0.5 to 2"),
        ((2048, 1, 1000, NAN), COMPUTE, "2.0 GiB a device, the class has 0.5 to 2"),
        ((3072, 1, 1000, NAN), MIXED, "3.0 GiB a device, the class has 4 to 32"),
        ((8192, 4, 1000, NAN), MIXED, "8.0 GiB a device, the class has 4 to 32"),
        ((16384, 1, 1000, NAN), MIXED, "16.0 GiB a device, the class has 4 to 32"),
        ((16385, 1, 1000, NAN), MEMORY, "16.0 GiB a device, the class has 8 to 64 or more"),
        ((40960, 4, 1000, NAN), MEMORY, "40.0 GiB a device, the class has 8 to 64 or more"),
        ((200_000, 1, 1000, NAN), MEMORY, "195.3 GiB a device, the class has 8 to 64 or more"),
        ((2048, 1, 250, NAN), LATENCY, "25 % of one device, 2.0 GiB"),
        ((1024, 1, 999, 9e9), LATENCY, "99.9 % of one device, 1.0 GiB, 2.5 h"),
        ((0, 1, 500, 60e6), LATENCY, "50 % of one device, 60 s"),
        ((0, 1, 500, NAN), COMPUTE, "nothing known that says otherwise"),
        ((0, 1, 500, 9e9), COMPUTE, "nothing known that says otherwise"),
        ((9216, 1, 500, NAN), MIXED, "9.0 GiB a device, the class has 4 to 32"),
        ((0, 2, 500, 60e6), COMPUTE, "nothing known that says otherwise"),
        ((0, 8, 1000, NAN), COMPUTE, "nothing known that says otherwise"),
        ((0, 12, 1000, NAN), BANDWIDTH, "a gang of 12, more than one node of 8"),
        ((0, 32, 1000, NAN), BANDWIDTH, "a gang of 32, more than one node of 8"),
        ((81_920, 16, 1000, NAN), BANDWIDTH, "a gang of 16, more than one node of 8"),
        ((3072, 1, 1000, 60e6, None, 0.0), MIXED, "3.0 GiB a device, the class has 4 to 32"),
        ((3072, 1, 1000, 60e6, None, 1.0), LATENCY, "3.0 GiB a device, the class has 1 to 8"),
        ((3072, 4, 1000, 60e6, None, 1.0), MIXED, "3.0 GiB a device, the class has 4 to 32"),
        ((99_999, 32, 1000, NAN, "unheard-of"), BANDWIDTH, "a gang of 32"),
    ],
)
def test_one_job(job: tuple[int, int, int, float], kind: JobClass, reason: str) -> None:
    verdict = classify_one(*job)
    assert verdict.kind is kind
    assert verdict.reason.startswith(reason)


def test_a_known_model_outweighs_the_columns() -> None:
    alone = classify_one(model="ResNet-50")
    assert classify_one(40_960, 64, 100, 5e6, "resnet50:128", 3.0) == alone


def test_confidence_by_hand() -> None:
    # Nothing known, one whole device. Costs: compute-intensive 0; mixed and memory-bound 0.1;
    # latency-sensitive (1 / 0.35)^2 / 2 + 0.1; bandwidth-limited 3^2 / 2 + 0.1.
    costs = [0.0, 0.1, 0.1, (1 / 0.35) ** 2 / 2 + 0.1, 4.5 + 0.1]
    expected = 1 / sum(math.exp(-cost) for cost in costs)
    assert classify_one().confidence == pytest.approx(expected)
    assert expected == pytest.approx(0.352, abs=0.001)


def test_confidence_grows_with_what_is_known() -> None:
    nothing, memory = classify_one(), classify_one(memory_mib=1024)
    gang, model = classify_one(devices=64), classify_one(model="ResNet-50")
    assert nothing.confidence < memory.confidence < gang.confidence
    assert nothing.confidence < 0.4
    assert model.confidence > 0.95


def test_memory_and_parallel_part_are_those_of_the_table() -> None:
    def ends(part: FeatureRange, base: float = 0) -> tuple[float, float]:
        low, high = part.middle - part.half, part.middle + part.half
        return (base**low, base**high) if base else (low, high)

    memory = {kind: ends(parts[0], 2) for kind, parts in RANGES.items()}
    assert memory[COMPUTE] == pytest.approx((0.5, 2))
    assert memory[MEMORY] == pytest.approx((8, 64))
    assert memory[LATENCY] == pytest.approx((1, 8))
    assert memory[BANDWIDTH] == pytest.approx((2, 16))
    assert memory[MIXED] == pytest.approx((4, 32))
    parallel = {kind: ends(parts[3]) for kind, parts in RANGES.items()}
    assert parallel[COMPUTE] == pytest.approx((0.85, 0.95))
    assert parallel[MEMORY] == pytest.approx((0.30, 0.60))
    assert parallel[LATENCY] == pytest.approx((0.40, 0.70))
    assert parallel[BANDWIDTH] == pytest.approx((0.50, 0.80))
    assert parallel[MIXED] == pytest.approx((0.60, 0.85))


jobs = st.lists(
    st.tuples(
        st.integers(0, 100_000),
        st.integers(1, 64),
        st.integers(1, 1000),
        st.one_of(st.just(NAN), st.floats(1, 1e12)),
        st.integers(-1, len(MODELS) - 1),
        st.sampled_from([-1.0, 0.0, 2.0]),
    ),
    min_size=1,
)


@given(jobs)
def test_columns_and_single_jobs_agree(
    rows: list[tuple[int, int, int, float, int, float]],
) -> None:
    memory, gang, milli, estimate, code, priority = map(np.array, zip(*rows, strict=True))
    verdicts = judge(memory, gang, milli, estimate, code, MODELS, priority)
    assert classify(memory, gang, milli, estimate, code, MODELS, priority).tolist() == (
        verdicts.kind.tolist()
    )
    for i, row in enumerate(rows):
        model = MODELS[row[4]] if row[4] >= 0 else None
        one = classify_one(*row[:4], model, row[5])
        assert one.kind == verdicts.kind[i]
        assert one.reason == verdicts.reason(i)
        assert one.confidence == verdicts.confidence[i]
        assert 0 < one.confidence <= 1


def test_scalars_stand_for_a_whole_column() -> None:
    assert classify([1024, 40_960], 1, 1000, NAN, -1).tolist() == [COMPUTE, MEMORY]


def test_no_jobs() -> None:
    assert len(judge([], [], [], [], []).kind) == 0


def test_what_a_trace_states_stays() -> None:
    workload = Workload.of("two", [0, 1], 60.0, 1, kind=[BANDWIDTH, -1], memory_mib=1024)
    verdicts = classify_workload(workload)
    assert verdicts.kind.tolist() == [BANDWIDTH, COMPUTE]
    assert verdicts.confidence[0] == 1.0
    assert verdicts.reason(0) == "stated in the trace"
    assert verdicts.reason(1).startswith("1.0 GiB")


def test_many_jobs_are_of_all_classes() -> None:
    """How long a million take is in `flyball bench parts`."""
    size = 10_000
    random = np.random.default_rng(1)
    memory, gang = random.integers(0, 80_000, size), 2 ** random.integers(0, 6, size)
    kinds = classify(memory, gang, 1000, random.lognormal(20, 2, size), -1)
    assert set(kinds.tolist()) == {COMPUTE, MEMORY, BANDWIDTH, MIXED}
