"""Loads plug-ins that other packages register under an entry-point group; skips broken ones.

A broken package must not take away the policies, tuners and forecasters of all the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from flyball.core.errors import FlyballError

T = TypeVar("T")

logger = logging.getLogger("flyball.plugins")


class BrokenPlugin(FlyballError):
    """A plug-in of another package cannot be loaded, or is not of the kind its group is for."""


def outside(group: str) -> dict[str, str]:
    """Return the plug-ins that other packages add to a group: `module:attribute` by name."""
    return {point.name: point.value for point in entry_points(group=group)}


def load(kind: str, name: str, where: str, group: str, wrong: Callable[[Any], str]) -> Any:
    """Return the object at `module:attribute`.

    Args:
        kind: what an object of this group is called in messages, e.g. "policy".
        group: of entry points, to name the package in an error.
        wrong: returns why the object is not of this kind, "" = it is.

    Raises:
        BrokenPlugin: names the package and the reason.
    """
    module, _, attribute = where.partition(":")
    try:
        value = getattr(import_module(module), attribute)
        fault = wrong(value)
    except Exception as error:
        fault = f"cannot be loaded: {type(error).__name__}: {error}"
        if (package := _package(group, name, where)) is None:
            raise  # a bug in Flyball
    else:
        if not fault:
            return value
        package = _package(group, name, where)
        assert package is not None, f"{where} {fault}"
    reason = " ".join(fault.split())
    raise BrokenPlugin(
        f"{kind} {name} of package {package}: {where} {reason}", f"repair or uninstall {package}"
    )


def _package(group: str, name: str, where: str) -> str | None:
    """Return the package that adds a name to a group; None if it is built in."""
    for point in entry_points(group=group, name=name):
        if point.value == where:
            return point.dist.name if point.dist is not None else point.module.partition(".")[0]
    return None


def loadable(names: Iterable[str], get: Callable[[str], T]) -> dict[str, T]:
    """Return the plug-ins that load, by name; logs a warning for each that does not."""
    loaded: dict[str, T] = {}
    for name in names:
        try:
            loaded[name] = get(name)
        except BrokenPlugin as error:
            logger.warning("passed over: %s", error)
    return loaded
