"""Checks of what a YAML file holds; an error gives the place, the value and what is valid."""

from __future__ import annotations

import reprlib
from typing import Any

from flyball.core.errors import BadInput, UnknownName


def mapping(content: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BadInput(
            f"{where} must be keys with values, not {kind_of(content)}", f"keys: {', '.join(keys)}"
        )
    for key in content:
        if str(key) not in keys:
            raise UnknownName(f"key in {where}:", str(key), keys)
    return content


def named_text(fields: dict[str, Any], key: str, where: str, default: str) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str) or not value.strip() or len(value) > 100:
        raise BadInput(f"{where}: {key} = {show(value)} is not a name", f"write {key}: some-text")
    return value.strip()


def number(
    fields: dict[str, Any], key: str, where: str, default: float, low: float, high: float
) -> float:
    value = fields.get(key, default)
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not low <= value <= high:  # also refuses NaN
        raise BadInput(f"{where}: {key} = {show(value)} is not valid", f"use {low:g} to {high:g}")
    return float(value)


def whole(fields: dict[str, Any], key: str, where: str, default: int, low: int, high: int) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadInput(
            f"{where}: {key} = {show(value)} is not valid",
            f"use a whole number from {low} to {high}",
        )
    return value


def kind_of(content: Any) -> str:
    return "nothing" if content is None else f"a {type(content).__name__}"


def show(value: Any) -> str:
    """Show a value in a message, shortened: it may be very long or contain itself."""
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
