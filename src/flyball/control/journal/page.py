"""Prints the kinds of events as tables: the part "Events" of `docs/reference/journal.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from flyball.core.events import (
    GROUPS,
    AttemptEvent,
    Event,
    JobEvent,
    field_names,
)

BEGIN = "<!-- printed from flyball.core.events: begin -->\n"
END = "<!-- printed from flyball.core.events: end -->\n"
TYPES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    dict: "object",
    Mapping: "object",
    Sequence: "list",
}
"""JSON's word for a type of a field."""


def refresh(path: Path) -> None:
    """Print the tables again in a page."""
    path.write_text(with_events(path.read_text("utf-8")), "utf-8")


def with_events(page: str) -> str:
    """Return a page with the tables between its marks."""
    head, _begin, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n{tables()}\n{END}{tail}"


def tables() -> str:
    """Return a table for each group of kinds, in Markdown."""
    return "\n".join(
        f"### {title}\n\n| event | field | type | meaning |\n|---|---|---|---|\n"
        + "".join(f"| {' | '.join(row)} |\n" for cls in classes for row in _rows(cls))
        for title, classes in GROUPS.items()
    )


def _rows(cls: type[Event]) -> Iterator[tuple[str, ...]]:
    """Yield the row of a kind, then a row for each of its fields."""
    hints = get_type_hints(cls, include_extras=True)
    always, optional = field_names(cls)
    base = next(parent for parent in (AttemptEvent, JobEvent, Event) if issubclass(cls, parent))
    inherited, _none = field_names(base)
    about = ", ".join(f"`{name}`" for name in inherited)
    yield f"**`{cls.kind}`**", about, f"form {cls.form}", (cls.__doc__ or "").partition("\n")[0]
    for name in (*always[len(inherited) :], *optional):
        hint, meaning = get_args(hints[name])
        yield "", f"`{name}`", f"{_type(hint)}{', optional' * (name in optional)}", meaning


def _type(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    return TYPES[get_origin(hint) or hint]
