"""Composition root: builds policies, tuners and twins from settings; `live` does live systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from flyball.tune.power import Power
from flyball.twin.load_forecast import LoadForecast
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin, warm

if TYPE_CHECKING:
    from flyball.learn.policy.artifact import PolicyFile
    from flyball.learn.policy.governor import Governor

__all__ = [
    "PolicySetting",
    "TunerSetting",
    "TuningSetting",
    "Twin",
    "build_tuning",
    "build_twin",
    "make_governor",
    "policy_settings",
    "tuned",
    "tuning_setting",
    "warm",
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
    changed = changed_settings(chosen, settings)
    for name in chosen:
        tuners.make(name, changed[name])
        if "round_s" in tuners.settings(name):
            changed[name].setdefault("round_s", every_s)
    tuner_settings = tuple(TunerSetting(name, tuple(changed[name].items())) for name in chosen)
    if forecast is None:
        forecast = any(map(tuners.gains_by_forecast, chosen))
    return TuningSetting(tuner_settings, every_s, forecast=forecast)


def changed_settings(chosen: Sequence[str], settings: Sequence[str]) -> dict[str, dict[str, Any]]:
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
