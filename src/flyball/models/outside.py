"""Reads model files from outside as data: sizes checked, no pickle, no code.

A .pt2 file is a zip archive whose JSON names the functions to call, and torch's reader would look
up any name below `torch`, evaluate symbolic expressions and unpickle objects. So the archive is
checked before torch reads it: entries, sizes, every function it calls, every expression.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from flyball.core.errors import BadInput
from flyball.models.machine import available_bytes
from flyball.models.program import quiet

MOST_ENTRIES = 200_000
MOST_JSON_BYTES = 256 * 2**20
MOST_RATIO = 20
"""Largest ratio of an entry's size to its compressed size; torch stores entries uncompressed."""
TARGET = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)\.[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge|and_|or_)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_(int|float|max|min|ite|not|sum|sqrt)"
)
"""Functions that a graph may call."""
EXPRESSION = re.compile(r"[A-Za-z0-9_+\-*/%() ,.<>=&|~]{0,500}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXPRESSION_NAMES = frozenset(
    {
        *(
            "Max",
            "Min",
            "Mod",
            "PythonMod",
            "FloorDiv",
            "CeilDiv",
            "CleanDiv",
            "Eq",
            "Ne",
            "Gt",
            "Ge",
        ),
        *("Lt", "Le", "And", "Or", "Not", "true", "false", "True", "False", "oo", "int_oo"),
        *("ToFloat", "TruncToInt", "CeilToInt", "FloorToInt", "IntTrueDiv", "FloatTrueDiv", "e"),
        *("Integer", "Float", "Symbol", "Abs"),
    }
)
"""Functions in symbolic shapes; symbols are a letter with a number."""
SYMBOL = re.compile(r"[a-z]{1,4}[0-9]{1,6}")
CODE_KEYS = frozenset({"expr_str"})


def read_exported(path: Path) -> torch.export.ExportedProgram:
    """Return the program of a .pt2 file.

    Raises:
        BadInput: not such a file, too large, or it holds code.
    """
    check_size(path)
    check_archive(path)
    with _weights_only(), quiet():
        try:
            return torch.export.load(path)
        except Exception as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise BadInput(
                f"{path}: torch cannot read it: {text[0][:200]}",
                "save it again with torch.export.save",
            ) from error


def check_size(path: Path) -> None:
    """Check that a file exists and fits in memory.

    Raises:
        BadInput: it does not.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file", "check the path")
    size, free = path.stat().st_size, available_bytes()
    if size > free:
        raise BadInput(
            f"{path} has {size / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of memory are free",
            "use a machine with more memory, or a smaller model",
        )


def check_archive(path: Path) -> None:
    """Check a .pt2 archive without running anything of it.

    Raises:
        BadInput: says which entry is refused, and why.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive)
            for entry in archive.infolist():
                name = entry.filename.split("/", 1)[-1]
                if not name.endswith(".json"):
                    continue
                if entry.file_size > MOST_JSON_BYTES:
                    raise BadInput(f"{path}: {name} is larger than {MOST_JSON_BYTES >> 20} MiB")
                content = json.loads(archive.read(entry))
                if name.startswith("models/"):
                    _check_graph(path, content)
                elif name.endswith("_config.json"):
                    _check_payloads(path, content)
    except zipfile.BadZipFile:
        raise BadInput(f"{path} is not a .pt2 archive", "write it with torch.export.save") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: damaged: {error}", "write it again") from None


def _check_entries(path: Path, archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise BadInput(f"{path} has {len(entries):,} entries, at most {MOST_ENTRIES:,} are read")
    total, free = sum(entry.file_size for entry in entries), available_bytes()
    if total > free:
        raise BadInput(
            f"{path} unpacks to {total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of memory are free",
            "use a machine with more memory, or a smaller model",
        )
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise BadInput(f"{path} has two entries of the same name", "write it again")
    for entry in entries:
        name = entry.filename.split("/", 1)[-1]
        if ".." in entry.filename.split("/") or entry.filename.startswith("/"):
            raise BadInput(f"{path}: entry {entry.filename!r} leaves the archive")
        if entry.file_size > MOST_RATIO * max(entry.compress_size, 1024):
            raise BadInput(
                f"{path}: entry {name!r} grows from {entry.compress_size:,} to "
                f"{entry.file_size:,} bytes",
                "write it with torch.export.save, which does not compress",
            )
        if "aotinductor" in name or name.endswith((".so", ".cpp", ".py")):
            raise BadInput(f"{path} holds compiled code ({name})", "export the model, not its code")
        if "custom_obj" in name or "pyobj" in name:
            raise BadInput(f"{path} holds a pickled object ({name})", "use tensors only")
    if not any(name.endswith("/archive_format") for name in names):
        raise BadInput(
            f"{path} is not a .pt2 archive of a supported format", "write it with torch.export.save"
        )


def _check_payloads(path: Path, content: Any) -> None:
    """Refuse weights that are pickled objects."""
    entries = content.get("config", {}) if isinstance(content, dict) else {}
    for name, entry in entries.items():
        if not isinstance(entry, dict) or entry.get("use_pickle"):
            raise BadInput(f"{path}: {name} is pickled", "save plain, dense tensors")


def _check_graph(path: Path, content: Any) -> None:
    """Refuse functions outside of torch's operators, and expressions that are not arithmetic."""
    custom: dict[str, None] = {}
    for key, value in _walk(content):
        if key == "target" and isinstance(value, str) and not TARGET.fullmatch(value):
            custom[value] = None
        elif key in CODE_KEYS and not _is_arithmetic(value):
            raise BadInput(f"{path}: {str(value)[:80]!r} is not a shape", "export it again")
        elif key == "guards_code" and value:
            for line in value:
                if not isinstance(line, str) or not _is_guard(line):
                    raise BadInput(
                        f"{path}: guard {str(line)[:80]!r} is refused", "export it again"
                    )
    if custom:
        names = ", ".join(list(custom)[:3])
        raise BadInput(
            f"{path} calls custom operators: {names}",
            "give the module as package.module:callable, which runs your own code, or export it "
            "with torch's operators only",
        )


def _is_arithmetic(value: Any) -> bool:
    if not isinstance(value, str) or not EXPRESSION.fullmatch(value):
        return False
    words = NAME.findall(re.sub(r"\d+\.?\d*(e[+-]?\d+)?", " ", value)) if value else []
    plain = all(word in EXPRESSION_NAMES for word in words if not SYMBOL.fullmatch(word))
    return "__" not in value and (plain or all(_is_word(word) for word in NAME.findall(value)))


def _is_word(word: str) -> bool:
    return word in EXPRESSION_NAMES or bool(SYMBOL.fullmatch(word))


def _is_guard(line: str) -> bool:
    """Return whether a guard only compares sizes of inputs: `L['x'].size()[0] <= 8`."""
    rest = re.sub(r"L(\['[A-Za-z0-9_]+'\]|\[\d+\])+(\.(size|stride)\(\)\[\d+\])?", "0", line)
    return bool(re.fullmatch(r"[0-9+\-*/%() .<>=]*((and|or|not) [0-9+\-*/%() .<>=]*)*", rest))


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all keys with their values, at any depth."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            for key, entry in current.items():
                yield key, entry
                pending.append(entry)
        elif isinstance(current, list):
            pending += current


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let torch unpickle tensors only, even where its reader asks for more."""
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        else:
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = before
