"""The form of a job reads what people type, field by field, as the API takes it."""

from __future__ import annotations

import pytest

from flyball.core.errors import FlyballError
from flyball.core.job_fields import FIELDS
from flyball.web.job_form import FIRST, value_of

TYPED = {
    "argv": ("sh -c 'echo a b'", ["sh", "-c", "echo a b"]),
    "cpus": ("4", 4),
    "priority": ("-1.5", -1.5),
    "limit_s": ("2h", 7200.0),
    "env": ("A=1\nB=x=y\n", {"A": "1", "B": "x=y"}),
    "after": ("afterok:12, afterany:13", [["afterok", 12], ["afterany", 13]]),
    "features": ("nvme,ib", ["nvme", "ib"]),
    "notify": ("http://localhost/x\n\n", ["http://localhost/x"]),
    "kind": ("memory-bound", "memory-bound"),
    "hold": ("true", True),
    "array": ("0-9%4", "0-9%4"),
    "name": ("<b>bold</b>", "<b>bold</b>"),
}


@pytest.mark.parametrize("name", TYPED)
def test_what_people_type(name: str) -> None:
    text, value = TYPED[name]
    assert value_of(FIELDS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpus", "many"), ("cpus", "0"), ("limit_s", "soon"), ("argv", "'open"), ("after", "12")],
)
def test_what_cannot_be_read(name: str, text: str) -> None:
    with pytest.raises((ValueError, FlyballError)):
        value_of(FIELDS[name], text)


def test_the_fields_shown_first_exist() -> None:
    assert set(FIRST) <= set(FIELDS)
