"""Many jobs through the local engine, with every claim and end on disk.

`flyball bench submit` holds the rate against its bar.
"""

from __future__ import annotations

import time

import pytest
from tests.engines.rig import Rig


@pytest.mark.soak
def test_ten_thousand_jobs(rig: Rig) -> None:
    jobs, at_a_time = 10_000, 32
    sent = done = 0
    begun_s = time.monotonic()
    while done < jobs:
        while sent < jobs and sent - done < at_a_time:
            sent += 1
            assert rig.launch("true", job=sent).accepted
        rig.engine.wait(1.0)
        ends = [report for report in rig.engine.observe() if report.what != "started"]
        assert all(report.what == "ended" and report.values["exit_code"] == 0 for report in ends)
        rig.engine.acknowledge(ends)
        done += len(ends)
    print(f"\n{jobs / (time.monotonic() - begun_s):,.0f} jobs a second")
    rig.engine.wait(0.0)
    assert rig.claims() == []
