"""A real control plane, on virtual nodes, with its API on a real socket."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from flyball.api.serve import Server, serve
from flyball.api.settings import ApiSettings
from flyball.api.state_folder import open_state
from flyball.api.token import make_token
from flyball.control.plane import Plane
from flyball.core.live import LiveNode
from flyball.core.protocols import Sample
from flyball.core.units import to_us
from flyball.monitor.publish import Outlet
from flyball.monitor.reader import Telemetry
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine

NODES = (LiveNode("a", "CPU1", 4, 4, 8192), LiveNode("b", "CPU1", 4, 4, 8192))
START_US = 1_700_000_000_000_000
SENSORS = {
    "compute": {
        "family": "compute", "period_s": 0.1, "about": {"source": "ticks"}, "failures": 1,
        "stuck": 2, "missed": 0, "error": "OSError: gone", "took_us": 30,
    },
    "power": {
        "family": "power", "period_s": 1.0, "failures": 0, "error": "", "took_us": 9,
        "about": {"source": "60 W to 200 W", "kind": "modelled: no counter"},
    },
    "nvidia": {"family": "compute", "absent": "no driver", "failures": 0},
}  # fmt: skip
SLEEP = {"argv": ["sleep", "5"], "estimate_s": 5.0}
ANSWER_S = 400.0
"""Timeout of a response: kernels may have to be compiled first, on a busy machine."""


@dataclass
class World:
    """A state folder, its control plane, and a clock that tests advance."""

    folder: Path
    now: int = START_US
    plane: Plane = field(init=False)
    engine: VirtualEngine = field(init=False)
    token: str = field(init=False)

    def __post_init__(self) -> None:
        open_state(self.folder)
        self.token = make_token(self.folder)
        self.engine = VirtualEngine(
            NODES, lambda: self.now, lambda spec, job, attempt: (spec.estimate_s or 60.0, 0)
        )
        self.plane = Plane(
            self.folder, self.engine, "fifo", get_policy("fifo").knobs,
            lambda last: lambda: max(self.now, last),
        )  # fmt: skip
        self.plane.open()

    def step(self, seconds: float = 0.0) -> None:
        """Advance the clock, then run the control plane's loop."""
        self.now += to_us(seconds)
        for _ in range(3):
            self.plane.step()

    def log(self, job: int, text: bytes, attempt: int = 1) -> None:
        """Append to a job's log, since virtual nodes write none."""
        path = self.plane.ask.log_path(job, attempt)
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(text)

    def settings(self, **changes: Any) -> ApiSettings:
        return ApiSettings(token=self.token, **changes)

    def write_endpoint(self, url: str, ca: str = "") -> None:
        """Write the endpoint file, as `flyball up` does."""
        endpoint = {"url": url, "pid": os.getpid(), "ca": ca}
        (self.folder / "endpoint.json").write_text(json.dumps(endpoint))

    @contextmanager
    def server(self, **changes: Any) -> Iterator[Server]:
        """Serve the API on a socket that clients find through the state folder."""
        running = serve(self.plane, self.settings(**changes))
        self.write_endpoint(running.url)
        try:
            yield running
        finally:
            running.stop()


@contextmanager
def calling(server: Server, token: str, **options: Any) -> Iterator[httpx.Client]:
    """Yield an HTTP client that sends the token."""
    bearer = {"Authorization": f"Bearer {token}"}
    settings = {"timeout": ANSWER_S, "trust_env": False, **options}
    with httpx.Client(base_url=server.url, headers=bearer, **settings) as client:
        yield client


@contextmanager
def stepping(world: World, seconds: float = 1.0) -> Iterator[None]:
    """Advance the clock by this many seconds every hundredth of a second."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.01):
            world.step(seconds)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def give_sensors(world: World) -> Telemetry:
    """Write the telemetry of an agent for the last 61 s."""
    folder = world.folder / "telemetry"
    folder.mkdir()
    outlet = Outlet(folder)
    start_s = START_US / 1e6
    for at in range(61):
        spike = 90.0 if at == 30 else 0.0
        outlet.add("compute", Sample("compute", start_s + at, {"total_percent": at % 10 + spike}))
        outlet.publish(start_s + at, {"sensors": SENSORS, "store_failures": 2, "fast": False})
    outlet.close()
    os.utime(folder / "latest.json", (start_s + 60, start_s + 60))
    world.plane.ask.sensors = telemetry = Telemetry(folder, now=lambda: start_s + 60)
    return telemetry
