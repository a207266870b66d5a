"""A site's own check of this machine."""

from __future__ import annotations

from pathlib import Path

from tests.until import until

from flyball.core.clock import LiveClock
from flyball.core.live import LiveNode
from flyball.engines.local.engine import LocalEngine
from flyball.engines.local.health import HealthCheck

NODE = LiveNode("here", "CPU1", 2, 2, 4096)


def test_a_failing_check_takes_the_machine_down_until_it_passes(tmp_path: Path) -> None:
    hot = tmp_path / "hot"
    check = HealthCheck(
        ["/bin/sh", "-c", f"[ ! -e {hot} ] || {{ echo GPU 3 is hot; exit 2; }}"], 0.05
    )
    engine = LocalEngine(tmp_path / "state", LiveClock(), NODE, health=check)
    try:
        assert engine.nodes() == (NODE,)
        hot.touch()
        until(lambda: not engine.nodes()[0].up)
        assert engine.nodes()[0].reason == "health check failed with exit code 2: GPU 3 is hot"
        hot.unlink()
        until(lambda: engine.nodes()[0].up)
    finally:
        engine.close()


def test_a_check_that_hangs_or_is_missing_says_so() -> None:
    slow = HealthCheck(["sleep", "60"], limit_s=0.05)
    slow.check()
    assert slow.reason == "health check took longer than 0.05 s"
    absent = HealthCheck(["/no/such/check"])
    absent.check()
    assert absent.reason == "health check cannot be run: No such file or directory"
