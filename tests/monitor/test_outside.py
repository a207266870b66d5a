"""Collectors of other packages: their bugs are isolated and reported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from flyball.core.protocols import Sample
from flyball.monitor import registry
from flyball.monitor.agent import Agent
from flyball.monitor.rates import DEFAULT
from flyball.monitor.reader import Telemetry
from flyball.monitor.sensor import Null, Site

HERE = __name__


class Odd:
    """Returns whatever a test sets."""

    family: ClassVar[str] = "memory"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False
    about: Mapping[str, str] = {}
    answer: ClassVar[Any] = None

    @classmethod
    def open(cls, site: Site) -> Odd:
        return cls()

    def collect(self, now: float) -> Any:
        return Odd.answer


class UnknownFamily(Odd):
    family: ClassVar[str] = "weather"


class NoPeriod(Odd):
    least_s: ClassVar[Any] = "soon"


class Undecided(Odd):
    blocks: ClassVar[Any] = None


class Float32:
    """As numpy's: a number, but none that JSON takes."""

    def __float__(self) -> float:
        return 2.5


def install(monkeypatch: pytest.MonkeyPatch, **where: str) -> None:
    points = [SimpleNamespace(name=name, value=value) for name, value in where.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("no_such_module_here:Thing", "cannot be loaded: ModuleNotFoundError"),
        (f"{HERE}:NoSuchClass", "cannot be loaded: AttributeError"),
        (f"{HERE}:UnknownFamily", "has family 'weather'; use one of compute, memory"),
        (f"{HERE}:NoPeriod", "has least_s 'soon'"),
        (f"{HERE}:Undecided", "does not say whether it blocks"),
        (f"{HERE}:Any", "has family None"),
    ],
)
def test_one_that_is_no_collector_is_a_null_object(
    monkeypatch: pytest.MonkeyPatch, where: str, reason: str
) -> None:
    install(monkeypatch, outside=where)
    null = registry.get_collector("outside").open(Site())
    assert isinstance(null, Null)
    assert reason in null.reason


def run_for(agent: Agent, seconds: float) -> None:
    end_s = agent._clock.now() + seconds
    agent.run(lambda: agent._clock.now() >= end_s)


def test_the_agent_goes_on_beside_broken_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, gone="no_such_module_here:Thing", odd=f"{HERE}:Odd")
    monkeypatch.setattr(Odd, "answer", {"not": "a sample"})
    agent = Agent(Site(state=tmp_path), DEFAULT, ["memory", "gone", "odd"])
    run_for(agent, 1.5)
    telemetry = Telemetry(tmp_path / "telemetry")
    sensors = telemetry.status()["sensors"]
    assert "no_such_module_here" in sensors["gone"]["absent"]
    assert sensors["odd"]["failures"] >= 1
    assert "AttributeError" in sensors["odd"]["error"]
    assert telemetry.latest(max_age_s=600.0)["memory.total_bytes"] > 0


def test_numbers_of_another_kind_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, odd=f"{HERE}:Odd")
    values: Any = {"speed": Float32()}
    agent = Agent(Site(state=tmp_path), DEFAULT, ["odd"])
    monkeypatch.setattr(Odd, "answer", Sample("odd", agent._clock.now(), values))
    run_for(agent, 1.5)
    assert Telemetry(tmp_path / "telemetry").latest(max_age_s=600.0)["odd.speed"] == 2.5
