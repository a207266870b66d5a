"""The shelf of tuners: one line each, loaded when asked for.

A tuner is a class with `adjust` (`core.protocols.Tuner`); its arguments are its settings. Outside
packages add theirs under the entry-point group `flyball.tuners` (name -> `module:Class`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.plugins import load, loadable, outside
from flyball.core.protocols import Tuner


class Entry(NamedTuple):
    """A tuner on the shelf: `module:Class`, and what it does in a line."""

    where: str
    summary: str


BUILT_IN = {
    "elastic": Entry(
        "flyball.tune.elastic:Elastic",
        "gives elastic jobs the number and type of devices at which they are worth most",
    ),
    "share": Entry(
        "flyball.tune.share:Share",
        "puts two jobs on a device where they hardly slow each other down",
    ),
    "balance": Entry(
        "flyball.tune.balance:Balance",
        "moves running jobs together so that larger ones fit, if that is worth its cost",
    ),
    "power": Entry(
        "flyball.tune.power:Power",
        "caps jobs that lose little speed by it, keeps the power budget, lets idle nodes sleep",
    ),
    "replicas": Entry(
        "flyball.tune.replicas:Replicas",
        "gives an inference service the replicas that its requests will need",
    ),
}
"""In the order in which they change a plan: sizes and places first, power last."""

GROUP = "flyball.tuners"
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def names() -> list[str]:
    """Every tuner's name: the built-in ones first, in the order in which they act."""
    return [*BUILT_IN, *sorted(set(_outside()) - set(BUILT_IN))]


def usable() -> list[str]:
    """The tuners that need to be told nothing: what `all` stands for."""
    return [name for name in loadable_names() if not needs(name)]


def in_order(chosen: Iterable[str]) -> list[str]:
    """The names, each once, in the order in which they act.

    Raises:
        UnknownName: one of them is not on the shelf.
    """
    wanted, known = set(chosen), names()
    for name in sorted(wanted - set(known)):
        raise UnknownName("tuner", name, known)
    return [name for name in known if name in wanted]


def location(name: str) -> str:
    """Where the tuner is: `module:Class`.

    Raises:
        UnknownName: there is none of this name.
    """
    where = BUILT_IN[name].where if name in BUILT_IN else _outside().get(name)
    if where is None:
        raise UnknownName("tuner", name, names())
    return where


def get_tuner(name: str) -> type[Tuner]:
    """The class of this name.

    Raises:
        UnknownName: there is none.
    """
    tuner: type[Tuner] = load("tuner", name, location(name), GROUP, _wrong)
    return tuner


def loadable_names() -> list[str]:
    """Return the names of the tuners that can be loaded; others' broken ones are warned of."""
    return [*BUILT_IN, *loadable([name for name in names() if name not in BUILT_IN], get_tuner)]


def _wrong(value: object) -> str:
    return "" if hasattr(value, "adjust") else "is not a tuner: it has no adjust"


def summary(name: str) -> str:
    """What the tuner does, in a line."""
    if name in BUILT_IN:
        return BUILT_IN[name].summary
    return (inspect.getdoc(get_tuner(name)) or "").partition("\n")[0].rstrip(".")


def resizes(name: str) -> bool:
    """Whether the tuner changes the number of devices of jobs, as far as we know."""
    return name == "elastic" or name not in BUILT_IN


def needs(name: str) -> list[str]:
    """What must be said to make the tuner, as it has no default."""
    return [key for key, each in _arguments(name).items() if each.default is each.empty]


def settings(name: str) -> dict[str, Any]:
    """The settings that may be changed, with their defaults: numbers, and yes or no."""
    found = {key: each.default for key, each in _arguments(name).items()}
    return {key: value for key, value in found.items() if isinstance(value, int | float)}


def parse(name: str, key: str, text: str) -> Any:
    """A setting as a user wrote it, of the type of its default.

    Raises:
        BadInput: no such setting, or no such value.
    """
    known = settings(name)
    if key not in known:
        raise UnknownName(f"setting of tuner {name}", key, known)
    kind = type(known[key])
    try:
        return TRUTHS[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        wanted = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise BadInput(f"{name}.{key}={text} is not understood", f"give {wanted}") from None


def make(name: str, changed: Mapping[str, Any]) -> Tuner:
    """The tuner with these settings, the rest at their defaults.

    Raises:
        BadInput: a tuner that needs more than that.
    """
    missing = set(needs(name)) - set(changed)
    if missing:
        raise BadInput(
            f"tuner {name} needs to be told {', '.join(sorted(missing))}",
            f"use {', '.join(usable())}",
        )
    return get_tuner(name)(**changed)


def _arguments(name: str) -> dict[str, inspect.Parameter]:
    """The arguments of the class, by name."""
    return dict(inspect.signature(get_tuner(name)).parameters)


def _outside() -> dict[str, str]:
    return outside(GROUP)
