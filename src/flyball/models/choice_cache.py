"""Remembers which back end won, per model, machine and versions.

Only names and figures are kept, in small JSON files; the model is built anew and its outputs are
compared again, so a wrong entry can cost time but never a wrong result.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flyball.models.machine import Machine

FORMAT = 2


def folder() -> Path:
    """Return the folder of remembered choices."""
    base = os.environ.get("FLYBALL_CACHE")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return (Path(base) if base else Path(cache) / "flyball") / "models"


def key_of(model: str, machine: Machine, threads: int, backends: tuple[str, ...]) -> str:
    """Return the name of an entry: a hash of all that a choice depends on."""
    parts = [FORMAT, model, asdict(machine), threads, list(backends)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def read(key: str) -> dict[str, Any] | None:
    """Return what was remembered; None if there is nothing or it is damaged."""
    try:
        value = json.loads((folder() / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    is_entry = isinstance(value, dict) and isinstance(value.get("choice"), str)
    return value if is_entry and isinstance(value.get("candidates"), list) else None


def write(key: str, value: dict[str, Any]) -> None:
    """Remember a choice; a cache that cannot be written is no error."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        path = folder() / f"{key}.json"
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(value), "utf-8")
        temporary.replace(path)
    except OSError:
        pass
