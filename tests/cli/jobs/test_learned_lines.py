"""What `flyball why` says of a learned policy."""

from __future__ import annotations

from typing import Any

from flyball.cli.jobs.why import learned_lines

LEARNED: dict[str, Any] = {
    "policy": "policy",
    "hash": "0123456789ab",
    "choices": 12,
    "fallbacks": {"refused": 2},
    "last": {
        "strategy": "pack",
        "residuals": {"cap": -0.4},
        "features": [["forecast: price, in 1 h, high", 0.31]],
    },
}


def test_the_choice_what_moved_it_and_fall_backs_are_named() -> None:
    assert list(learned_lines(LEARNED)) == [
        "Learned policy policy (0123456789ab): pack, cap -0.4.",
        "What moved it: forecast: price, in 1 h, high (+0.31).",
        "Fell back in 2 refused of 12 choices.",
    ]


def test_a_fall_back_is_explained() -> None:
    last = {"strategy": "incumbent", "fallback": "nan", "detail": "the output is not a number"}
    lines = list(learned_lines({**LEARNED, "last": last}))
    assert lines[0].endswith("nan, so the incumbent decides. the output is not a number.")
    assert "has not chosen yet" in next(learned_lines({**LEARNED, "last": None}))
