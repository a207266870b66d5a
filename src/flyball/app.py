"""Composition root: builds objects from settings; the only file that names concrete classes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs, Preempt
from flyball.core.protocols import Allocator, PolicyLike, Tuner
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy, loadable_policies
from flyball.schedule.policies.tuned import BEFORE, parse_tuned
from flyball.schedule.shares import gavel
from flyball.tune import registry as tuners
from flyball.tune.optimise import Optimise
from flyball.tune.pathway_scope import Scope
from flyball.tune.power import Power
from flyball.twin.load_forecast import LoadForecast
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin, warm

if TYPE_CHECKING:
    from flyball.control.ask.bills import Prices
    from flyball.control.decide.tuning_rounds import Tuning as LiveTuning
    from flyball.control.driver import Driver
    from flyball.control.plane import Plane
    from flyball.core.live import Capabilities
    from flyball.engines.slurm.own_request import SlurmSettings
    from flyball.learn.policy.artifact import PolicyFile
    from flyball.learn.policy.governor import Governor
    from flyball.learn.policy.live import LiveGovernor

__all__ = [
    "Live",
    "PolicySetting",
    "TunerSetting",
    "TuningSetting",
    "Twin",
    "build_live",
    "build_tuning",
    "build_twin",
    "make_governor",
    "make_tuners",
    "policy_settings",
    "recorded_governor",
    "tuned",
    "tuning_setting",
    "warm",
    "warm_live",
]


@dataclass(frozen=True)
class TunerSetting:
    """Holds a tuner's name and the settings that differ from the defaults."""

    name: str
    changed: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class TuningSetting:
    """Says which tuners change a policy's decisions, in the order in which they act, and how often.

    Attributes:
        feedback: caps are followed as far as the savings they predicted were measured.
        forecast: they are given the load forecast that a live system would have.
    """

    tuners: tuple[TunerSetting, ...]
    every_s: float = 60.0
    feedback: bool = False
    forecast: bool = False

    @property
    def names(self) -> list[str]:
        return [tuner.name for tuner in self.tuners]

    def without(self, name: str) -> TuningSetting:
        """Return the same with one tuner left out."""
        kept = tuple(tuner for tuner in self.tuners if tuner.name != name)
        return replace(self, tuners=kept)

    def with_changed(self, changed: Mapping[str, Mapping[str, Any]]) -> TuningSetting:
        """Return the same with other settings of some tuners, `{tuner: {setting: value}}`."""
        tuners = [
            replace(
                tuner, changed=tuple({**dict(tuner.changed), **changed.get(tuner.name, {})}.items())
            )
            for tuner in self.tuners
        ]
        return replace(self, tuners=tuple(tuners))


@dataclass(frozen=True)
class PolicySetting:
    """Holds a policy's name, its knobs with the user's settings, and what sets its shares.

    Attributes:
        tuning: the tuners of its decisions; None = none.
        decider: decides instead of the compiled kernel: a policy in plain Python.
        version: digest of the decider's code, for files that keep runs.
        pathways: scope in which its jobs follow their class pathways; "" = they do not.
        learned: chooses other knobs in every epoch; None = they stay as they are.
        local: whether a learned policy's caps are refined job by job.
    """

    name: str
    knobs: Knobs
    allocator: Allocator | None = None
    tuning: TuningSetting | None = None
    decider: PolicyLike | None = None
    version: str = ""
    pathways: str = ""
    learned: PolicyFile | None = None
    local: bool = False


