"""Composition root of live systems: engine, plane, driver and tuners from settings."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.app import PolicySetting, changed_settings
from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, UnknownName
from flyball.core.protocols import Tuner
from flyball.schedule.policies.registry import get_policy
from flyball.tune import registry as tuners
from flyball.tune.pathway_scope import Scope

if TYPE_CHECKING:
    from flyball.control.ask.bills import Prices
    from flyball.control.decide.tuning_rounds import Tuning as LiveTuning
    from flyball.control.driver import Driver
    from flyball.control.plane import Plane
    from flyball.core.live import Capabilities
    from flyball.engines.slurm.own_request import SlurmSettings
    from flyball.learn.policy.artifact import PolicyFile
    from flyball.learn.policy.live import LiveGovernor

WORKER_COMMAND = (sys.executable, "-m", "flyball.worker")
"""Starts the worker process that learns from the journal (`flyball.worker`)."""


@dataclass(frozen=True)
class Live:
    """Holds a live system that is not started yet.

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
    tuning: LiveTuning | None = None,
    max_processes: int | None = None,
    features: Sequence[str] = (),
    pathways: Scope = Scope.NAMED,
    limit_s: float | None = None,
    slurm: SlurmSettings | None = None,
    shared: Path | None = None,
    health: Sequence[str] = (),
) -> Live:
    """Return the control plane of a state folder, recovered and ready to start.

    Args:
        state: the folder, checked and locked by the caller.
        policy: what decides.
        prices: of devices and of energy, and the carbon intensity.
        simulated: nodes that only pass time; None = this machine.
        passing: told of each point of a cycle; fault tests end the process there.
        tuning: the tuners of its decisions; None = none.
        max_processes: processes and threads of a job that states no limit; None = the engine's.
        features: names that jobs can require this machine to have.
        pathways: how far class pathways are followed.
        limit_s: time that a choice of a learned policy may take; None = the default.
        slurm: run jobs on a Slurm site; None = on this machine.
        health: command that checks this machine; none = it is not checked.
        shared: folder that the site's nodes see; None = one in the state folder.

    Raises:
        BadInput: a policy that cannot decide live, or a journal that cannot be used.
        Unavailable: no nodes are known, as slurmctld does not answer.
    """
    from flyball.control.driver import Driver
    from flyball.control.plane import Plane
    from flyball.core.clock import LiveClock
    from flyball.monitor.contention import Contention
    from flyball.monitor.reader import Telemetry

    if policy.allocator is not None:
        raise BadInput(
            f"policy {policy.name} sets target shares, which only replays support so far",
            "use easy, srtf, fair, tuned, ...; `flyball policies` lists them",
        )
    governor = None
    if policy.local:
        raise BadInput("local=on refines caps in replays only", "leave --set local=on out")
    if policy.learned is not None:
        governor = _live_governor(policy.learned, prices, pathways, limit_s)
    clock = LiveClock()
    if slurm is not None:
        engine = _slurm_engine(shared or state / "slurm", clock, slurm)
    else:
        engine = _engine(state, clock, simulated, max_processes, features, health)

    # The plane opens the journal first (makes or upgrades it), then says where its times end.
    def start_clock(last_us: int) -> Callable[[], int]:
        clock.not_before(last_us)
        return clock.now_us

    try:
        refuse_useless(list(tuning.tuners) if tuning else [], engine.capabilities())
        plane = Plane(
            state, engine, policy.name, policy.knobs, start_clock, prices,
            passing=passing, tuning=tuning, pathways=pathways, governor=governor,
        )  # fmt: skip
        plane.ask.sensors = Telemetry(state / "telemetry")
        plane.forecaster.slowdown = Contention(os.getpid()).slowdown
        recovered = plane.open()
    except BaseException:
        engine.close()
        raise
    return Live(plane, Driver(plane, engine), engine, recovered)


