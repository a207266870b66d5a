"""The registry of tuners: one line each, loaded on demand.

A tuner is a class with `adjust` (`core.protocols.Tuner`); its arguments are its settings. Other
packages add theirs under the entry-point group `flyball.tuners` (name -> `module:Class`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.plugins import load, loadable, outside
from flyball.core.protocols import Tuner


class TunerEntry(NamedTuple):
    """Holds where a tuner is, `module:Class`, and what it does in one line."""

    where: str
    summary: str


BUILT_IN = {
    "defer": TunerEntry(
        "flyball.tune.defer:Defer",
        "holds jobs that may wait until electricity is cheap or clean; deadlines are kept",
    ),
    "elastic": TunerEntry(
        "flyball.tune.elastic:Elastic",
        "gives elastic jobs the number and type of devices at which they are worth most",
    ),
    "share": TunerEntry(
        "flyball.tune.share:Share",
        "puts two jobs on a device where they hardly slow each other down",
    ),
    "balance": TunerEntry(
        "flyball.tune.balance:Balance",
        "moves running jobs together so that larger ones fit, if that is worth its cost",
    ),
    "power": TunerEntry(
        "flyball.tune.power:Power",
        "caps jobs that lose little speed by it, keeps the power budget, lets idle nodes sleep",
    ),
    "replicas": TunerEntry(
        "flyball.tune.replicas:Replicas",
        "gives an inference service the replicas that its requests will need",
    ),
}
"""Built-in tuners in the order in which they change a plan: sizes and places before power."""

RULES = {"elastic": 3}
"""Version of a tuner's rule, 1 if not listed: raised when the same state leads to other actions, as
a journal's adjustments can only be repeated by the rule that made them."""
LIVE = ("elastic", "balance", "power")
"""Built-in tuners that can act on a live cluster, in the order in which they do."""

GAIN_BY_FORECAST: frozenset[str] = frozenset()
"""Built-in tuners for which the load forecast is made by default: none was measured to gain by it
(docs/concept/prediction.md). Those of other packages are given it."""
RETIRED = {("power", "step_s")}
"""Settings that journals and scripts may still name; they have no effect any more."""
GROUP = "flyball.tuners"
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def names() -> list[str]:
    """Return every tuner's name: the built-in ones first, in the order in which they act."""
    return [*BUILT_IN, *sorted(set(_outside()) - set(BUILT_IN))]


def usable() -> list[str]:
    """Return the tuners that `all` stands for: those with defaults for all settings.

    `defer` is named by itself: it acts only on jobs that may be deferred.
    """
    return [name for name in loadable_names() if not needs(name) and not defers(name)]


def in_order(chosen: Iterable[str]) -> list[str]:
    """Return the names, each once, in the order in which they act.

    Raises:
        UnknownName: one of them is not registered.
    """
    selected, all_names = set(chosen), names()
    for name in sorted(selected - set(all_names)):
        raise UnknownName("tuner", name, all_names)
    return [name for name in all_names if name in selected]


def location(name: str) -> str:
    """Return where the tuner is: `module:Class`.

    Raises:
        UnknownName: there is none of this name.
    """
    where = BUILT_IN[name].where if name in BUILT_IN else _outside().get(name)
    if where is None:
        raise UnknownName("tuner", name, names())
    return where


def get_tuner(name: str) -> type[Tuner]:
    """Return the tuner class of this name.

    Raises:
        UnknownName: there is none of this name.
    """
    tuner: type[Tuner] = load("tuner", name, location(name), GROUP, _wrong)
    return tuner


def loadable_names() -> list[str]:
    """Return the names of the tuners that can be loaded; warns of other packages' that cannot."""
    return [*BUILT_IN, *loadable([name for name in names() if name not in BUILT_IN], get_tuner)]


def _wrong(value: object) -> str:
    return "" if hasattr(value, "adjust") else "is not a tuner: it has no adjust"


def summary(name: str) -> str:
    """Return what the tuner does, in one line."""
    if name in BUILT_IN:
        return BUILT_IN[name].summary
    return (inspect.getdoc(get_tuner(name)) or "").partition("\n")[0].rstrip(".")


def gains_by_forecast(name: str) -> bool:
    """Return whether the load forecast is made for this tuner by default."""
    return name in GAIN_BY_FORECAST or name not in BUILT_IN


def resizes(name: str) -> bool:
    """Return whether the tuner may change the number of devices of jobs."""
    return name == "elastic" or name not in BUILT_IN


def defers(name: str) -> bool:
    """Return whether the tuner releases deferred jobs: without it none may be held back."""
    return name == "defer"


def needs(name: str) -> list[str]:
    """Return the settings of the tuner that have no default."""
    return [key for key, argument in _arguments(name).items() if argument.default is argument.empty]


def settings(name: str) -> dict[str, Any]:
    """Return the settings that may be changed, with their defaults: numbers and booleans."""
    defaults = {key: argument.default for key, argument in _arguments(name).items()}
    return {key: value for key, value in defaults.items() if isinstance(value, int | float)}


def parse(name: str, key: str, text: str) -> Any:
    """Parse a setting that a user wrote, by the type of its default.

    Raises:
        BadInput: an unknown setting, or a value of another type.
    """
    defaults = settings(name)
    if key not in defaults:
        raise UnknownName(f"setting of tuner {name}", key, defaults)
    kind = type(defaults[key])
    try:
        return TRUTHS[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        expected = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise BadInput(f"{name}.{key}={text} is not understood", f"give {expected}") from None


def make(name: str, changed: Mapping[str, Any]) -> Tuner:
    """Make the tuner with these settings, the rest at their defaults.

    Raises:
        BadInput: a setting without a default is missing.
    """
    missing = set(needs(name)) - set(changed)
    if missing:
        raise BadInput(
            f"tuner {name} needs a value for {', '.join(sorted(missing))}",
            f"use {', '.join(usable())}",
        )
    return get_tuner(name)(**changed)


def _arguments(name: str) -> dict[str, inspect.Parameter]:
    """Return the arguments of the class, by name."""
    return dict(inspect.signature(get_tuner(name)).parameters)


def _outside() -> dict[str, str]:
    return outside(GROUP)
