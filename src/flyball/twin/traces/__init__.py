"""Traces: workloads as files. One file a format, one line each in the tables below.

`read_trace` finds the format by itself; `write_trace` never leaves half a file.
`docs/reference/traces.md` describes every format.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from flyball.core.errors import UnknownName
from flyball.core.workload import Workload
from flyball.twin.traces.files import opened

READERS = {
    "canonical": "flyball.twin.traces.canonical:read",
    "openb": "flyball.twin.traces.openb:read",
    "philly": "flyball.twin.traces.philly:read",
    "swf": "flyball.twin.traces.swf:read",
}
WRITERS = {
    "canonical": "flyball.twin.traces.canonical:write",
    "swf": "flyball.twin.traces.swf_write:write",
}
OPENB_HEADER = {"creation_time", "cpu_milli", "num_gpu", "gpu_milli"}
PHILLY_HEADER = {"submit_s", "duration_s", "num_gpus", "vc"}


def read_trace(
    path: str | Path, format: str | None = None, notes: list[str] | None = None
) -> Workload:
    """Read a trace, plain or gzipped.

    Args:
        path: the file.
        format: a name in `READERS`; None looks at the name and the first line.
        notes: gets a sentence for everything left out (rows skipped and the like).

    Raises:
        BadInput: the file cannot be used; says where, why and what to do.
        UnknownName: no such format.
    """
    path = Path(path)
    read = _loaded("trace format", format or detect(path), READERS)
    made: Workload = read(path, notes if notes is not None else [])
    return made


def write_trace(workload: Workload, path: str | Path, format: str | None = None) -> None:
    """Write a trace, gzipped if the name ends in `.gz`; all of it or nothing.

    Args:
        workload: the jobs.
        path: the file; one that exists is replaced.
        format: a name in `WRITERS`; None is `swf` for `.swf` and `.swf.gz`, else `canonical`.
    """
    path = Path(path)
    name = format or ("swf" if _named_swf(path) else "canonical")
    _loaded("format to write", name, WRITERS)(workload, path)


def detect(path: Path) -> str:
    """The format of a file, from its name and its first line with text."""
    if _named_swf(path):
        return "swf"
    with opened(path) as lines:
        first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith(";") or _all_numbers(first.split()):
        return "swf"
    columns = {column.strip().strip('"') for column in first.split(",")}
    if columns >= OPENB_HEADER:
        return "openb"
    return "philly" if columns >= PHILLY_HEADER and "job" not in columns else "canonical"


def _named_swf(path: Path) -> bool:
    return path.name.lower().endswith((".swf", ".swf.gz"))


def _all_numbers(words: list[str]) -> bool:
    try:
        return len([float(word) for word in words]) > 1
    except ValueError:
        return False


def _loaded(kind: str, name: str, table: dict[str, str]) -> Any:
    if name not in table:
        raise UnknownName(kind, name, table)
    module, _, function = table[name].partition(":")
    return getattr(import_module(module), function)
