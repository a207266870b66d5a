"""`flyball bench learning`: parts are measured; how fast they are is no matter here."""

from __future__ import annotations

import pytest

from flyball.bench import learning


def test_steps_of_environments_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"PICK_RUNS": 3, "PICK_STEPS": 20, "SINGLE_STEPS": 20}
    for name, size in {**sizes, "GOVERN_RUNS": 2, "GOVERN_STEPS": 3}.items():
        monkeypatch.setattr(learning, name, size)
    steps: list[str] = []
    result = learning.run(lambda line: None, ("pick", "govern"), steps.append)
    assert steps == ["pick", "govern"]
    shown = learning.figures(result)
    assert [figure.name for figure in shown][:2] == [
        "Pick-v0, one environment",
        "Pick-v0, 3 side by side",
    ]
    assert len(shown) == 3


def test_a_choice_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SERVED", {"12 nodes": (12, 20, 200, 1.0)})
    shown = learning.figures(learning.run(lambda line: None, ("serve",)))
    assert [figure.name for figure in shown] == ["a choice on 12 nodes", "its trial on 12 nodes"]
