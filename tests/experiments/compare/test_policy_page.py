"""The page of policies says of each what its file says, with the figures of a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.experiments.compare.policy_page import rule_text
from flyball.schedule.policies.registry import get_policy, names

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "policies.md"


@pytest.mark.parametrize("name", names())
def test_the_page_is_true_to_the_policy(name: str) -> None:
    policy = get_policy(name)
    section = PAGE.read_text("utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    remedy = "run `flyball bench compare` and copy its policies.md here"
    assert rule_text(name) in section, remedy
    assert policy.summary in section, remedy
    assert "Overall " in section, remedy