def policy_settings(text: str, settings: list[str]) -> list[PolicySetting]:
    """Return the policies of a comma-separated list (`all` = every one), each with `settings`.

    `max-min@gavel` is a policy of target shares that decides as Gavel's simulator does.
    `tuned:FILE` is the setting that `flyball bench tune-heuristics` wrote to that file, and
    `tuned:before` the one that `tuned` was until it was last tuned again. `learned` is the policy
    that ships, `learned:FILE` one that `flyball learn train` wrote.

    Raises:
        BadInput: an unknown policy or knob, or a value out of range.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    lists = [list(loadable_policies()) if word == "all" else [word] for word in words or ["all"]]
    chosen = dict.fromkeys(name for names in lists for name in names)
    return [_setting(name, settings) for name in chosen]


def _setting(name: str, settings: list[str]) -> PolicySetting:
    """Return a registered policy, perhaps in Gavel mode, or one from a file (`tuned:FILE`)."""
    kind, colon, path = name.partition(":")
    if kind == "tuned" and colon:
        knobs = BEFORE if path == "before" else _knobs_in(path, name)
        return PolicySetting(name, knobs.with_settings(settings))
    if kind == "learned":
        return _learned(name, path, settings)
    shelf_name, at, mode = name.partition("@")
    policy = get_policy(shelf_name)
    knobs = policy.knobs
    if at:
        if mode != gavel.SUFFIX:
            raise UnknownName("mode of a policy", mode, [gavel.SUFFIX])
        if policy.allocator is None:
            raise BadInput(
                f"policy {shelf_name} sets no target shares, so it has no Gavel mode",
                "use max-min@gavel, max-min-het@gavel, ...",
            )
        knobs = gavel.gavel_knobs(knobs, policy.blind)
    knobs = knobs.with_settings(settings)
    return PolicySetting(name, knobs, policy.allocator_with(knobs))


def _learned(name: str, path: str, settings: list[str]) -> PolicySetting:
    """A policy that chooses the knobs itself, starting from the incumbent's."""
    from flyball.learn.env.spaces import INCUMBENT
    from flyball.learn.policy.artifact import read, shipped
    from flyball.learn.policy.forward import Net

    local = settings == ["local=on"]
    if settings not in ([], ["local=on"], ["local=off"]):
        raise BadInput(
            f"policy {name} sets the knobs itself, so --set {settings[0]} has no effect",
            "leave --set out or use --set local=on, or use tuned",
        )
    file = read(Path(path) if path else shipped())
    Net(file)  # refuses tensors that do not fit
    return PolicySetting(name, INCUMBENT, version=file.hash, learned=file, local=local)