def _live_governor(
    file: PolicyFile, prices: Prices, pathways: Scope, limit_s: float | None
) -> LiveGovernor:
    """What serves a policy file to a live cluster.

    Raises:
        BadInput: the cluster follows pathways, which set the knobs too.
    """
    from flyball.learn.policy.governor import LIMIT_S

    if pathways == Scope.CLUSTER:
        raise BadInput(
            "--pathways cluster does not go with a learned policy: both set the knobs",
            "use --pathways jobs, or another policy",
        )
    given = tuple(signal is not None for signal in prices.signals)
    return _governing(file, given[0], given[1], LIMIT_S if limit_s is None else limit_s)


def _governing(
    file: PolicyFile, price: bool, carbon: bool, limit_s: float | None = None
) -> LiveGovernor:
    from flyball.learn.policy.forward import Net
    from flyball.learn.policy.governor import Governor, default_priorities
    from flyball.learn.policy.live import LiveGovernor

    return LiveGovernor(Governor(Net(file), default_priorities(price, carbon), limit_s))


def recorded_governor(about: Mapping[str, Any]) -> LiveGovernor | None:
    """What serves the policy that a journal names; None = its file is gone, or another one.

    Args:
        about: as `opened` records it.
    """
    from flyball.learn.policy.artifact import read

    try:
        file = read(Path(about["file"]))
    except BadInput:
        return None
    if file.hash != about["hash"]:
        return None
    return _governing(file, bool(about["price"]), bool(about["carbon"]))


def make_tuners(chosen: Sequence[str], settings: Sequence[str] = ()) -> dict[str, Tuner]:
    """Return tuners for a live cluster by their names.

    Args:
        chosen: their names.
        settings: `elastic.gap_s=120`, ...

    Raises:
        BadInput: there is no such tuner, or it cannot act live; no such setting.
    """
    for name in chosen:
        if name not in tuners.LIVE:
            raise UnknownName("live tuner", name, tuners.LIVE)
    changed = changed_settings(chosen, settings)
    return {name: tuners.make(name, changed[name]) for name in tuners.LIVE if name in chosen}


def _engine(
    state: Path,
    clock: Any,
    simulated: Cluster | None,
    max_processes: int | None = None,
    features: Sequence[str] = (),
    health: Sequence[str] = (),
) -> Any:
    """Return the engine: this machine's, or one of nodes that only pass time."""
    if simulated is not None:
        from flyball.twin.engine import VirtualEngine, nodes_of

        return VirtualEngine(nodes_of(simulated), clock.now_us)
    from flyball.engines.local.engine import LocalEngine
    from flyball.engines.local.health import HealthCheck
    from flyball.physics import catalogue
    from flyball.twin.inputs.traces.gpus import device_of

    reference = catalogue.reference().name
    return LocalEngine(
        state,
        clock,
        name_device=lambda name: device_of(name) or reference,
        max_processes=max_processes,
        features=features,
        health=HealthCheck(health) if health else None,
    )


def _slurm_engine(shared: Path, clock: Any, settings: SlurmSettings) -> Any:
    """What acts on a Slurm site."""
    from flyball.engines.slurm.engine import SlurmEngine
    from flyball.physics import catalogue
    from flyball.twin.inputs.traces.gpus import device_of

    reference = catalogue.reference().name
    return SlurmEngine(
        shared, clock, settings, name_device=lambda name: device_of(name) or reference
    )


def refuse_useless(chosen: Sequence[str], can: Capabilities) -> None:
    """Refuse tuners whose every action the engine is unable to carry out.

    Raises:
        BadInput: it names the tuner and what the engine lacks.
    """
    from flyball.control.decide.tuning_rounds import NEEDED_BY

    for name in chosen:
        needs = NEEDED_BY.get(name, ())
        if needs and not any(getattr(can, need) for need in needs):
            raise BadInput(
                f"tuner {name} is of no use here: the engine cannot {' or '.join(needs)}",
                f"leave {name} out; `flyball doctor` shows what the engine can do",
            )


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
            plane.ask.why(waiting)
            plane.close()
