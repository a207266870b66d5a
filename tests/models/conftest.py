"""Set-up that the tests of models share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from flyball.models import measure


@pytest.fixture(autouse=True)
def small_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one thread and short turns, since nothing here judges speed; keep choices to a test."""
    monkeypatch.setenv("FLYBALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "BLOCK_S", 1e-4)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
