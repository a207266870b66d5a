"""The form of a job, made from the table of job fields."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

from nicegui import ui

from flyball.core.errors import FlyballError
from flyball.core.job_fields import DEFAULTS, FIELDS
from flyball.core.job_fields.field import JobField
from flyball.core.job_fields.forms import Choice, Flag, Names, Number, Structure, Text, Whole
from flyball.core.units import parse_duration_s
from flyball.web.frame import tag

FIRST = ("argv", "name", "cpus", "gpus", "memory_mib", "limit_s", "priority", "kind")
"""Fields that the form shows at once; the others are folded away."""
LABELS = {
    "argv": "Command", "kind": "Class", "milli": "Share of each GPU (thousandths)",
    "least": "Fewest devices (elastic)", "most": "Most devices (elastic)", "cpus": "Cores",
    "gpus": "GPUs", "memory_mib": "Memory (MiB)", "limit_s": "Time limit", "estimate_s": "Estimate",
}  # fmt: skip
HINTS = {
    "argv": "python train.py --epochs 3", "limit_s": "2h, 90s, 1h30m", "array": "0-9%4",
    "env": "NAME=value, one a line", "after": "afterok:12 afterany:13", "features": "nvme,ib",
    "notify": "one URL or command a line", "estimate_s": "20m",
}  # fmt: skip


class FieldError(ValueError):
    """A value that cannot be read, with what to write instead."""


class JobForm:
    """Inputs for every field of a job, and the body that they stand for.

    Args:
        changed: called after every change.
    """

    def __init__(self, changed: Callable[[], Any]) -> None:
        self._texts: dict[str, str] = {}
        self._inputs: dict[str, ui.element] = {}
        self._changed = changed
        with ui.element("div").classes("fb-form"):
            for name in FIRST:
                self._add(FIELDS[name])
        with ui.element("details").classes("fb-more") as more:
            tag("summary", "All other fields").style("cursor: pointer; margin: 12px 0")
            with ui.element("div").classes("fb-form"):
                for row in FIELDS.values():
                    if row.sent and row.name not in FIRST and row.name != "user":
                        self._add(row)
        self.more = more

    def _add(self, row: JobField) -> None:
        label = LABELS.get(row.name, row.label.capitalize())
        if row.unit and "(" not in label and row.notation != "duration":
            label += f" ({row.unit})"
        with ui.element("label").classes("wide" if row.name == "argv" else "") as box:
            box.props["title"] = row.meaning
            tag("span", label)
            element = ui.element(_tag_of(row))
        element.props["name"] = row.name
        if hint := HINTS.get(row.name):
            element.props["placeholder"] = hint
        form = row.form
        if isinstance(form, Choice):
            with element:
                tag("option", "to be classified").props('value=""')
                for choice in form.names:
                    tag("option", choice)
        elif isinstance(form, Flag):
            element.props("type=checkbox").style("width: auto; justify-self: start")
            element.props["checked"] = bool(row.default)
        elif row.notation == "moment":
            element.props("type=datetime-local")
        elif isinstance(form, Whole | Number) and not _is_worded(row):
            element.props("type=number").props(f'min={form.low:g} max={form.high:g} step="any"')
            element.props["placeholder"] = f"{row.default:g}"
        event = "change" if isinstance(form, Choice | Flag) else "input"
        value = "String(e.target.checked)" if isinstance(form, Flag) else "e.target.value"
        element.on(
            event, lambda sent, name=row.name: self._take(name, str(sent.args)),
            js_handler=f"(e) => emit({value})",
        )  # fmt: skip
        self._inputs[row.name] = element

    def _take(self, name: str, text: str) -> None:
        self._texts[name] = text
        self._changed()

    def body(self) -> dict[str, Any]:
        """Return the body of the request; fields at their defaults are left out.

        Raises:
            FieldError: a value cannot be read.
        """
        body: dict[str, Any] = {}
        for name, text in self._texts.items():
            row = FIELDS[name]
            if not text.strip():
                continue
            try:
                value = value_of(row, text)
            except (FlyballError, ValueError) as error:
                self.mark(name)
                raise FieldError(f"{LABELS.get(name, row.label)}: {error}") from error
            if name == "argv" or value != DEFAULTS[name]:
                body[name] = value
        if "argv" not in body:
            raise FieldError("Type the command to run.")
        return body

    def mark(self, name: str = "") -> None:
        """Mark a field as not valid; "" = none."""
        for field, element in self._inputs.items():
            element.props(f"aria-invalid={str(field == name).lower()}")


def _is_worded(row: JobField) -> bool:
    """Return whether a number is written as people write it: `2h`, `0-9%4`."""
    return row.notation == "duration" or row.name == "array"


def _tag_of(row: JobField) -> str:
    if isinstance(row.form, Choice):
        return "select"
    is_long = row.name in ("env", "notify") or row.name == "argv"
    return "textarea" if is_long else "input"


def value_of(row: JobField, text: str) -> Any:
    """Return the value of a field as the API takes it.

    Raises:
        ValueError, FlyballError: it cannot be read.
    """
    form = row.form
    if row.name == "array":
        return text.strip()
    if row.name == "argv":
        return shlex.split(text)
    if row.name == "env":
        pairs = [line.partition("=") for line in text.splitlines() if line.strip()]
        return {name.strip(): value for name, _equals, value in pairs}
    if row.name == "notify":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if row.name == "after":
        waits = [part.partition(":") for part in text.replace(",", " ").split()]
        return [[how, int(job)] for how, _colon, job in waits]
    if row.notation == "duration":
        seconds = parse_duration_s(text)
        if not form.allows(seconds):
            raise FieldError("write a time such as 90s, 2h or 1h30m")
        return seconds
    if row.notation == "moment":
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M"))
    if isinstance(form, Names):
        return list(form.read(text))
    assert isinstance(form, Whole | Number | Flag | Text | Choice | Structure)
    if isinstance(form, Structure):
        raise FieldError("this field cannot be set here")
    return form.read(text)
