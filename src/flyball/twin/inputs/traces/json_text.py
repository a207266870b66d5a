"""JSON with lines of any length: read line by line, or a whole file as one value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from flyball.core.errors import BadInput, at
from flyball.twin.inputs.traces.files import opened

MAX_TEXT = 1 << 30
"""Maximum number of characters of one value, which must be in memory as text."""

PIECES = 1000

Hook = Callable[[dict[str, Any]], Any]


def json_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, whatever their length, with their numbers."""
    with opened(path) as pieces:
        row, parts, length = 1, [], 0
        for piece in pieces:
            parts.append(piece)
            length += len(piece)
            if length > MAX_TEXT:
                raise _too_long(path)
            if piece.endswith(("\n", "\r")):
                line = "".join(parts)
                if not line.isspace():
                    yield row, line
                row, parts, length = row + 1, [], 0
        rest = "".join(parts)
        if rest.strip():
            yield row, rest


def whole_text(path: Path) -> str:
    """Return all of a file, at most `MAX_TEXT` characters."""
    parts, length = [], 0
    with opened(path) as pieces:
        # Lines are joined in pieces, as a list of many short lines needs much memory.
        while part := "".join(islice(pieces, PIECES)):
            length += len(part)
            if length > MAX_TEXT:
                raise _too_long(path)
            parts.append(part)
    return "".join(parts)


def parsed(path: Path, row: int, text: str, hook: Hook | None = None, exact: bool = False) -> Any:
    """Return the value of a text that begins in this row.

    Args:
        hook: replaces every object as soon as it is read, so that only what is needed is kept.
        exact: read fractions as `Decimal`s; not combined with a hook.

    Raises:
        BadInput: the text is not JSON.
    """
    decoder = _EXACT if exact else json.JSONDecoder(object_hook=hook, parse_constant=_refuse)
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise _not_json(path, row + error.lineno - 1, error.msg) from None
    except (ValueError, RecursionError) as error:
        raise _not_json(path, row, str(error)) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


_EXACT = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def _not_json(path: Path, row: int, why: str) -> BadInput:
    return BadInput(f"{at(path, row)}: is not JSON ({why})", "check for a cut or damaged line")


def _too_long(path: Path) -> BadInput:
    return BadInput(
        f"{path} has more than {MAX_TEXT:,} characters in one JSON value",
        "split it, e.g. by time",
    )
