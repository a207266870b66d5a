"""The use of an attempt: the source of its peak memory, and when it is unknown."""

from __future__ import annotations

import resource

import pytest

from flyball.engines.local.cgroup import Group, Place
from flyball.engines.local.usage import LEAST_SAMPLES, Usage


class Kept(Group):
    """A control group with this peak."""

    def __init__(self, peak_mib: float) -> None:
        super().__init__(Place("/nowhere", 2), "x")
        self.seen_mib = peak_mib

    def peak_mib(self) -> float:
        return self.seen_mib


def used(mib: int, cpu_s: float = 1.0) -> resource.struct_rusage:
    return resource.struct_rusage((cpu_s, 0.5, mib * 1024, *[0] * 13))


def record(several: bool, looks: list[float], group: Group | None) -> dict[str, object]:
    usage = Usage()
    usage.add(used(1000), several)
    usage.add(used(900), several)
    for used_mib in looks:
        usage.sample(used_mib)
    usage.close(group)
    return usage.record()


@pytest.mark.parametrize(
    ("several", "looks", "group", "peak"),
    [
        (False, [], Kept(5000.0), {"peak_mib": 1000.0, "peak_by": "process"}),
        (True, [], Kept(4100.0), {"peak_mib": 4100.0, "peak_by": "group"}),
        (True, [3900.0] * LEAST_SAMPLES, None, {"peak_mib": 3900.0, "peak_by": "looks"}),
        (True, [3900.0] * LEAST_SAMPLES, Kept(0.0), {"peak_mib": 3900.0, "peak_by": "looks"}),
        (True, [10.0] * LEAST_SAMPLES, None, {"peak_mib": 1000.0, "peak_by": "looks"}),
        (True, [3900.0] * (LEAST_SAMPLES - 1), None, {}),
        (True, [], None, {}),
    ],
)
def test_who_knows_the_peak(
    several: bool, looks: list[float], group: Group | None, peak: dict[str, object]
) -> None:
    assert record(several, looks, group) == {"cpu_s": 3.0, "max_rss_mib": 1000.0, **peak}
