"""The engine under test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    engine_rig = Rig(tmp_path / "state")
    yield engine_rig
    engine_rig.close()
