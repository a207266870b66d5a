"""The composition root: from settings to objects. The only file that names concrete classes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator, Tuner
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy, names
from flyball.schedule.policies.tuned import parse_tuned
from flyball.twin.twin import Twin, warm

if TYPE_CHECKING:
    from flyball.control.driver import Driver
    from flyball.control.plane import Plane
    from flyball.control.receipts import Prices
    from flyball.control.tuning import Tuning

__all__ = [
    "Live",
    "PolicySetting",
    "Twin",
    "build_live",
    "build_twin",
    "make_tuners",
    "policy_settings",
    "warm",
    "warm_live",
]


@dataclass(frozen=True)
class PolicySetting:
    """A policy's name, its knobs with the user's settings applied, and what sets its shares."""

    name: str
    knobs: Knobs
    allocator: Allocator | None = None


def policy_settings(text: str, settings: list[str]) -> list[PolicySetting]:
    """The policies of a comma-separated list (`all` = every one), each with `settings`.

    `tuned:FILE` is the setting that `flyball bench tune-heuristics` wrote to that file.

    Raises:
        BadInput: an unknown policy or knob, or a value out of range.
    """
    wanted = [each.strip() for each in text.split(",") if each.strip()]
    listed = [names() if each == "all" else [each] for each in wanted or ["all"]]
    chosen = dict.fromkeys(name for each in listed for name in each)
    return [_setting(name, settings) for name in chosen]


def _setting(name: str, settings: list[str]) -> PolicySetting:
    """A policy of the shelf, or one of knobs in a file (`tuned:FILE`)."""
    kind, colon, path = name.partition(":")
    if kind == "tuned" and colon:
        return PolicySetting(name, _knobs_in(path, name).with_settings(settings))
    policy = get_policy(name)
    return PolicySetting(name, policy.knobs.with_settings(settings), policy.allocator)


def _knobs_in(path: str, policy: str) -> Knobs:
    try:
        return parse_tuned(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        remedy = "name a file that `flyball bench tune-heuristics --out` wrote"
        raise BadInput(f"policy {policy}: {why}", remedy) from None


def build_twin(
    cluster: Cluster, workload: Workload, policy: PolicySetting, effects: Effects
) -> Twin:
    """The cluster's twin before the first submission.

    Raises:
        BadInput: a job that no node can ever hold, or no job at all.
    """
    return Twin(cluster, workload, policy.knobs, effects, policy.allocator)


@dataclass(frozen=True)
class Live:
    """A live system, not started yet.

    Attributes:
        recovered: attempts of an earlier control plane that turned out to be over.
    """

    plane: Plane
    driver: Driver
    engine: Any
    recovered: int

    def close(self) -> None:
        """Stop deciding; jobs run on."""
        self.driver.stop()
        self.plane.close()
        self.engine.close()


def build_live(
    state: Path,
    policy: PolicySetting,
    prices: Prices,
    simulated: Cluster | None = None,
    passing: Callable[[str], None] = lambda point: None,
    tuning: Tuning | None = None,
) -> Live:
    """The control plane of a state folder, recovered and ready to start.

    Args:
        state: the folder, checked and locked by the caller.
        policy: what decides.
        prices: for receipts.
        simulated: nodes that only pass time; None = this machine.
        passing: told of each point of a cycle; fault tests end the process there.
        tuning: who changes what the policy decides; None = nobody.

    Raises:
        BadInput: a policy that cannot decide live, or a journal that cannot be used.
    """
    from flyball.control.driver import Driver
    from flyball.control.plane import JOURNAL, Plane
    from flyball.core.clock import LiveClock
    from flyball.monitor.reader import Telemetry

    if policy.allocator is not None:
        raise BadInput(
            f"policy {policy.name} sets target shares, which only replays realise as yet",
            "use easy, srtf, fair, tuned, ...; `flyball policies` lists them",
        )
    clock = LiveClock(_last_us(state / JOURNAL))
    engine = _engine(state, clock, simulated)
    plane = Plane(
        state, engine, policy.name, policy.knobs, lambda _last: clock.now_us, prices,
        passing=passing, tuning=tuning,
    )  # fmt: skip
    plane.sensors = Telemetry(state / "telemetry")
    recovered = plane.open()
    return Live(plane, Driver(plane, engine), engine, recovered)


LIVE_TUNERS = ("elastic", "balance", "power")
"""Those that can act on a live cluster, in the order in which they do."""


def make_tuners(chosen: Sequence[str]) -> dict[str, Tuner]:
    """Tuners for a live cluster by their names.

    Raises:
        BadInput: there is no such tuner, or it cannot act live.
    """
    for name in chosen:
        if name not in LIVE_TUNERS:
            raise UnknownName("live tuner", name, LIVE_TUNERS)
    if not chosen:
        return {}
    try:
        shelf = import_module("flyball.tune.registry")
    except ModuleNotFoundError:
        raise BadInput("this version has no tuners", "leave out --tune") from None
    return {name: shelf.make(name, {}) for name in LIVE_TUNERS if name in chosen}


def _last_us(journal: Path) -> int:
    """When the last event on record happened, 0 = there is none."""
    from flyball.control.history import History

    if not journal.is_file():
        return 0
    with History(journal) as history:
        return history.last().time_us


def _engine(state: Path, clock: Any, simulated: Cluster | None) -> Any:
    """What acts: on this machine, or on nodes that only pass time."""
    if simulated is not None:
        from flyball.twin.engine import VirtualEngine, nodes_of

        return VirtualEngine(nodes_of(simulated), clock.now_us)
    from flyball.engines.local.engine import LocalEngine
    from flyball.physics import catalogue
    from flyball.twin.traces.gpus import device_of

    reference = catalogue.reference().name
    return LocalEngine(state, clock, name_device=lambda name: device_of(name) or reference)


def warm_live() -> None:
    """Compile what a live system needs, by running a tiny one: decide, explain, look ahead."""
    from flyball.control.plane import Plane
    from flyball.core.jobs import JobSpec
    from flyball.core.live import LiveNode
    from flyball.twin.engine import VirtualEngine

    now_us = 1_000_000_000
    nodes = [LiveNode("a", "CPU1", 1, 1, 1024)]
    engine = VirtualEngine(nodes, lambda: now_us)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("easy", "srtf"):
            place = Path(folder) / name
            place.mkdir()
            knobs = get_policy(name).knobs
            plane = Plane(place, engine, name, knobs, lambda _last: lambda: now_us, inline=True)
            plane.open()
            spec = JobSpec(("true",), estimate_s=60.0)
            waiting = plane.submit([spec, spec])[1]
            plane.step()
            plane.why(waiting)
            plane.close()
