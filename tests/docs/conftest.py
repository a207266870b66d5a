"""Fixtures of the API's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.api.world import World, calling


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    plane_world = World(tmp_path / "state")
    yield plane_world
    plane_world.plane.close()


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with world.server() as server, calling(server, world.token) as http_client:
        yield http_client
