"""The dashboard for Grafana asks only for metrics that the server really exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.world import SLEEP, World, calling

from flyball.control.ask.bills import Prices
from flyball.core.jobs import JobState
from flyball.core.signals import Signal

FILE = Path(__file__).parents[2] / "docs" / "grafana" / "flyball.json"
NAME = re.compile(r"\bflyball_\w+")
STATES = re.compile(r'state=~?"([A-Z_|]+)"')
GROUPED = re.compile(r"sum by \((\w+)\) \(rate\((\w+)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
SCRAPED = {"flyball_api_dropped_total": {"why"}}
"""Metrics that exist once their event has happened, which needs a flood, with their labels."""


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))["panels"]
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture
def exported(world: World) -> Iterator[dict[str, set[str]]]:
    """Return the labels of every sample that a server with prices exports, by name."""
    world.plane.prices = Prices(1.0, Signal.flat(0.3), "EUR", Signal.flat(300.0))
    world.plane.ask._prices = world.plane.prices
    with world.server() as server, calling(server, world.token) as client:
        assert client.post("/api/v1/jobs", json=SLEEP).status_code == 201
        text = client.get("/metrics").text
        text = client.get("/metrics").text  # the first answer is counted by now
    samples: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    yield samples


def test_every_metric_of_the_dashboard_is_exported(exported: dict[str, set[str]]) -> None:
    names = {name for expression in expressions() for name in NAME.findall(expression)}
    assert names - SCRAPED.keys() <= exported.keys()
    labels = exported | SCRAPED
    for expression in expressions():
        for label, name in GROUPED.findall(expression):
            assert label in labels[name], expression


def test_states_and_legends() -> None:
    states = {
        state
        for text in expressions()
        for part in STATES.findall(text)
        for state in part.split("|")
    }
    assert states <= {str(state) for state in JobState}
    for panel in panels():
        for target in panel["targets"]:
            for label in LEGEND.findall(target["legendFormat"]):
                assert label == "state" or f"by ({label})" in target["expr"]


def test_panels_do_not_overlap() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    places = [panel["gridPos"] for panel in panels()]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )  # fmt: skip
        assert apart, (one, other)
