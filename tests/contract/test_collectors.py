"""Every registered collector keeps the contract, here and on machines that lack everything."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from tests.monitor.fake_nvml import FakeNvml
from tests.monitor.site import HOST, bare, claim, frozen

from flyball.core.errors import UnknownName
from flyball.monitor import registry
from flyball.monitor.rates import FAMILIES
from flyball.monitor.sensor import Null, Site

NAME = re.compile(r"([A-Za-z0-9_./@:-]+\.)?[a-z][a-z0-9_]*")


@pytest.fixture(params=registry.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(name: str, site: Site) -> int:
    """Two readings of a collector; the number of values of the second."""
    cls = registry.get_collector(name)
    assert cls.family in FAMILIES
    assert cls.least_s >= 0
    sensor = cls.open(site)
    for now in (1000.0, 1010.0):
        sample = sensor.collect(now)
        assert (sample.source, sample.time_s) == (name, now)
        for key, value in sample.values.items():
            assert NAME.fullmatch(key), key
            assert isinstance(value, int | float), key
            assert math.isfinite(value), key
    if isinstance(sensor, Null):
        assert len(sensor.reason) > 15, "a null object says why"
        assert not sample.values
    else:
        assert sensor.about.get("source") or sensor.about.get("use")
        assert sample.values
    assert all(isinstance(text, str) for text in sensor.about.values())
    return len(sample.values)


def test_on_this_machine(name: str, tmp_path: Path) -> None:
    check(name, Site(state=tmp_path, host_power=HOST))


def test_on_a_machine_that_has_everything(name: str, tmp_path: Path) -> None:
    site = frozen(tmp_path, nvml=FakeNvml(), ours=lambda: frozenset({101}))
    claim(site, "7.1", 100, 9000)
    values = check(name, site)
    assert values or name == "counters"  # the one sensor that no tree of files can show


def test_on_a_machine_that_has_nothing(name: str, tmp_path: Path) -> None:
    check(name, bare(tmp_path, nvml=FakeNvml(devices=-1)))


def test_unknown_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'network'"):
        registry.get_collector("netwrok")
