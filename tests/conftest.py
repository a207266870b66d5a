"""Fixtures for every test."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import Phase, settings
from tests.processes import SESSION, Processes, describe
from tests.until import WAIT_S

# Tests draw nothing on a screen, whatever the machine.
os.environ.setdefault("MPLBACKEND", "agg")
# A request may wait for the kernels to be compiled, on a busy machine.
os.environ.setdefault("FLYBALL_TIMEOUT_S", str(WAIT_S))

# A shell that starts the tests in the background, or nohup, has them ignore these signals, and what
# they start would ignore them, too.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# A busy machine is no fault of the code. Cutting a failure down may take many minutes where each
# case is a simulation, so it is done only when asked for: FLYBALL_SHRINK=1.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("FLYBALL_SHRINK"):
    PHASES.append(Phase.shrink)
settings.register_profile("flyball", deadline=None, phases=PHASES, print_blob=True)
settings.load_profile("flyball")

FAILED = pytest.StashKey[bool]()
NUMBERS = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session", autouse=True)
def _session_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No process outlives the session, those of module fixtures included."""
    processes = Processes(SESSION, tmp_path_factory.getbasetemp())
    with processes.tracked():
        yield
    left = processes.wait()
    processes.end()
    assert not left, f"processes of this test run were left behind:\n{describe(left)}"


@pytest.fixture(autouse=True)
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    """What the test starts ends with it: after a failure it is killed, else it must end itself."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    started = Processes(f"{SESSION}.{next(NUMBERS)}.", folder)
    with started.tracked():
        yield started
    left = {} if request.node.stash.get(FAILED, False) else started.wait()
    started.end()
    assert not left, f"the test left processes behind:\n{describe(left)}"
