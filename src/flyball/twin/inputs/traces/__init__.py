"""Traces: workloads as files. Each format is one module and one line in the tables below.

`read_trace` detects the format; `write_trace` never leaves a partial file.
`docs/reference/traces.md` describes every format.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.files import MAX_LINE, opened

READERS = {
    "canonical": "flyball.twin.inputs.traces.canonical:read",
    "elasticflow": "flyball.twin.inputs.traces.elasticflow:read",
    "gavel": "flyball.twin.inputs.traces.gavel:read",
    "journal": "flyball.twin.inputs.traces.journal:read",
    "kubernetes": "flyball.twin.inputs.traces.kubernetes:read",
    "openb": "flyball.twin.inputs.traces.openb:read",
    "philly": "flyball.twin.inputs.traces.philly:read",
    "sacct": "flyball.twin.inputs.traces.sacct:read",
    "sacct-json": "flyball.twin.inputs.traces.sacct_json:read",
    "sia": "flyball.twin.inputs.traces.sia:read",
    "swf": "flyball.twin.inputs.traces.swf:read",
}
WRITERS = {
    "canonical": "flyball.twin.inputs.traces.canonical:write",
    "journal": "flyball.twin.inputs.traces.journal_write:write",
    "swf": "flyball.twin.inputs.traces.swf_write:write",
}
ENDINGS = {"swf": (".swf", ".swf.gz"), "journal": (".jsonl", ".jsonl.gz")}
"""File name endings that select the format to write."""

IN_PARTS = ("sia",)
"""Formats whose files may hold several workloads; `FILE#PART` names one."""
GROWS_BATCHES = "gavel"
"""Name of the format whose jobs may grow their batch size as they train."""


def read_trace(
    path: str | Path,
    format: str | None = None,
    notes: list[str] | None = None,
    static_batch: bool = False,
) -> Workload:
    """Read a trace, plain or gzipped.

    Args:
        path: the file; `FILE#PART` for one workload of a file that holds several.
        format: a name in `READERS`; None detects it from the name and the first lines.
        notes: receives a sentence for everything left out (skipped rows and the like).
        static_batch: read jobs of a Gavel trace that grow their batch as if they kept it.

    Raises:
        BadInput: the file is not valid; the message has the place, the reason and a remedy.
        UnknownName: there is no such format.
    """
    path, part = split_part(Path(path))
    name = format or detect(path)
    read = _loaded("trace format", name, READERS)
    if part and name not in IN_PARTS:
        raise BadInput(f"{path} is one workload and has no part {part!r}", f"leave out #{part}")
    if static_batch and name != GROWS_BATCHES:
        raise BadInput(
            f"{path} is a {name} trace, whose jobs keep their batch size",
            "leave out --static-batch",
        )
    arguments: tuple[Any, ...] = (path, notes if notes is not None else [])
    if name in IN_PARTS:
        arguments += (part,)
    elif static_batch:
        arguments += (True,)
    workload: Workload = read(*arguments)
    return workload


def split_part(path: Path) -> tuple[Path, str]:
    """Split `FILE#PART` into file and part; the part is "" if none is named."""
    file, mark, part = str(path).rpartition("#")
    return (path, "") if not mark or path.exists() else (Path(file), part)


def write_trace(workload: Workload, path: str | Path, format: str | None = None) -> None:
    """Write a trace, gzipped if the name ends in `.gz`; a failed write leaves no file.

    Args:
        workload: the jobs.
        path: the file; one that exists is replaced.
        format: a name in `WRITERS`; None goes by `ENDINGS`, and `canonical` for any other name.
    """
    path = Path(path)
    named = (name for name, endings in ENDINGS.items() if path.name.lower().endswith(endings))
    name = format or next(named, "canonical")
    _loaded("format to write", name, WRITERS)(workload, path)


def detect(path: Path) -> str:
    """Return the format of a file, from its name and its first lines with text."""
    if path.name.lower().endswith(ENDINGS["swf"]):
        return "swf"
    head = _head(path)
    return next((name for name, recognises in SIGNS if recognises(head)), "canonical")


def _head(path: Path) -> list[str]:
    """Return the first lines with text, up to the maximum length of one line."""
    head: list[str] = []
    length = 0
    with opened(path) as lines:
        for line in lines:
            if line.strip():
                head.append(line.strip())
                length += len(line)
            if length >= MAX_LINE or (head and not head[0].startswith(("{", "["))):
                break  # only JSON needs more than one line to be recognised
    return head or [""]


def _is_swf(head: list[str]) -> bool:
    return head[0].startswith(";") or _all_numbers(head[0].split())


def _is_journal(head: list[str]) -> bool:
    return head[0].startswith("{") and '"flyball_journal"' in head[0]


def _is_kubernetes(head: list[str]) -> bool:
    text = "".join(head)
    return text.startswith(("{", "[")) and ('"metadata"' in text or '"apiVersion"' in text)


def _is_sacct_json(head: list[str]) -> bool:
    return head[0].startswith("{")


def _is_sacct(head: list[str]) -> bool:
    return bool({"jobid", "jobidraw"} & set(head[0].lower().split("|"))) and "|" in head[0]


def _is_gavel(head: list[str]) -> bool:
    if head[0].count("\t") >= 8:  # Gavel's format has nine fields or more and no header
        return True
    return _has_columns(head, {"job_type", "scale_factor", "total_steps"}, "duration_s")


def _is_elasticflow(head: list[str]) -> bool:
    return _has_columns(head, {"job_id", "submit_time", "iteration", "model_name"}, "duration_s")


def _is_sia(head: list[str]) -> bool:
    return _has_columns(head, {"application", "num_replicas", "batch_size"}, "duration_s")


def _is_openb(head: list[str]) -> bool:
    return _has_columns(head, {"creation_time", "cpu_milli", "num_gpu", "gpu_milli"}, "duration_s")


def _is_philly(head: list[str]) -> bool:
    return _has_columns(head, {"submit_s", "duration_s", "num_gpus", "vc"}, "job")


def _has_columns(head: list[str], required: set[str], excluded: str) -> bool:
    """Return whether the first line is a CSV header with these columns and without that one."""
    columns = {column.strip().strip('"') for column in head[0].split(",")}
    return columns >= required and excluded not in columns


SIGNS: tuple[tuple[str, Callable[[list[str]], bool]], ...] = (
    ("swf", _is_swf),
    ("journal", _is_journal),
    ("kubernetes", _is_kubernetes),
    ("sacct-json", _is_sacct_json),
    ("sacct", _is_sacct),
    ("gavel", _is_gavel),
    ("elasticflow", _is_elasticflow),
    ("sia", _is_sia),
    ("openb", _is_openb),
    ("philly", _is_philly),
)
"""Function that recognises each format, in the order they are tried; if none does: `canonical`."""


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
