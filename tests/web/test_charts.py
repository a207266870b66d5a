"""What charts are made from: bands, curves of training, choices of a learned policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flyball.learn.policy.artifact import shipped
from flyball.web.bands import EARLIER, PRESENT, band_options
from flyball.web.learned_policy import (
    choices_of,
    curve_options,
    describe,
    fall_backs,
    policy_in_use,
    score_text,
)

ROW: dict[str, Any] = {
    "series": "running", "unit": "devices", "time": 1000.0, "step_s": 60.0,
    "seen": [1.0, None, 3.0], "ahead_s": [60.0, 120.0],
    "p05": [-1.0, 1.0], "p50": [2.0, 2.0], "p95": [4.0, 40.0], "earlier": [],
}  # fmt: skip


def test_a_band_reaches_from_the_past_into_the_future() -> None:
    options = band_options(ROW, now=5.0, most=8)
    happened = next(one for one in options["series"] if one["name"] == "happened")
    assert happened["data"] == [[880_000, 1.0], [940_000, None], [1_000_000, 3.0], [1_060_000, 5.0]]
    assert options["yAxis"]["max"] == 8
    low = next(one for one in options["series"] if one["name"] == f"{PRESENT} from")
    assert low["data"] == [[1_060_000, 0.0], [1_120_000, 1.0]], "nothing below zero"
    assert EARLIER not in options["legend"]["data"]
    earlier = {"time": 400.0, "ahead_s": [60.0], "p05": [0.0], "p50": [1.0], "p95": [2.0]}
    options = band_options({**ROW, "earlier": [earlier]})
    assert EARLIER in options["legend"]["data"]
    assert options["yAxis"]["max"] == 12, "the wide end of the band does not hide the rest"


def test_the_shipped_policy_is_described_where_none_is_in_use() -> None:
    assert policy_in_use({"policy": "easy"}) is None
    about = describe(None)
    assert about["path"] == str(shipped())
    assert about["curves"] == {}
    assert "problems that it was chosen on" in score_text(about["card"])


def test_the_curve_lies_beside_the_policy(tmp_path: Path) -> None:
    """That of the policy comes first, those of the runs beside it follow."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows = "step,epochs,validation\n1,10,\n2,20,-0.1\n3,30,-0.2\n"
        (tmp_path / name / "curve.csv").write_text(rows, "utf-8")
    for suffix in (".safetensors", ".json"):
        content = shipped().with_suffix(suffix).read_bytes()
        (tmp_path / "b" / f"policy{suffix}").write_bytes(content)
    file = policy_in_use({"learned": {"file": str(tmp_path / "b" / "policy.safetensors")}})
    about = describe(file)
    assert list(about["curves"]) == ["b", "a"]
    first = curve_options(about["curves"])["series"][0]
    assert [point[0] for point in first["data"]] == [20.0, 30.0]
    assert first["data"][0][1] < 0
    (tmp_path / "b" / "policy.json").write_text(json.dumps({}), "utf-8")
    assert "error" in describe(file)


def test_fall_backs_are_counted_by_reason() -> None:
    decisions = [
        {"number": at, "time_us": at * 1_000_000, "learned": {"strategy": "easy", **more}}
        for at, more in enumerate([{}, {"fallback": "late"}, {"fallback": "late"}, {}])
    ]
    choices = choices_of([{"number": 9, "time_us": 1, "learned": None}, *decisions])
    assert [choice["time"] for choice in choices] == [0.0, 1.0, 2.0, 3.0]
    assert fall_backs(choices) == [("late", 2, 0.5)]
