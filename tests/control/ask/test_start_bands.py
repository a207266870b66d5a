"""Start-time forecasts hold at their levels, whatever the roll-outs say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from flyball.control.ask.start_bands import CALIBRATED, Edges, StartBands, rank_of
from flyball.core.errors import BadInput


def follow(bands: StartBands, bias: float, jobs: int, seed: int) -> tuple[float, float, float]:
    """Run jobs that wait about `bias` times as long as forecast; return shares kept and the p90."""
    rng = np.random.default_rng(seed)
    kept: list[list[bool]] = [[], []]
    for job in range(jobs):
        now_s = 1000.0 * job
        wait_s = 3600.0 * bias * float(np.exp(rng.standard_normal()))
        edges = bands.expect(job, Edges(3600.0, 2 * 3600.0), now_s)
        bands.started(job, now_s + wait_s)
        if job >= jobs // 4:
            for at, edge_s in enumerate(edges):
                kept[at].append(wait_s <= edge_s)
    return float(np.mean(kept[0])), float(np.mean(kept[1])), edges.p90_s


@pytest.mark.parametrize("bias", [0.3, 1.0, 5.0])
def test_edges_hold_as_often_as_their_level(bias: float) -> None:
    p50, p90, edge_s = follow(StartBands(), bias, 4000, 1)
    assert p50 == pytest.approx(0.5, abs=0.03)
    assert p90 == pytest.approx(0.9, abs=0.02)
    right_s = 3600.0 * bias * math.exp(1.2816)
    assert right_s / 2 < edge_s < right_s * 2


def test_a_start_at_once_stays_one() -> None:
    bands = StartBands()
    follow(bands, 5.0, 500, 2)
    assert bands.correct(Edges(0.0, 0.0)) == Edges(0.0, 0.0)


def test_a_wait_stays_one() -> None:
    bands = StartBands()
    follow(bands, 0.1, 500, 2)  # so far all started much sooner than they were told
    edges = bands.correct(Edges(5.0, 20.0))
    assert 0.0 < edges.p50_s < 5.0
    assert edges.p50_s <= edges.p90_s < 20.0


def test_a_miss_is_counted_when_the_edge_has_passed() -> None:
    bands = StartBands()
    edges = bands.expect(1, Edges(100.0, 200.0), 0.0)
    bands.advance(150.0)
    assert [len(value) for value in bands.outcomes] == [1, 0]
    assert bands.common[0] > 0.0
    bands.advance(250.0)
    assert [list(value) for value in bands.outcomes] == [[False], [False]]
    bands.started(1, 300.0)
    assert [len(value) for value in bands.outcomes] == [1, 1], "each edge is learnt from once"
    assert bands.waiting == 0
    later = bands.correct(Edges(100.0, 200.0))
    assert later.p50_s > edges.p50_s
    assert later.p90_s > edges.p90_s


def test_only_the_first_forecast_of_a_job_counts() -> None:
    bands = StartBands()
    bands.expect(1, Edges(100.0, 200.0), 0.0)
    bands.expect(1, Edges(1.0, 2.0), 0.0)
    bands.started(1, 90.0)
    assert bands.coverage() == [1.0, 1.0]


def test_a_cancelled_job_is_not_learnt_from() -> None:
    bands = StartBands()
    bands.expect(1, Edges(100.0, 200.0), 0.0)
    bands.forget(1)
    bands.advance(1e6)
    assert all(math.isnan(value) for value in bands.coverage())


def test_what_was_learnt_survives_a_restart(tmp_path: Path) -> None:
    bands = StartBands()
    follow(bands, 5.0, 300, 3)
    bands.save(tmp_path / "starts.json")
    again = StartBands.load(tmp_path / "starts.json")
    raw = Edges(500.0, 900.0)
    assert again.correct(raw) == bands.correct(raw) != raw
    assert again.coverage() == bands.coverage()
    assert list(tmp_path.iterdir()) == [tmp_path / "starts.json"], "no half-written file is left"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"version": 2}',
        json.dumps({**StartBands().as_dict(), "common": [0.0]}),
        json.dumps({**StartBands().as_dict(), "common": ["x", 1]}),
        json.dumps({**StartBands().as_dict(), "own": []}),
        json.dumps({**StartBands().as_dict(), "outcomes": [[1]]}),
    ],
)
def test_a_bad_file_is_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "starts.json"
    path.write_text(text)
    assert StartBands.load(path).as_dict() == StartBands().as_dict()
    assert StartBands.load(tmp_path / "absent").as_dict() == StartBands().as_dict()


def test_invalid_values_are_refused() -> None:
    with pytest.raises(BadInput, match="start times"):
        StartBands.of({"version": 1, "common": [math.nan, 0.0], "own": [], "outcomes": []})


def test_calibration_at_all_levels() -> None:
    """Waits drawn from what the forecasts say hold as often as promised; overdue ones do not."""
    bands = StartBands()
    edges = Edges(600.0, 1800.0)
    assert rank_of(edges, 600.0) == pytest.approx(0.5)
    assert rank_of(edges, 1800.0) == pytest.approx(0.9)
    assert rank_of(Edges(0.0, 0.0), 5.0) == 1.0
    for at in range(99):  # evenly over all levels
        bands.ranks.append((at + 0.5) / 99)
    rows = bands.calibration(0.0)
    assert [level for level, _share, _count in rows] == list(CALIBRATED)
    assert all(abs(level - share) < 0.02 for level, share, _count in rows)
    assert StartBands.of(bands.as_dict()).ranks == bands.ranks
    bands.expect(1, edges, 0.0)
    corrected = bands.correct(edges)
    after = bands.calibration(corrected.p90_s * 1.01)
    assert [count for _level, _share, count in after] == [100] * 10 + [99]


def test_a_file_of_an_earlier_version_has_no_ranks() -> None:
    values = StartBands().as_dict()
    del values["ranks"]
    assert not StartBands.of(values).ranks