def _knobs_in(path: str, policy: str) -> Knobs:
    try:
        return parse_tuned(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        remedy = "name a file that `flyball bench tune-heuristics --out` wrote"
        raise BadInput(f"policy {policy}: {why}", remedy) from None


def tuning_setting(
    text: str, settings: list[str], every_s: float = 60.0, forecast: bool | None = None
) -> TuningSetting:
    """Return the tuners of a comma-separated list (`all` = all usable ones), with their settings.

    Args:
        text: `elastic,power`.
        settings: `elastic.eta=0.7`, ...
        every_s: time between two rounds.
        forecast: whether they are given the load forecast; None = if one of them gains by it.

    Raises:
        BadInput: an unknown tuner or setting, a value that cannot be, rounds that are too short.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    lists = [tuners.usable() if word == "all" else [word] for word in words]
    chosen = tuners.in_order(name for names in lists for name in names)
    if not chosen:
        raise BadInput("no tuner is named", f"use all, or some of {', '.join(tuners.usable())}")
    changed = _changed(chosen, settings)
    for name in chosen:
        tuners.make(name, changed[name])
        if "round_s" in tuners.settings(name):
            changed[name].setdefault("round_s", every_s)
    tuner_settings = tuple(TunerSetting(name, tuple(changed[name].items())) for name in chosen)
    if forecast is None:
        forecast = any(map(tuners.gains_by_forecast, chosen))
    return TuningSetting(tuner_settings, every_s, forecast=forecast)


def _changed(chosen: Sequence[str], settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return, by tuner, the settings that differ from the defaults."""
    changed: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    for setting in settings:
        name, key, value = _tuner_setting(setting)
        if name not in changed:
            named = ",".join(chosen) or "none, add --tune"
            raise BadInput(f"{setting}: {name} is not among the tuners", f"tuners: {named}")
        if (name, key) not in tuners.RETIRED:
            changed[name][key] = tuners.parse(name, key, value)
    return changed


def _tuner_setting(text: str) -> tuple[str, str, str]:
    """Split `elastic.eta=0.7` into its three parts."""
    left, equals, value = text.partition("=")
    name, dot, key = left.strip().partition(".")
    if not (equals and dot and key):
        raise BadInput(f"{text!r} is not a tuner's setting", "write e.g. elastic.eta=0.7")
    return name, key, value.strip()


def tuned(policy: PolicySetting, tuning: TuningSetting) -> PolicySetting:
    """Return the policy with tuners, named after them: `easy+elastic+power`.

    Raises:
        BadInput: a policy that cannot be tuned, or not by these tuners.
    """
    with_tuners = replace(policy, name="+".join([policy.name, *tuning.names]), tuning=tuning)
    if policy.decider is not None:
        raise BadInput(
            f"policy {policy.name} cannot be tuned: it decides in Python, and between the tuners'"
            " rounds the kernel decides",
            "use a policy of knobs, or leave the tuners out",
        )
    try:
        build_tuning(with_tuners).check(policy.knobs)
    except BadInput as error:
        raise BadInput(f"policy {policy.name} cannot be tuned: {error}") from None
    if "share" in tuning.names and policy.knobs.preempt != Preempt.NEVER:
        raise BadInput(
            f"policy {policy.name} cannot be tuned by share, as it preempts in rounds",
            "leave share out, or use easy, sjf, ...",
        )
    return with_tuners


def build_tuning(policy: PolicySetting) -> Tuning:
    """Return the rounds of a policy that is tuned."""
    assert policy.tuning is not None, f"nobody tunes {policy.name}"
    chosen: list[Tuner] = [
        tuners.make(tuner.name, dict(tuner.changed)) for tuner in policy.tuning.tuners
    ]
    if policy.tuning.feedback:
        chosen = [Optimise(tuple(chosen))]
    decider = Preset(policy.name, "", policy.knobs, policy.allocator)
    outlook = LoadForecast() if policy.tuning.forecast else None
    return Tuning(tuple(chosen), decider, policy.tuning.every_s, outlook=outlook)


def build_twin(
    cluster: Cluster, workload: Workload, policy: PolicySetting, effects: Effects
) -> Twin:
    """Return the cluster's twin before the first submission.

    Raises:
        BadInput: a job that no node can ever hold, or no job at all.
    """
    tuning = None if policy.tuning is None else build_tuning(policy)
    if cluster.money_per_day or cluster.carbon_kg_per_day:
        tuning = _within_day(policy, tuning)
    if policy.learned is not None:
        from flyball.learn.policy.governed import GovernedTwin

        governor = make_governor(policy.learned, cluster)
        return GovernedTwin(
            governor, cluster, workload, policy.knobs, effects, policy.allocator, tuning,
            local=policy.local,
        )  # fmt: skip
    return Twin(cluster, workload, policy.knobs, effects, policy.allocator, tuning)


def make_governor(file: PolicyFile, cluster: Cluster, limit_s: float | None = None) -> Governor:
    """What serves a policy file on a cluster.

    Args:
        file: of the policy.
        cluster: its price and carbon intensity decide what counts.
        limit_s: time a choice may take; None = any, as on virtual clocks.
    """
    from flyball.learn.policy.forward import Net
    from flyball.learn.policy.governor import Governor, default_priorities

    priorities = default_priorities(cluster.price is not None, cluster.carbon is not None)
    return Governor(Net(file), priorities, limit_s)


def _within_day(policy: PolicySetting, tuning: Tuning | None) -> Tuning:
    """Return the rounds that keep a cluster's daily budgets, for a policy with or without tuners.

    Raises:
        BadInput: a policy that decides in Python.
    """
    if policy.decider is not None:
        raise BadInput(
            f"policy {policy.name} cannot keep a budget of a day: it decides in Python",
            "use a policy of knobs, or leave the budget out",
        )
    keeper = Power(slowdown=0.0, spare=-1)
    if tuning is None:
        return Tuning((keeper,), Preset(policy.name, "", policy.knobs, policy.allocator))
    if any(isinstance(tuner, Power | Optimise) for tuner in tuning.tuners):
        return tuning
    return replace(tuning, tuners=(*tuning.tuners, keeper))


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


WORKER_COMMAND = (sys.executable, "-m", "flyball.worker")
"""Starts the worker process that learns from the journal (`flyball.worker`)."""


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
    changed = _changed(chosen, settings)
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
