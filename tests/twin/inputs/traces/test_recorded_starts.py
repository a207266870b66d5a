"""Readers keep when jobs really started and ended, where the file states it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.twin.generate import rescale
from flyball.twin.inputs.traces import read_trace, write_trace

SAMPLES = Path(__file__).parent / "samples"


def starts_s(workload: Workload) -> dict[str, float | None]:
    """Recorded waits by job id, None where none is known."""
    waits = (workload.start_us - workload.submit_us) / US_PER_S
    recorded = workload.start_us >= 0
    rows = zip(workload.ids.tolist(), waits.tolist(), recorded.tolist(), strict=True)
    return {name: wait if has else None for name, wait, has in rows}


def test_sacct_start_and_end(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|Submit|Start|ElapsedRaw|State|AllocTRES\n"
        "1|2024-05-01T08:00:00|2024-05-01T08:10:00|60|COMPLETED|gres/gpu=1\n"
        "2|2024-05-01T08:00:00|Unknown|60|COMPLETED|gres/gpu=1\n"
    )
    got = read_trace(path)
    assert starts_s(got) == {"1": 600.0, "2": None}
    assert (got.end_us - got.start_us)[0] == 60 * US_PER_S
    assert got.end_us[1] == -1


def test_swf_wait_time() -> None:
    got = read_trace(SAMPLES / "log.swf")
    assert starts_s(got)["1"] == 5.0


@pytest.mark.parametrize(
    "sample", ["sacct.txt", "sacct-json.json", "kubernetes.jsonl", "openb.csv", "journal.jsonl"]
)
def test_samples_that_hold_starts(sample: str) -> None:
    got = read_trace(SAMPLES / sample)
    recorded = got.start_us >= 0
    assert recorded.any()
    assert (got.start_us[recorded] >= got.submit_us[recorded]).all()


@pytest.mark.parametrize("sample", ["philly.csv", "gavel.trace", "sia.csv", "elasticflow.csv"])
def test_samples_that_hold_none(sample: str) -> None:
    assert (read_trace(SAMPLES / sample).start_us == -1).all()


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.swf"])
def test_starts_survive_writing(tmp_path: Path, name: str) -> None:
    first = Workload.of(
        "w", [0, 10], [5, 7], start_us=[3 * US_PER_S, -1], end_us=[8 * US_PER_S, -1]
    )
    write_trace(first, tmp_path / name)
    again = read_trace(tmp_path / name)
    assert again.start_us.tolist() == first.start_us.tolist()
    assert again.end_us.tolist() == first.end_us.tolist()


def test_other_arrivals_have_no_record() -> None:
    first = Workload.of("w", [0, 10], [5, 7], start_us=[0, 10**7], end_us=[5 * 10**6, 2 * 10**7])
    assert (rescale(first, 0.5, 4).start_us == -1).all()
