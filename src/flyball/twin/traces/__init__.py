"""Traces: workloads as files. One file a format, one line each in the tables below.

`read_trace` finds the format by itself; `write_trace` never leaves half a file.
`docs/reference/traces.md` describes every format.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import Workload
from flyball.twin.traces.files import opened

READERS = {
    "canonical": "flyball.twin.traces.canonical:read",
    "elasticflow": "flyball.twin.traces.elasticflow:read",
    "gavel": "flyball.twin.traces.gavel:read",
    "philly": "flyball.twin.traces.philly:read",
    "sia": "flyball.twin.traces.sia:read",
    "swf": "flyball.twin.traces.swf:read",
}
WRITERS = {
    "canonical": "flyball.twin.traces.canonical:write",
    "swf": "flyball.twin.traces.swf_write:write",
}
PHILLY_HEADER = {"submit_s", "duration_s", "num_gpus", "vc"}
HEADERS = {
    "elasticflow": {"job_id", "submit_time", "iteration", "model_name"},
    "gavel": {"job_type", "scale_factor", "total_steps"},
    "sia": {"application", "num_replicas", "batch_size"},
}
"""Columns that tell a format; none of these has a `duration_s`, which canonical needs."""

IN_PARTS = ("sia",)
"""Formats whose files may hold several workloads; `FILE#PART` names one."""


def read_trace(
    path: str | Path, format: str | None = None, notes: list[str] | None = None
) -> Workload:
    """Read a trace, plain or gzipped.

    Args:
        path: the file; `FILE#PART` for one workload of a file that holds several.
        format: a name in `READERS`; None looks at the name and the first line.
        notes: gets a sentence for everything left out (rows skipped and the like).

    Raises:
        BadInput: the file cannot be used; says where, why and what to do.
        UnknownName: no such format.
    """
    path, part = split_part(Path(path))
    name = format or detect(path)
    read = _loaded("trace format", name, READERS)
    if part and name not in IN_PARTS:
        raise BadInput(f"{path} is one workload and has no part {part!r}", f"leave out #{part}")
    arguments = (path, notes if notes is not None else [])
    made: Workload = read(*arguments, part) if name in IN_PARTS else read(*arguments)
    return made


def split_part(path: Path) -> tuple[Path, str]:
    """File and part of `FILE#PART`; the part is "" if none is named."""
    file, mark, part = str(path).rpartition("#")
    return (path, "") if not mark or path.exists() else (Path(file), part)


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
    if first.count("\t") >= 8:  # Gavel's lines have nine fields or more and no header
        return "gavel"
    columns = {column.strip().strip('"') for column in first.split(",")}
    for name, header in HEADERS.items():
        if columns >= header and "duration_s" not in columns:
            return name
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
