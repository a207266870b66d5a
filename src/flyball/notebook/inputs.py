"""What a notebook gives to a replay: a trace, a cluster, options; and how errors name them."""

from __future__ import annotations

import csv
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flyball.core.cluster import Cluster
from flyball.core.errors import BadInput, FlyballError
from flyball.core.units import parse_duration_s
from flyball.core.workload import Workload
from flyball.twin.inputs.cluster_file import load_cluster, parse_cluster
from flyball.twin.inputs.traces import read_trace

OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: (?=\S*[A-Z:,\d'])('?[\w.:,]*\w'?))?")
"""An option of the command line in a message, with a value that cannot be taken for prose."""
RENAMED = {"policy": "policies", "set": "settings", "adjustments": "watch"}
TRACE_FORMS = "a file, a workload (flyball.generate, flyball.read_trace), or rows"
ROWS_NAME = "rows"


def as_cluster(cluster: Any) -> Cluster:
    """Return a cluster from a file, a preset's name, or the content of a cluster file.

    Raises:
        BadInput: there is no such cluster, or it has errors.
    """
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, str | Path):
        return load_cluster(cluster)
    if isinstance(cluster, Mapping):
        return parse_cluster(dict(cluster), "the cluster")
    raise BadInput(
        f"{_short(cluster)} is not a cluster",
        "give a file, a preset such as 'five-mixed' or a dict",
    )


def as_trace(trace: Any) -> str | Path | Workload | list[Workload]:
    """Return a trace that `experiments` can read: a path, a workload, or one per seed.

    Raises:
        BadInput: it is none of these, or rows with errors.
    """
    if isinstance(trace, str | Path | Workload):
        return trace
    if isinstance(trace, Sequence) and trace and all(isinstance(one, Workload) for one in trace):
        return list(trace)
    columns = _columns(trace)
    if columns is None:
        raise BadInput(f"{_short(trace)} is not a trace", f"give {TRACE_FORMS}")
    return _workload(columns)


def _columns(rows: Any) -> dict[str, list[Any]] | None:
    """Return columns from a dict of columns, a list of dicts or a data frame; None = neither."""
    if isinstance(rows, Mapping):
        return {str(name): list(values) for name, values in rows.items()}
    if isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return {str(name): [row.get(name) for row in rows] for name in names}
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        return {str(name): list(rows[name]) for name in rows.columns}
    return None


def _workload(columns: dict[str, list[Any]]) -> Workload:
    """Return the workload of columns that are named as in a canonical trace."""
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise BadInput(
            f"columns of different lengths: {sizes}", "give every column a value per job"
        )
    count = next(iter(sizes.values()), 0)
    if "job" not in columns:
        columns = {"job": [f"j{at}" for at in range(count)], **columns}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / ROWS_NAME
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(columns)
            writer.writerows(
                [_text(value) for value in row] for row in zip(*columns.values(), strict=True)
            )
        try:
            workload = read_trace(file, "canonical")
        except FlyballError as error:
            raise BadInput(str(error).replace(str(file), ROWS_NAME)) from None
    return replace(workload, name=ROWS_NAME)


def _text(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    if missing or str(value) in ("NaT", "<NA>"):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def seconds(value: Any, name: str) -> float:
    """Return a time since the first submission: seconds, `"6h"` or a timedelta.

    Raises:
        BadInput: it is none of these.
    """
    if hasattr(value, "total_seconds"):
        value = value.total_seconds()
    number = parse_duration_s(value) if isinstance(value, str) else value
    if not isinstance(number, int | float) or not 0 <= number < 1e12:
        raise BadInput(f"{name}={value!r} is not a time", "use seconds, or e.g. '90m', '6h', '2d'")
    return float(number)


def in_python(text: str) -> str:
    """Return a message with options as arguments: `--load 0` as `load=0`."""

    def argument(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        name = RENAMED.get(name, name)
        value = match[2]
        if value is None:
            return name
        is_plain = value.startswith("'") or re.fullmatch(r"[\d.]+", value)
        return f"{name}={value if is_plain else repr(value)}"

    return OPTION.sub(argument, text)


@contextmanager
def python_errors() -> Iterator[None]:
    """Let errors name arguments, not options of the command line."""
    try:
        yield
    except FlyballError as error:
        error.args = tuple(in_python(part) for part in error.args)
        error.remedy = in_python(error.remedy)
        raise


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
