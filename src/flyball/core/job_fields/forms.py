"""The forms that the values of a job's fields take: type, bounds, and how they read as text.

Every form has a `rule`, the sentence that a refusal ends with, wherever the value came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flyball.core.errors import BadInput, UnknownName

YES_OR_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
MOST_SHOWN = 40
"""Maximum number of characters of a bad value that a message repeats."""

# Names and paths: no control characters, which could forge lines on a terminal.
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
ABSOLUTE = r"^/[^\x00-\x1f\x7f-\x9f]*$"
ABSOLUTE_OR_EMPTY = r"^(/[^\x00-\x1f\x7f-\x9f]*)?$"


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def rule(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, int) and self.low <= value <= self.high

    def read(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) or not self.allows(int(text)):
            raise invalid(text, self)
        return int(text)


@dataclass(frozen=True)
class Number:
    """A number within bounds."""

    low: float
    high: float

    @property
    def rule(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high  # NaN fails

    def read(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not self.allows(value):
            raise invalid(text, self)
        return value


@dataclass(frozen=True)
class Flag:
    """True or false."""

    @property
    def rule(self) -> str:
        return "true or false"

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    def read(self, text: str) -> bool:
        if text.strip().lower() not in YES_OR_NO:
            raise BadInput(f"{text[:MOST_SHOWN]!r} is neither true nor false", f"use {self.rule}")
        return YES_OR_NO[text.strip().lower()]


@dataclass(frozen=True)
class Text:
    """A text of at most `most` characters that matches a pattern."""

    most: int
    pattern: str = PLAIN

    @property
    def rule(self) -> str:
        path = ", an absolute path" if self.pattern != PLAIN else ""
        return f"1 to {self.most} printable characters{path}"

    def allows(self, value: Any) -> bool:
        fits = isinstance(value, str) and len(value) <= self.most
        return fits and re.search(self.pattern, value) is not None

    def read(self, text: str) -> str:
        if not text.strip() or not text.isprintable() or not self.allows(text):
            raise BadInput(f"{text[:MOST_SHOWN]!r} is not a name", f"use {self.rule}")
        return text.strip()


@dataclass(frozen=True)
class Choice:
    """One of a few names, or the first word of one; "" = not stated."""

    what: str
    names: tuple[str, ...]

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.names)}"

    def allows(self, value: Any) -> bool:
        return value == "" or value in self.names

    def in_full(self, value: Any) -> Any:
        """Return the name that a value stands for (`compute` = `compute-intensive`), else it."""
        first_words = {name.partition("-")[0]: name for name in self.names}
        return first_words.get(value, value) if isinstance(value, str) else value

    def read(self, text: str) -> str:
        name: str = self.in_full(text.strip().lower().replace("_", "-"))
        if name not in self.names:
            raise UnknownName(self.what, text, self.names)
        return name


@dataclass(frozen=True)
class Names:
    """Up to `most` names, all of which apply: `a,b`, or Slurm's `a&b`."""

    most: int
    name: Text

    @property
    def rule(self) -> str:
        return f"at most {self.most} names of {self.name.rule}, joined by commas"

    def allows(self, value: Any) -> bool:
        return len(value) <= self.most and all(name and self.name.allows(name) for name in value)

    def read(self, text: str) -> tuple[str, ...]:
        if re.search(r"[|()\[\]*]", text):
            remedy = "use names that must all hold: a,b or a&b"
            raise BadInput(f"{text[:MOST_SHOWN]!r}: alternatives are not supported", remedy)
        names = tuple(self.name.read(part) for part in re.split("[,&]", text))
        if not self.allows(names):
            raise invalid(text, self)
        return names


@dataclass(frozen=True)
class Structure:
    """A list or a mapping, whose readers know the field by its name.

    Attributes:
        rule: what it holds.
        most: maximum number of entries.
        restore: converts it from JSON to the form in which it is kept.
    """

    rule: str
    most: int
    restore: Callable[[Any], Any]

    def allows(self, value: Any) -> bool:
        return len(value) <= self.most


Form = Whole | Number | Flag | Text | Choice | Names | Structure


class Ruled(Protocol):
    """Something with a rule for its values: a form, or a field with its unit."""

    @property
    def rule(self) -> str: ...


def invalid(value: object, ruled: Ruled) -> BadInput:
    """Return the error of a value that is against a rule."""
    shown = repr(value[:MOST_SHOWN]) if isinstance(value, str) else f"{value!s:.{MOST_SHOWN}}"
    return BadInput(f"{shown} is not valid", f"use {ruled.rule}")
